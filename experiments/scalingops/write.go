package scalingops

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/planning/rl"
)

// ReportFile in the folder of a result shows what there is to choose from.
const ReportFile = "report.html"

// Write puts each candidate's model in a folder of its own below dir, and the report beside
// them, and fills in where they are.
func (r *Result) Write(dir string, w World, o Options, version, command string) error {
	for i := range r.Candidates {
		c := &r.Candidates[i]
		c.Model = filepath.Join(dir, c.Name)
		if err := os.MkdirAll(c.Model, 0o755); err != nil {
			return err
		}
		m := rl.Model{Environment: r.Environment, Algorithm: r.Algorithm, Policy: c.policy, Inputs: w.Inputs}
		_, err := training.Save(c.Model, m, training.Card{
			Seed: o.Seed + uint64(i), Steps: o.Steps, BestStep: o.Steps, Return: c.Score.Mean, Episodes: c.Outcome.Episodes, Curve: []training.Point{}, Seconds: r.Seconds,
			Limits: []string{
				fmt.Sprintf("It adds or takes one replica at a time, from %d to %d, for the workload whose history it was trained on.", r.Least, r.Most),
				fmt.Sprintf("Its world is a regression that explains %.0f %% of the delay's variance and is %.0f ms off.", 100*r.Fit.R2, r.Fit.Error),
				"Its return is the mean reward of a step in stretches of that history which training did not see.",
			},
			Version: version,
		})
		if err != nil {
			return err
		}
	}
	page, err := r.page(command)
	if err != nil {
		return err
	}
	r.Report = filepath.Join(dir, ReportFile)
	return os.WriteFile(r.Report, page, 0o644)
}

func (f Figure) text(unit float64, format string) string {
	text := fmt.Sprintf(format, unit*f.Mean)
	if f.Interval != nil {
		text += fmt.Sprintf(" ["+format+", "+format+"]", unit*f.Interval[0], unit*f.Interval[1])
	}
	return text
}

// Table of candidates, as they are ranked, and of rules.
func (r *Result) Table() (header []string, rows [][]string) {
	header = []string{"name", "from", "saving weighs", "mean pods", "mean delay, ms", "late, %", "beyond served, %", "score", "remarks"}
	row := func(c Candidate) []string {
		weight, remarks := "–", ""
		if c.Saving != nil {
			weight = fmt.Sprintf("%g", *c.Saving)
		}
		for _, of := range []struct {
			is   bool
			says string
		}{{c.Boundary, "sits at a bound"}, {c.LaterThanHPA, "late more often than rule:hpa"}, {c.SlowerThanHPA, "slower than rule:hpa"}, {c.Front, "front"}} {
			if of.is {
				if remarks != "" {
					remarks += ", "
				}
				remarks += of.says
			}
		}
		return []string{
			c.Name, c.DerivedFrom, weight, c.Pods.text(1, "%.2f"), c.Delay.text(1, "%.0f"), c.Late.text(100, "%.1f"), c.Unserved.text(100, "%.1f"), c.Score.text(1, "%.2f"), remarks,
		}
	}
	for _, name := range r.Ranking {
		i := slices.IndexFunc(r.Candidates, func(c Candidate) bool { return c.Name == name })
		rows = append(rows, row(r.Candidates[i]))
	}
	for _, c := range r.beside() {
		rows = append(rows, row(c))
	}
	return header, rows
}

// sentence begins with a capital letter and ends with a full stop.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// beside the candidates are the model in use and the rules.
func (r *Result) beside() []Candidate {
	if r.InUse == nil {
		return r.Rules
	}
	return append([]Candidate{*r.InUse}, r.Rules...)
}

func (r *Result) page(command string) ([]byte, error) {
	var points []report.Series
	for _, part := range [][]Candidate{r.Candidates, r.beside()} {
		for _, c := range part {
			points = append(points, report.Series{Name: c.Name, Color: len(points), X: []float64{c.Pods.Mean}, Y: []float64{c.Delay.Mean}})
		}
	}
	header, rows := r.Table()
	f := r.Fit
	var out bytes.Buffer
	intro := []string{command}
	if r.Why != "" {
		intro = append(intro, "They learned on from the model in use. "+sentence(r.Why))
	}
	err := report.Write(&out, report.Page{
		Title: "Agents to choose from",
		Intro: append(intro,
			fmt.Sprintf("A history of %d rows from %s to %s; the last %d are held out, and all figures are of them. Intervals are of 95 %%, over up to %d stretches, by Student's t.", r.Rows, r.From, r.To, r.HeldOut, episodes),
			fmt.Sprintf("Training took %.0f s for all candidates. Each begins with the network of the one before.", r.Seconds),
		),
		Sections: []report.Section{
			{
				Title: "Candidates", Tables: []report.Table{{Header: header, Rows: rows,
					Note: fmt.Sprintf("Late are steps with a delay of %g ms or more. Beyond served are requests beyond what each replica served on average in the history. An agent that sits at a bound has learned nothing; rule:least and rule:most are such agents.", r.SLA)}},
				Figures: []report.Figure{{Title: "Delay against replicas", XLabel: "mean pods", YLabel: "mean delay, ms", Scatter: true, Series: points,
					Note: "What is best is down and to the left. Which point on the front is right is the user's choice."}},
			},
			{
				Title: "The fit behind it", Text: []string{
					fmt.Sprintf("delay = %.2f ms + %.4g ms × millicores of a replica + %.4g ms × requests a second; R² %.3f, adjusted %.3f, p %.2g by the F-test, %d rows that say as much as %.0f independent ones.", f.Intercept, f.PerCPU, f.PerRequest, f.R2, f.Adjusted, f.P, f.Rows, f.Independent),
					fmt.Sprintf("The environments leave the first term out, as the paper does, and take %.3f of the rest. Against the delays observed that is %.0f ms off (root mean square), %.0f ms on average.", f.Alpha, f.Error, f.Bias),
				},
			},
		},
	})
	return out.Bytes(), err
}
