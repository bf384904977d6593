package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// seed of the noise that is written into a script, the first of mash2 simulate's.
const seed = 1

// sample is how often load with noise or events in it is written down.
const sample = 10 * time.Second

// user is one type of users in a script. Times are seconds.
type user struct {
	Name string `json:"name"`
	// StartVUs and Stages, pairs of a duration and the number of virtual users at
	// its end, in a straight line.
	StartVUs int          `json:"startVUs,omitempty"`
	Stages   [][2]float64 `json:"stages,omitempty"`
	// Arrivals are read from a trace instead.
	Arrivals *arrivals    `json:"arrivals,omitempty"`
	Think    distribution `json:"think"`
	// Work is the CPU time of the first visit on a reference core.
	Work    distribution `json:"work"`
	Timeout float64      `json:"timeout"`
	P95Ms   float64      `json:"p95Ms"`
	Failed  float64      `json:"failedRatio"`
	// Costlier are times at which the work of a request changes.
	Costlier []costlier `json:"costlier,omitempty"`
}

type distribution struct {
	Kind      string  `json:"kind"`
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation,omitempty"`
}

// costlier multiplies the work from At for For seconds of each pass; 0 is to its end.
type costlier struct {
	At     float64 `json:"at"`
	For    float64 `json:"for,omitempty"`
	Factor float64 `json:"factor"`
}

// arrivals are how a trace becomes requests per second; see scenarios.Arrivals.
type arrivals struct {
	Column  string  `json:"column"`
	Time    string  `json:"time"`
	Step    float64 `json:"step"`
	From    float64 `json:"from"`
	Length  float64 `json:"length"`
	PeakRPS float64 `json:"peakRPS"`
	Scale   float64 `json:"scale"`
	Share   float64 `json:"share"`
}

// users of a scenario, with their loads over all its passes.
func users(s scenarios.Scenario) ([]user, error) {
	passes := s.Warmup.Passes + s.Repeat
	var out []user
	for i, u := range s.UserTypes() {
		v := user{
			Name: u.Name, Think: distributionOf(u.ThinkTime), Work: distributionOf(u.Request.Work), Timeout: u.Timeout.Seconds(),
			P95Ms: u.SLO.P95Ms, Failed: u.SLO.FailedRatio,
		}
		for _, e := range s.Events {
			if e.WorkFactor > 0 && (e.Service == "" || e.Service == u.Request.Service) {
				v.Costlier = append(v.Costlier, costlier{e.At.Seconds(), e.For.Seconds(), e.WorkFactor})
			}
		}
		own, share := u.Arrivals, 1.0
		if own == nil && len(u.Stages) == 0 {
			own, share = s.Arrivals, u.Share
		}
		if own != nil {
			if own.Repeat > 1 || len(v.Costlier) > 0 {
				return nil, fmt.Errorf("%s: a trace that repeats within a pass, or whose requests change, is not written as a script", s.Name)
			}
			v.Arrivals = &arrivals{
				Column: own.Column, Time: own.Time, Step: own.Step.Seconds(), From: own.From.Seconds(), Length: own.Length.Seconds(),
				PeakRPS: own.PeakRPS, Scale: own.Scale, Share: share,
			}
		} else {
			v.StartVUs, v.Stages = stages(s, i, passes)
		}
		out = append(out, v)
	}
	return out, nil
}

func distributionOf(d scenarios.Distribution) distribution {
	return distribution{d.Kind, d.Mean.Seconds(), d.Deviation.Seconds()}
}

// stages of the users with this index, over all passes: those of the scenario where
// they are all there is, else samples of what the simulation lets come.
func stages(s scenarios.Scenario, index, passes int) (start int, out [][2]float64) {
	t := s.TrafficOf(index, passes, seed)
	pass := s.PassDuration()
	start = t.VUs(0)
	u := s.UserTypes()[index]
	own, first := u.Stages, u.StartVUs
	if len(own) == 0 {
		own, first = s.Stages, s.StartVUs
	}
	changed := s.Noise != nil || len(u.Stages) == 0 && u.Share < 1
	for _, e := range s.Events {
		changed = changed || e.LoadFactor > 0 || e.Noise != nil
	}
	for n := range passes {
		begin := time.Duration(n) * pass
		if n > 0 {
			out = append(out, [2]float64{0, float64(t.VUs(begin))}) // each pass begins anew
		}
		if !changed {
			for _, st := range own {
				out = append(out, [2]float64{st.Duration.Seconds(), float64(st.Target)})
			}
			if n == 0 {
				start = *first
			}
			continue
		}
		for at := begin; at < begin+pass; at += sample {
			end := min(at+sample, begin+pass)
			out = append(out, [2]float64{(end - at).Seconds(), float64(t.VUs(min(end, begin+pass-1)))})
		}
	}
	return start, out
}

// leftOut are the scenario's doings that aren't load: those who run the script do
// them, or leave them.
func leftOut(s scenarios.Scenario) []string {
	var out []string
	add := func(at scenarios.Duration, format string, args ...any) {
		out = append(out, fmt.Sprintf("at %s of each pass ", at)+fmt.Sprintf(format, args...))
	}
	for _, w := range s.Policy.Switches {
		add(w.At, "the policy is %s: mash2 policy set %s", w.Policy, w.Policy)
	}
	for _, e := range s.Events {
		if e.MetricsOutage {
			add(e.At, "Prometheus is away for %s", e.For)
		}
		if e.MetricsFactor > 0 {
			add(e.At, "Prometheus reads %g of the CPU, for %s", e.MetricsFactor, e.For)
		}
		if len(e.Stockout) > 0 {
			add(e.At, "%s has no machines, for %s", strings.Join(e.Stockout, ", "), e.For)
		}
		if e.QuotaVCPU != nil {
			add(e.At, "there is a quota of %d vCPUs", *e.QuotaVCPU)
		}
		if e.FailNodes > 0 {
			add(e.At, "%d nodes of %s fail", e.FailNodes, e.Pool)
		}
		if e.Resize != nil {
			add(e.At, "pods are resized in place")
		}
	}
	if len(s.Services) > 1 {
		out = append(out, fmt.Sprintf("the %d services call each other: what is behind TARGET does that", len(s.Services)))
	}
	if s.Noise != nil && s.Arrivals != nil {
		out = append(out, fmt.Sprintf("noise of %g comes on top of the trace", s.Noise.Deviation))
	}
	return out
}

//go:embed script.js.tmpl
var text string

var page = template.Must(template.New("script").Delims("<%", "%>").Parse(text))

// script is the text of a scenario's script.
func script(s scenarios.Scenario) ([]byte, error) {
	all, err := users(s)
	if err != nil {
		return nil, err
	}
	var encoded []string
	for _, u := range all {
		line, err := json.Marshal(u)
		if err != nil {
			return nil, err
		}
		encoded = append(encoded, string(line))
	}
	data := map[string]any{
		"Name": s.Name, "Description": strings.Join(strings.Fields(s.Description), " "), "Users": encoded, "LeftOut": leftOut(s),
		"Pass": s.PassDuration().Seconds(), "Trace": "",
	}
	if s.Arrivals != nil {
		data["Trace"] = s.Arrivals.CSV
	}
	var b bytes.Buffer
	err = page.Execute(&b, data)
	return b.Bytes(), err
}
