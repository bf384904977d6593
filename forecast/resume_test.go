package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
	"github.com/mash2-io/mash2/record/delta"
)

// A state that was written and read again at every sample, whole or as what changed,
// forecasts what one that was not does, to the last bit, and is the same in the end:
// records hold states this way, and replay goes on from them. Of every forecaster, for
// histories with gaps, freaks and stretches that were cut off, that grow and slide.
func TestAStateReadAgainGoesOn(t *testing.T) {
	const begin, steps, window, horizon = 120, 60, 150, 16
	encoder, err := delta.NewEncoder[State]()
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := delta.NewDecoder[State](encoder.Schema())
	if err != nil {
		t.Fatal(err)
	}
	bits := cmp.Comparer(func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
	for _, name := range Names() {
		for seed, load := range []forecasttest.Signal{forecasttest.Heartbeat, forecasttest.Sine(300, 80, 60), forecasttest.Square(450)} {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(seed), 7))
				long := forecasttest.Sampled(load, 15*time.Second, begin+steps, 0.05, 3, 0.05, uint64(seed))
				long.Values[begin-40+r.IntN(20)] = 1e9
				long.Past = &api.Series{Start: long.Start.Add(-24 * time.Hour), Step: 10 * time.Minute, Values: month(10*time.Minute, 0).Values[:144]}
				from := long.Start.Add(time.Duration(begin+r.IntN(20)) * long.Step)
				cut := []api.Span{{From: from, To: from.Add(5 * long.Step)}}
				f := Guarded(mustByName(t, name))
				uninterrupted := NewState(name)
				interrupted := uninterrupted
				var was, read *State
				for n := begin; n < begin+steps; n++ {
					first := max(0, n-window)
					series := windowOf(long, first, n-first)
					series.Censored = nil
					if !series.End().Before(from) {
						series.Censored = cut
					}
					var want, got api.Forecast
					uninterrupted, want = said(t, f, uninterrupted, series, horizon, []float64{0.5, 0.9})
					interrupted, got = said(t, f, interrupted, series, horizon, []float64{0.5, 0.9})
					if diff := cmp.Diff(want, got, bits); diff != "" {
						t.Fatalf("after %d samples (-uninterrupted +read again):\n%s", n, diff)
					}
					if n%10 == 0 { // whole, and not from what is there
						was, read = nil, nil
					}
					b, err := encoder.Append(nil, was, &interrupted)
					if err != nil {
						t.Fatal(err)
					}
					again, err := decoder.Decode(b, read)
					if err != nil {
						t.Fatal(err)
					}
					before := interrupted
					was, read, interrupted = &before, &again, again
				}
				// What is compared is all that is written.
				want, err := encoder.Append(nil, nil, &uninterrupted)
				if err != nil {
					t.Fatal(err)
				}
				got, err := encoder.Append(nil, nil, &interrupted)
				if err != nil {
					t.Fatal(err)
				}
				if string(want) != string(got) {
					t.Error("the states differ in the end")
				}
			})
		}
	}
}
