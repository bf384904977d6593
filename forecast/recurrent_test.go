package forecast

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/forecast/forecasttest"
)

// A forecast that is made once does not run the net through all of the history: what
// it says at a sample is what the whole would, within a hundredth of the series' mean,
// whatever was asked before, and in a window that has slid the same to the bit.
func TestRecurrentMadeOnce(t *testing.T) {
	const n, horizon = 1500, 40
	for name, load := range map[string]func(float64) float64{"waves": forecasttest.Sine(3600, 100, 50), "steps": func(at float64) float64 {
		if math.Mod(at, 3600) < 1200 {
			return 400
		}
		return 100
	}} {
		t.Run(name, func(t *testing.T) {
			long := forecasttest.Sampled(load, time.Minute, n+10, 0, 10, 0, 4)
			params := []float64{scale(long.Values), 60}
			at := func(shift int, once bool) predictor {
				h := history{periods: []int{60}}.filled(long.Values[shift : shift+n])
				h.shift = shift
				if once {
					h.from = n - 1
				}
				return recurrent{}.predictor(h, horizon, params)
			}
			whole, once, slid := at(0, false), at(0, true), at(7, true)
			said := func(p predictor, o int) []float64 {
				dst := make([]float64, horizon)
				p.point(o, dst)
				return dst
			}
			sum, count := 0.0, 0.0
			for _, o := range []int{n - 1, 700, 699, 1000, 1001, 1030, 1002, 701, n - 2, 400, 699} {
				want, got := said(whole, o), said(once, o)
				for k := range want {
					e := math.Abs(want[k]-got[k]) / params[0]
					sum += e
					count++
					if !(e < 0.05) {
						t.Errorf("step %d from %d is %v, of the whole %v", k, o, got[k], want[k])
					}
				}
				if diff := cmp.Diff(said(at(0, true), o), got); diff != "" {
					t.Errorf("from %d it depends on what was asked before:\n%s", o, diff)
				}
				if diff := cmp.Diff(got, said(slid, o-7)); o < n-2 && diff != "" {
					t.Errorf("from %d (-window +slid):\n%s", o, diff)
				}
			}
			if v := said(slid, 3)[0]; !(v > 0) { // a window that begins within a block of samples
				t.Errorf("from the window's fourth sample it is %v", v)
			}
			t.Logf("off the whole by %.2g of the mean", sum/count)
			if !(sum/count < 0.01) {
				t.Errorf("off by %v in the mean", sum/count)
			}
		})
	}
}
