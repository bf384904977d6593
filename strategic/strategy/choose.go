package strategy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// judged is what is known of a candidate.
type judged struct {
	name  string
	score float64
	ok    bool   // it meets what is required
	why   string // why its score is not known; empty if it is
}

// chosen is the candidate in force from now on. The error says why it can't be told whether
// another would be better.
func (p *program) chosen(last *api.Choice, sc scope, in Input) (api.Choice, error) {
	c := p.spec.Choose
	out := api.Choice{Candidate: c.Candidates[0].Name}
	if last != nil && slices.ContainsFunc(c.Candidates, func(of v1alpha1.Candidate) bool { return of.Name == last.Candidate }) {
		out = *last
	}
	var here judged
	var best *judged
	var unknown, failing []string
	for i := range c.Candidates {
		j := p.judge(i, sc, in.Models)
		switch {
		case j.why != "":
			unknown = append(unknown, j.name+": "+j.why)
		case !j.ok:
			failing = append(failing, j.name)
		}
		if j.name == out.Candidate {
			here = j
		} else if j.why == "" && j.ok && (best == nil || j.score > best.score) {
			best = &j
		}
	}
	before := out
	out.Better, out.Gain, out.At = "", 0, in.Time
	if len(unknown) > 0 && (here.why != "" || best == nil) {
		// What can't be told is worth nothing, for or against.
		out.Better, out.Gain = before.Better, before.Gain
	}
	moved := func(why string) api.Choice {
		return api.Choice{Candidate: best.name, Since: in.Time, At: in.Time, Reason: why}
	}
	stays := out.Since.Add(c.MinStay.Duration)
	early := !out.Since.IsZero() && in.Time.Before(stays)
	switch {
	case here.why != "":
		out.Reason = fmt.Sprintf("it stays: the score of %s is not known: %s", here.name, here.why)
		return out, errors.New(out.Reason)
	case best == nil && !here.ok:
		out.Reason = "nothing is done: no candidate meets what is required: " + strings.Join(append(failing, unknown...), ", ")
		return out, errors.New(out.Reason)
	case best == nil:
		out.Reason = fmt.Sprintf("%s scores %.4g, and no other candidate can be moved to", here.name, here.score)
		if len(unknown) > 0 {
			return out, errors.New(strings.Join(unknown, "; "))
		}
		return out, nil
	case !here.ok && early:
		out.Reason = fmt.Sprintf("%s doesn't meet what is required and %s does, but it stays until %s at least", here.name, best.name, stamp(stays))
		return out, nil
	case !here.ok:
		return moved(fmt.Sprintf("%s doesn't meet what is required; %s does and scores %.4g", here.name, best.name, best.score)), nil
	}
	// Both would do: moving must be worth its price.
	ratio := best.score / here.score
	out.Better = best.name
	if before.Better == best.name && !before.At.IsZero() && in.Time.After(before.At) {
		hours := min(in.Time.Sub(before.At), time.Hour).Hours()
		// More than the longest payback is no better than that, and what has no end can't be told in JSON.
		out.Gain = min(max(0, before.Gain+(ratio-1)*hours), maxDuration.Hours())
	}
	margin := 10.0
	if c.MarginPercent != nil {
		margin = float64(*c.MarginPercent)
	}
	paid := out.Gain >= c.Payback.Hours()
	said := fmt.Sprintf("%s scores %.4g, %s %.4g", here.name, here.score, best.name, best.score)
	switch {
	case ratio <= 1:
		out.Reason = said
	case ratio <= 1+margin/100:
		out.Reason = fmt.Sprintf("%s, which is not %g %% better", said, margin)
	case early:
		out.Reason = fmt.Sprintf("%s, but it stays until %s at least", said, stamp(stays))
	case !paid:
		out.Reason = fmt.Sprintf("%s, which has been worth %v of the %v that a move must be worth", said,
			time.Duration(out.Gain*float64(time.Hour)).Round(time.Second), c.Payback.Duration)
	default:
		return moved(said), nil
	}
	return out, nil
}

// judge one candidate.
func (p *program) judge(i int, sc scope, models map[string]Model) judged {
	c := p.spec.Choose
	j := judged{name: c.Candidates[i].Name}
	features := map[string]float64{}
	for _, f := range p.features[i] {
		v, err := f.of.number(sc)
		if err != nil {
			j.why = fmt.Sprintf("%s: %v", f.name, err)
			return j
		}
		features[f.name] = v
	}
	inner := scope{values: map[string]any{"c": features}, missing: map[string]string{}, spent: sc.spent}
	for name, v := range sc.values {
		inner.values[name] = v
	}
	for name, why := range sc.missing {
		inner.missing[name] = why
	}
	inner.values["predicted"] = 0.0
	if p.score.predicts || p.require != nil && p.require.predicts {
		v, err := predict(c.Model, models, features)
		if err != nil {
			j.why = err.Error()
			return j
		}
		inner.values["predicted"] = v
	}
	score, err := p.score.number(inner)
	if err == nil && !(score > 0) {
		err = fmt.Errorf("its score is %g, which is not above 0", score)
	}
	if err == nil && p.require != nil {
		j.ok, err = p.require.bool(inner)
	} else {
		j.ok = true
	}
	if err != nil {
		j.why = err.Error()
	}
	j.score = score
	return j
}

// predict asks the model of a choice.
func predict(ref *v1alpha1.ModelRef, models map[string]Model, features map[string]float64) (float64, error) {
	if ref == nil {
		return 0, errors.New("predicted needs spec.choose.model")
	}
	m := models[ref.Name]
	if m == nil {
		return 0, fmt.Errorf("there is no model %q", ref.Name)
	}
	names := m.Features()
	x := make([]float64, len(names))
	var missing []string
	for i, name := range names {
		v, ok := features[name]
		if !ok {
			missing = append(missing, name)
		}
		x[i] = v
	}
	switch len(missing) {
	case 0:
	case 1:
		return 0, fmt.Errorf("model %s reads %s, which is not among the candidate's features", ref.Name, missing[0])
	default:
		return 0, fmt.Errorf("model %s reads %s, which are not among the candidate's features", ref.Name, strings.Join(missing, ", "))
	}
	v, err := m.Predict(x)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = fmt.Errorf("it predicts %g", v)
	}
	if err != nil {
		return 0, fmt.Errorf("model %s: %w", ref.Name, err)
	}
	return v, nil
}
