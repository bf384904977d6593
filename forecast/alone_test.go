package forecast

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
)

// What one model alone says is calibrated as it goes on: after noise, of a level or
// around a season, became three times as large, a stated 0.9 is 0.9 again, although
// most of what residuals are taken from is of before.
func TestAloneIsCalibrated(t *testing.T) {
	const n, turn, length, horizon = 1200, 1200, 1800, 12
	for name, load := range map[string]func(float64) float64{
		"level": func(float64) float64 { return 1000 }, "season": forecasttest.Sine(60*60, 1000, 300),
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			series := api.Series{Start: time.Unix(0, 0).UTC(), Step: time.Minute}
			for i := range length {
				sd := 10.0
				if i >= turn {
					sd = 30
				}
				series.Values = append(series.Values, load(float64(i)*60)+sd*r.NormFloat64())
			}
			covered := func(heed bool) float64 {
				s, f := NewState("a"), Auto{}
				inside, all := 0.0, 0.0
				for i := n; i < length-horizon; i++ {
					var err error
					if s, err = f.Update(s, windowOf(series, i-n, n), horizon); err != nil {
						t.Fatal(err)
					}
					if !heed {
						s.Up, s.Down, s.words = 0, 0, nil
					}
					if i < turn+10*horizon {
						continue
					}
					got, err := f.Forecast(s, windowOf(series, i-n, n), horizon, []float64{0.9})
					if err != nil {
						t.Fatal(err)
					}
					for k, q := range got.Quantiles[0] {
						all++
						if series.Values[i+k] <= q {
							inside++
						}
					}
				}
				return inside / all
			}
			with, without := covered(true), covered(false)
			t.Logf("coverage %.3f, without %.3f", with, without)
			if with < 0.87 || with > 0.95 || without > 0.86 {
				t.Errorf("coverage %.3f, without calibration %.3f; want 0.87 to 0.95, and less than 0.86", with, without)
			}
		})
	}
}

// The mixture's path from an origin, that errors are taken of, knows nothing of what
// came after it, nor of what came after those that overlap it; of others it does.
func TestHeldOutKnowsNothingOfItsOrigin(t *testing.T) {
	const horizon, n = 8, 100
	r := rand.New(rand.NewPCG(3, 4))
	y := forecasttest.Generate(n, r.Float64)
	var origins []int
	for o := 40; o+horizon < n; o += 5 {
		origins = append(origins, o)
	}
	paths := make([][]float64, 4)
	for j := range paths {
		paths[j] = forecasttest.Generate(len(origins)*horizon, r.Float64)
	}
	before := heldOut(paths, y, origins, horizon)
	if before == nil {
		t.Fatal("nothing held out")
	}
	for i, o := range origins {
		changed := append([]float64(nil), y...)
		for k := range horizon {
			changed[o+1+k] = paths[0][i*horizon+k] // the first expert is right there
		}
		after := heldOut(paths, changed, origins, horizon)
		moved := 0
		for k, v := range after {
			if v != before[k] {
				moved++
				if at := k / horizon; at == i {
					t.Fatalf("the path from origin %d knows what came after it", o)
				}
			}
		}
		if moved == 0 {
			t.Errorf("no other path learnt from what came after origin %d", o)
		}
	}
	if got := heldOut(paths, y, origins[:3], horizon); got != nil {
		t.Error("held out where all origins overlap")
	}
}
