package qos

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/strategic/model"
	"github.com/mash2-io/mash2/strategic/model/dense"
	"github.com/mash2-io/mash2/strategic/model/foreign"
)

// Score of a model.
type Score struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	// Baseline is true of what models are compared with.
	Baseline bool `json:"baseline"`
	// Return is −MAE, so that more is better here too; Interval is its 95 % interval, by a
	// bootstrap over blocks of five minutes, null for fewer than three of them.
	Return   float64     `json:"return"`
	Interval *[2]float64 `json:"interval"`
	Errors
	// Gain over each baseline, by its name: how much smaller the mean absolute error is, in
	// milliseconds, with its interval.
	Gain map[string]Gain `json:"gain,omitempty"`
}

// Gain over a baseline, in milliseconds.
type Gain struct {
	Mean     float64     `json:"mean"`
	Interval *[2]float64 `json:"interval"`
}

// Evaluation compares models on the same samples.
type Evaluation struct {
	Environment string `json:"environment"`
	Seed        uint64 `json:"seed"`
	Samples     int    `json:"samples"`
	// Inputs, and from when on each is scored.
	Inputs []Scored `json:"inputs"`
	Models []Score  `json:"models"`
	// Ranking has the names of models and baselines, the smallest mean absolute error first.
	Ranking []string `json:"ranking"`
	// Promote is whether the best model's gain over every baseline is above 0 with its whole
	// interval.
	Promote *bool  `json:"promote"`
	Why     string `json:"why"`
}

// Scored is what of a file is scored.
type Scored struct {
	Input
	From time.Time `json:"from"`
	// HeldOut is true of a file that a model was trained on: only what was held out counts.
	HeldOut bool `json:"heldOut"`
}

// judged is what is scored.
type judged struct {
	name, algorithm string
	model           model.Model
	baseline        bool
}

func baseline(name string, m model.Model) judged {
	return judged{name: name, algorithm: name, model: m, baseline: true}
}

// lastValue is the name of the baseline that knows the application's latency.
const lastValue = "last value"

// constant is a model that always predicts the same.
func constant(v float64) model.Model {
	names := Features()
	return &model.Linear{Names: names, Coefficients: make([]float64, len(names)), Intercept: v}
}

// score what is given and the last value.
func score(all []judged, s []Sample, seed uint64) ([]Score, error) {
	type row struct {
		judged
		predicted []float64
	}
	var rows []row
	for _, j := range all {
		p, err := predict(j.model, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", j.name, err)
		}
		rows = append(rows, row{j, p})
	}
	last := row{judged: baseline(lastValue, nil)}
	for _, x := range s {
		last.predicted = append(last.predicted, x.Last)
	}
	rows = append(rows, last)
	var out []Score
	for _, r := range rows {
		e := errorsOf(r.predicted, s)
		o := Score{Name: r.name, Algorithm: r.algorithm, Baseline: r.baseline, Errors: e, Return: -e.MAE}
		mine := absolute(r.predicted, s)
		if i := interval(mine, s, seed); i != nil {
			o.Interval = &[2]float64{-i[1], -i[0]}
		}
		if !r.baseline {
			o.Gain = map[string]Gain{}
			for _, b := range rows {
				if b.baseline {
					gain := minus(absolute(b.predicted, s), mine)
					o.Gain[b.name] = Gain{Mean: errorsOf(b.predicted, s).MAE - e.MAE, Interval: interval(gain, s, seed)}
				}
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// Evaluate scores models on files. A model is a folder that Train wrote, or a file of ONNX,
// LightGBM, XGBoost or scikit-learn. The linear model and the mean come from the first
// folder. Errors wrap training.ErrInput where what was asked for can't be done.
func Evaluate(ctx context.Context, models, paths []string, seed uint64, progress io.Writer) (Evaluation, error) {
	out := Evaluation{Environment: Environment, Seed: seed}
	if len(models) == 0 {
		return out, training.Inputf("--model must name a folder or a file")
	}
	var all []judged
	var cards []Card
	var line model.Model
	for i, path := range models {
		if slices.Contains(models[:i], path) {
			return out, training.Inputf("--model: %s twice", path)
		}
		m, l, card, err := open(path)
		if err != nil {
			return out, training.Inputf("--model: %w", err)
		}
		if !slices.Equal(m.Features(), Features()) {
			return out, training.Inputf("--model: %s reads the features %s, there are %s", path, strings.Join(m.Features(), ", "), strings.Join(Features(), ", "))
		}
		all = append(all, judged{name: path, algorithm: card.Algorithm, model: m})
		if l == nil {
			continue
		}
		cards = append(cards, card)
		if line == nil {
			line = l
		}
	}
	if line != nil {
		all = append(all, baseline("linear", line), baseline("mean", constant(cards[0].MeanLatency)))
	}
	inputs, err := readAll(paths)
	if err != nil {
		return out, err
	}
	var s []Sample
	for _, in := range inputs {
		scored := Scored{Input: in, From: in.Samples[0].Time}
		for _, c := range cards {
			for _, t := range c.Inputs {
				if t.Hash == in.Hash && t.From.After(scored.From) {
					scored.From, scored.HeldOut = t.From, true
				}
			}
		}
		out.Inputs = append(out.Inputs, scored)
		for _, x := range in.Samples {
			if !x.Time.Before(scored.From) {
				s = append(s, x)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	out.Samples = len(s)
	if out.Models, err = score(all, s, seed); err != nil {
		return out, training.Inputf("--model: %w", err)
	}
	rank(&out)
	fmt.Fprintf(progress, "%d samples scored\n", out.Samples)
	return out, nil
}

// rank by the mean absolute error, and say whether the best model is better than a rule.
func rank(out *Evaluation) {
	ranked := slices.Clone(out.Models)
	slices.SortStableFunc(ranked, func(a, b Score) int { return cmp.Compare(a.MAE, b.MAE) })
	var best *Score
	for i, s := range ranked {
		out.Ranking = append(out.Ranking, s.Name)
		if !s.Baseline && best == nil {
			best = &ranked[i]
		}
	}
	promote := true
	var not []string
	for _, s := range ranked {
		if !s.Baseline {
			continue
		}
		if g := best.Gain[s.Name]; g.Interval == nil || g.Interval[0] <= 0 {
			promote, not = false, append(not, s.Name)
		}
	}
	out.Promote, out.Why = &promote, fmt.Sprintf("the mean absolute error of %s is smaller than that of every baseline, with the whole 95 %% interval", best.Name)
	if !promote {
		out.Why = fmt.Sprintf("%s is not shown to be better than: %s", best.Name, strings.Join(not, ", "))
	}
}

// open a model. Of files, line is nil and the card says only the algorithm.
func open(path string) (m, line model.Model, card Card, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, card, err
	}
	if info.IsDir() {
		return Load(path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, card, err
	}
	if strings.HasSuffix(path, ".onnx") {
		card.Algorithm = "onnx"
		n, err := dense.Read(data, Features())
		if err != nil {
			return nil, nil, card, fmt.Errorf("%s: %w", path, err)
		}
		return n, nil, card, nil
	}
	card.Algorithm = "ensemble"
	e, err := foreign.Read(data)
	if err != nil {
		return nil, nil, card, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil, card, nil
}
