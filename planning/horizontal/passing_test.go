package horizontal_test

import (
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/horizontal"
)

// A peak that a trusted forecast expects to have passed before a node could come is
// brought within the tolerance only.
func TestTheFloorOfAPassingPeak(t *testing.T) {
	passing := forecast(1000, 1000, 900, 700, 500, 300, 200, 100, 100, 100)
	lasting := forecast(1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000)
	for name, c := range map[string]struct {
		demand   float64
		replicas int32
		forecast *api.Forecast
		trusted  bool
		want     int32
	}{
		"an HPA asks for the target":           {1080, 5, nil, false, 7},     // 6.17
		"a peak that passes":                   {1080, 5, passing, true, 6},  // 6.17/1.1 = 5.6
		"a peak that stays":                    {1080, 5, lasting, true, 7},  //
		"a forecast that may not lower":        {1080, 5, passing, false, 7}, //
		"within the tolerance as it is":        {1080, 6, passing, true, 6},  //
		"more than are needed":                 {1080, 9, passing, true, 7},  //
		"far beyond what was expected of it":   {3500, 5, passing, true, 20}, //
		"and without a forecast for that long": {3500, 5, forecast(1000, 900), true, 20},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.demand)
			in.Workload.Replicas, in.Workload.ReadyReplicas = c.replicas, c.replicas
			in.Forecast, in.Trusted = c.forecast, c.trusted
			got, err := horizontal.Planner{}.PlanWorkload(in)
			if err != nil {
				t.Fatal(err)
			}
			if got.Floor != c.want {
				t.Errorf("floor %d, want %d: %s", got.Floor, c.want, got.Reason)
			}
			if lowered := c.want < 7 && c.replicas == 5; lowered != strings.Contains(got.Reason, "within the tolerance, and demand is expected to have passed") &&
				got.Binding == "floor" {
				t.Errorf("%s", got.Reason)
			}
		})
	}
}
