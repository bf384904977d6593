package training

import (
	"bytes"
	"fmt"

	"github.com/mash2-io/mash2/experiments/report"
)

// CurveFile beside a model shows how it was learned.
const CurveFile = "curve.html"

// curvePage is the learning curve for people.
func curvePage(o Options, best Point, r Result) ([]byte, error) {
	line := report.Series{Name: o.Algorithm}
	for _, p := range r.Curve {
		line.X, line.Y = append(line.X, float64(p.Step)), append(line.Y, p.Return)
	}
	figure := report.Figure{
		Title: "Learning curve", XLabel: "steps of the environment", YLabel: "mean return", Series: []report.Series{line},
		Marks: []report.Mark{{X: float64(best.Step), Name: "kept"}},
		Note:  fmt.Sprintf("Each point is the mean of %d greedy episodes, which all begin alike. The best policy is kept: %.1f at step %d.", episodes, best.Return, best.Step),
	}
	var out bytes.Buffer
	err := report.Write(&out, report.Page{
		Title:    o.Algorithm + " in " + o.Environment,
		Intro:    []string{fmt.Sprintf("mash2 train --environment %s --algorithm %s --steps %d --seed %d: %d steps in %.1f s. The card beside it says what the model is and is not.", o.Environment, o.Algorithm, o.Steps, o.Seed, r.Steps, r.Seconds)},
		Sections: []report.Section{{Title: "Return", Figures: []report.Figure{figure}}},
	})
	return out.Bytes(), err
}
