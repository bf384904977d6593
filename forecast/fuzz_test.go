package forecast

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// FuzzForecasters: any values, of any number, give a sound distribution or one
// of the documented errors, from every forecaster, monitored or not, and guarded as
// the operator's is through a few updates of a window that grows and slides, with
// some of its samples cut off.
func FuzzForecasters(f *testing.F) {
	bytes := func(values ...float64) []byte {
		var out []byte
		for _, v := range values {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
		}
		return out
	}
	nan := math.NaN()
	f.Add(bytes(), 3, 0)
	f.Add(bytes(1), 3, 0)
	f.Add(bytes(1, nan, 2), 5, 1)
	f.Add(bytes(nan, nan), 5, 2)
	f.Add(bytes(1, 2, math.Inf(1)), 5, 3)
	f.Add(bytes(1, 2, 1e300, 4), 5, 4)
	f.Add(bytes(1, 2, 1e60, 0, 0, 0, 5e-324, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7), 9, 5)
	constant := make([]float64, 120)
	season := make([]float64, 120)
	for i := range season {
		constant[i] = 7
		season[i] = 50 + 40*math.Sin(float64(i)*math.Pi/6)
	}
	spike := append([]float64(nil), season...)
	spike[77] = 1e59
	for model := range Names() {
		f.Add(bytes(constant...), 12, model)
		f.Add(bytes(season...), 12, model)
		f.Add(bytes(spike...), 30, model)
	}
	levels := []float64{0.1, 0.5, 0.9, 0.99}
	f.Fuzz(func(t *testing.T, data []byte, horizon, model int) {
		series := api.Series{Start: time.Unix(0, 0), Step: time.Minute}
		for ; len(data) >= 8 && len(series.Values) < 500; data = data[8:] {
			series.Values = append(series.Values, math.Float64frombits(binary.LittleEndian.Uint64(data)))
		}
		horizon = (horizon%70 + 70) % 70
		names := Names()
		model = (model%len(names) + len(names)) % len(names)
		forecaster, err := ByName(names[model])
		if err != nil {
			t.Fatal(err)
		}
		sound := func(got api.Forecast, err error) {
			t.Helper()
			if err != nil {
				if !errors.Is(err, ErrNoHistory) && !errors.Is(err, ErrBadSample) && !errors.Is(err, ErrBadRequest) {
					t.Fatalf("%s: %v", names[model], err)
				}
				return
			}
			for h := range horizon {
				if m := got.Mean[h]; !(m >= 0) || math.IsInf(m, 0) {
					t.Fatalf("%s: mean %v", names[model], m)
				}
				for i := range levels {
					v := got.Quantiles[i][h]
					if !(v >= 0) || math.IsInf(v, 0) || i > 0 && v < got.Quantiles[i-1][h] || v > got.PeakQuantiles[i] {
						t.Fatalf("%s: quantile %v of step %d is %v", names[model], levels[i], h, v)
					}
				}
			}
		}
		for _, forecaster := range []Forecaster{forecaster, Monitored{forecaster}} {
			sound(Predict(forecaster, series, horizon, levels))
		}
		guarded := Guarded(forecaster)
		s := NewState(names[model])
		const updates = 4
		for k := 1; k <= updates; k++ {
			from, to := (k-1)*len(series.Values)/32, k*len(series.Values)/updates
			window := series
			window.Start, window.Values = at(series, from), series.Values[from:to]
			// A tenth of what there is, in two stretches.
			for _, first := range []int{from + (to-from)/3, to - (to-from)/20} {
				window.Censored = append(window.Censored, api.Span{From: at(series, first), To: at(series, first+(to-from)/20)})
			}
			next, err := guarded.Update(s, window, horizon)
			if err != nil {
				sound(api.Forecast{}, err)
				continue
			}
			s = next
			sound(guarded.Forecast(s, window, horizon, levels))
		}
	})
}

// at is the time of a sample.
func at(s api.Series, i int) time.Time { return s.Start.Add(time.Duration(i) * s.Step) }
