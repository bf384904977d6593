package external

import (
	"math"
	"testing"

	"github.com/mash2-io/mash2/experiments/baseline"
)

// TestValueByTheStockRules: what a HorizontalPodAutoscaler makes of the value, by the rules
// of its controller, for all pairs of current and planned replicas up to 300.
func TestValueByTheStockRules(t *testing.T) {
	const most = 300
	left := map[string]int{} // changes by one that the usual tolerance swallows
	var firstUp, firstDown int32
	for current := int32(1); current <= most; current++ {
		for planned := int32(1); planned <= most; planned++ {
			v := Value(planned, current)
			if v <= float64(planned-1) || v > float64(planned) {
				t.Fatalf("value %g for %d", v, planned)
			}
			// As quantities of thousandths have it.
			v = math.Round(v*1000) / 1000
			exact := hpa(t, 0, current, v)
			if exact != min(planned, doubled(current)) {
				t.Fatalf("without tolerance %d → %d: %d by value %g", current, planned, exact, v)
			}
			switch usual := hpa(t, 0.1, current, v); {
			case usual == min(planned, doubled(current)):
			case usual != current:
				t.Fatalf("with tolerance %d → %d: %d by value %g", current, planned, usual, v)
			case math.Abs(float64(planned)/float64(current)-1) > 0.1+1e-9:
				t.Fatalf("with tolerance %d → %d: nothing changes by value %g", current, planned, v)
			case planned == current+1:
				left["up"]++
				if firstUp == 0 {
					firstUp = planned
				}
			case planned == current-1:
				left["down"]++
				if firstDown == 0 {
					firstDown = planned
				}
			}
		}
	}
	if firstUp != 11 || firstDown != 19 {
		t.Errorf("the first changes by one that are swallowed: up to %d, down to %d; the doc of Value says 11 and 19", firstUp, firstDown)
	}
	t.Logf("changes by one that a tolerance of 10 %% swallows: %v of %d", left, most)
}

// doubled is the controller's own limit without a behavior: twice as many, or 4.
func doubled(current int32) int32 { return max(2*current, 4) }

// hpa is one sync of the HPA that KEDA makes for the metric.
func hpa(t *testing.T, tolerance float64, current int32, value float64) int32 {
	t.Helper()
	k := baseline.NewKEDA(Target, 1, 10_000)
	k.Tolerance, k.DownscaleStabilization = tolerance, 0
	got, err := k.Reconcile(0, current, current, value)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
