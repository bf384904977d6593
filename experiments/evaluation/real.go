package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/score"
)

// experiment is one scenario on the real control plane and in virtual time.
type experiment struct {
	name        string // of its folder: the scenario's, or more
	by          string // the program that was recorded, empty if that was not told
	recording   score.Recording
	differences []score.Difference
	seeds       int
}

const latency = "Response time, 95th percentile"

// shown are the scenarios of the MAS-H² paper, in its order.
var shown = []string{"heartbeat", "flash-sale"}

// recordedBy says which program each of them was recorded of.
func recordedBy(all []experiment) string {
	var told []string
	same := true
	for _, e := range all {
		if e.by != "" {
			told = append(told, e.name+" by "+e.by)
		}
		same = same && e.by == all[0].by
	}
	switch {
	case len(told) == 0:
		return ""
	case same:
		told = []string{"by " + all[0].by}
	}
	return "Measured and simulated " + strings.Join(told, "; ") + ".\n\n"
}

// realPlane reads the recordings that there are, in the order of the paper's
// scenarios, and draws their pictures.
func (in inputs) realPlane(pictures string) ([]experiment, error) {
	var out []experiment
	files, err := filepath.Glob(filepath.Join(in.real, "*", score.RecordingFile))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, file := range files {
		folder := filepath.Dir(file)
		name := filepath.Base(folder)
		if _, err := os.Stat(filepath.Join(folder, "simulated", score.RecordingFile)); errors.Is(err, os.ErrNotExist) {
			continue // not compared yet
		}
		recorded, err := score.ReadRecording(file)
		if err != nil {
			return nil, err
		}
		simulated, err := score.ReadRecording(filepath.Join(folder, "simulated", score.RecordingFile))
		if err != nil {
			return nil, err
		}
		e := experiment{name: name, recording: recorded}
		version, err := os.ReadFile(filepath.Join(filepath.Clean(folder), "version"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		e.by = strings.TrimSpace(string(version))
		var told struct {
			Runs    []score.Run
			Against []score.Difference
		}
		data, err := os.ReadFile(filepath.Join(in.real, name+"-simulated.json"))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &told); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		seeds := map[uint64]bool{}
		for _, r := range told.Runs {
			seeds[r.Seed] = true
		}
		e.differences, e.seeds = told.Against, len(seeds)
		if err := e.draw(simulated, pictures); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b experiment) int {
		return cmp.Compare(slices.Index(shown, a.recording.Scenario), slices.Index(shown, b.recording.Scenario))
	})
	return out, nil
}

// draw makes the pictures: reality and simulation in one, and the paper's figures.
func (e experiment) draw(simulated score.Recording, folder string) error {
	// The simulation with the recording's own seed.
	var same []score.Outcome
	for _, o := range e.recording.Outcomes {
		i := slices.IndexFunc(simulated.Outcomes, func(s score.Outcome) bool { return s.Scaler == o.Scaler && s.Seed == o.Seed })
		if i < 0 {
			return fmt.Errorf("%s: %s was not simulated with seed %d", e.recording.Scenario, o.Scaler, o.Seed)
		}
		same = append(same, simulated.Outcomes[i])
	}
	both, err := score.ComparisonFigures(e.recording.Outcomes, same, e.recording.Switches, score.RealAndSimulated)
	if err != nil {
		return err
	}
	of := func(all []report.Figure, titles ...string) []report.Figure {
		var out []report.Figure
		for _, title := range titles {
			for _, f := range all {
				if f.Title == title {
					out = append(out, f)
				}
			}
		}
		return out
	}
	for i := range both {
		both[i].LogY = both[i].Title == latency // cold it is a hundred times what it is warm
	}
	over, pairs, err := score.Figures(e.recording.Outcomes, e.recording.Switches)
	if err != nil {
		return err
	}
	for name, sheet := range map[string]report.Sheet{
		"real": {Figures: of(both, "Replicas", latency, "Cumulative node cost")},
		"paper": {Figures: of(over, "Replicas", "CPU utilisation", "Infrastructure by pool", "Scheduling pressure", "Cumulative pod cost",
			"CPU waste", "Node packing efficiency")},
		"pairs": {Figures: pairs, Columns: 4},
	} {
		if name != "real" && e.name != e.recording.Scenario {
			continue // the paper's figures once for each of its scenarios
		}
		for ending, write := range map[string]func(io.Writer) error{"png": sheet.PNG, "svg": sheet.SVG} {
			if ending == "svg" && name != "real" {
				continue // clouds of points are large as SVG
			}
			file, err := os.Create(filepath.Join(folder, e.picture(name)+"."+ending))
			if err != nil {
				return err
			}
			if err := errors.Join(write(file), file.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e experiment) picture(name string) string {
	return "results-" + e.name + "-" + name
}

// runs by pass of every scaler.
func (e experiment) runs() []score.Run {
	var out []score.Run
	for _, o := range e.recording.Outcomes {
		for pass := range o.WarmupPasses + o.Passes {
			if r, err := o.RunOfPass(pass); err == nil {
				out = append(out, r)
			}
		}
	}
	return out
}

func (e experiment) section() string {
	var b strings.Builder
	o := e.recording.Outcomes[0]
	passes := "1 pass"
	if n := o.WarmupPasses + o.Passes; n > 1 {
		passes = fmt.Sprintf("%d passes", n)
	}
	fmt.Fprintf(&b, "### %s, %g× real time\n\n%s of %.0f min, %s in one cluster at once, seed %d; ", e.name, e.recording.Speed,
		passes, o.PassSeconds/60, strings.Join(e.recording.Scalers(), ", "), e.recording.Seed)
	fmt.Fprintf(&b, "the simulation of the same with %d seeds, in the picture with the same one.\n\n", e.seeds)
	fmt.Fprintf(&b, "![%s, real and simulated](%s.png)\n\n", e.name, e.picture("real"))
	fmt.Fprintf(&b, "([SVG](%s.svg))\n\n", e.picture("real"))
	columns := []string{"sloViolationMinutes", "p95Ms", "failedRatio", "maxReplicas", "meanReplicas", "meanCpuUtilization", "pendingPodSeconds", "nodeHours", "costUsd", "podCostUsd", "scaleActions"}
	b.WriteString("| scaler | pass |")
	for _, c := range columns {
		b.WriteString(" " + score.MetricNamed(c).Title + " |")
	}
	fmt.Fprintf(&b, "\n|%s\n", strings.Repeat("---|", len(columns)+2))
	for _, r := range e.runs() {
		fmt.Fprintf(&b, "| %s | %d |", r.Scaler, r.Pass+1)
		for _, c := range columns {
			m := score.MetricNamed(c)
			v := m.Of(r)
			b.WriteString(" " + score.IntervalOf([]float64{v}).Text(m) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	t := score.DifferenceTable(e.differences, score.RealAndSimulated)
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(t.Header, " | "), strings.Repeat("---|", len(t.Header)))
	for _, row := range t.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteString("\n")
	return b.String()
}
