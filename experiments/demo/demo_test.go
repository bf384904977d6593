package demo

import (
	"testing"

	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/testbed"
)

func TestPhasesOfPasses(t *testing.T) {
	outcome := score.Outcome{Scaler: testbed.Mash2, PassSeconds: 60, Passes: 3}
	for name, tc := range map[string]struct {
		switched int
		want     int // passes of the switch
	}{
		"no added switch":        {-1, 0},
		"a switch in the third":  {2, 1},
		"a switch in the second": {1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			runs, err := runsOf([]score.Outcome{outcome}, tc.switched)
			if err != nil || len(runs) != 3 {
				t.Fatalf("%d runs, %v", len(runs), err)
			}
			got := 0
			for _, r := range runs {
				if r.Phase == score.Switch {
					got++
				}
			}
			if got != tc.want || tc.want > 0 && runs[2].Phase != score.Switch {
				t.Errorf("%d passes of the switch in %+v, want %d, the last ones", got, runs, tc.want)
			}
		})
	}
}

func TestMinReadyPods(t *testing.T) {
	runs := []score.Run{{Scaler: testbed.Baseline, MinReadyPods: 1}, {Scaler: testbed.Mash2, MinReadyPods: 3}, {Scaler: testbed.Mash2, MinReadyPods: 2}}
	if got := minReadyPods(runs); got != 2 {
		t.Errorf("%d, want 2", got)
	}
	if got := minReadyPods(runs[:1]); got != -1 {
		t.Errorf("without mash2 %d, want -1", got)
	}
}

func TestEveryRowHasACellForEachColumn(t *testing.T) {
	p95 := 12.4
	r := Result{Runs: []score.Run{{Scaler: "hpa", Pass: 1, Phase: score.Switch, P95Ms: &p95}}}
	rows := r.Rows()
	if len(rows) != 1 || len(rows[0]) != len(r.Header()) || rows[0][1] != "2 switch" || rows[0][3] != "–" || rows[0][7] != "12" {
		t.Errorf("rows %q under %q", rows, r.Header())
	}
}
