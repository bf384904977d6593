package demand

import (
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

var (
	rules = Rules{
		Step: 15 * time.Second, RateWindow: time.Minute, EvaluationDelay: 2 * time.Second, StaleAfter: 45 * time.Second,
		MinCoverage: 0.9, ImplausibleRatio: 0.5, ImplausibleFor: 2 * time.Minute,
	}
	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	nan  = math.NaN()
)

// observed is the input of a cycle some seconds after noon, whose series ends at
// noon; usage is of a reading with a window of 15 s that ends then.
func observed(after int, usage float64, values ...float64) Input {
	now := noon.Add(time.Duration(after) * time.Second)
	in := Input{Now: now, Coverage: Coverage{Seen: 2, Expected: 2}}
	in.Demand = api.Series{Start: noon.Add(-time.Duration(len(values)-1) * rules.Step), Step: rules.Step, Values: values}
	if usage >= 0 {
		in.Usage = &api.Usage{At: now, Window: 15 * time.Second, MilliCPU: usage, Pods: 2}
	}
	return in
}

// then is the input of a later cycle, whose newest sample is as new.
func then(seconds int, usage float64, values ...float64) Input {
	in := observed(seconds+2, usage, values...)
	in.Demand.Start = in.Demand.Start.Add(time.Duration(seconds) * time.Second)
	return in
}

func TestVerdict(t *testing.T) {
	covered := func(in Input, seen, expected int32) Input {
		in.Coverage = Coverage{Seen: seen, Expected: expected}
		return in
	}
	ignored := func(in Input) Input { in.Ignored = true; return in }
	full := func(v float64) []float64 { return []float64{v, v, v, v, v, v, v} }
	for name, c := range map[string]struct {
		cycles []Input // the verdict is on the last
		want   Doubt
	}{
		"full and new":                         {[]Input{observed(2, -1, full(1000)...)}, Fresh},
		"one gap":                              {[]Input{observed(2, -1, 1, 1, 1, nan, 1, 1, 1)}, Fresh},
		"half gaps":                            {[]Input{observed(2, -1, nan, 1, nan, 1, nan, 1, 1)}, Fresh},
		"more gaps than samples":               {[]Input{observed(2, -1, 1, nan, 1, nan, nan, nan, 1)}, Gaps},
		"a first sample has no gaps before it": {[]Input{observed(2, -1, 1)}, Fresh},
		"nothing":                              {[]Input{observed(2, -1)}, NoSample},
		"gaps only":                            {[]Input{observed(2, -1, nan, nan)}, NoSample},
		"as old as may be":                     {[]Input{observed(45, -1, full(1)...)}, Fresh},
		"older":                                {[]Input{observed(46, -1, full(1)...)}, Old},
		"nine of ten pods":                     {[]Input{covered(observed(2, -1, full(1)...), 9, 10)}, Fresh},
		"eight of ten pods":                    {[]Input{covered(observed(2, -1, full(1)...), 8, 10)}, Partial},
		"no pod is said before no sample":      {[]Input{covered(observed(2, -1), 0, 2)}, Partial},
		"no pod is expected":                   {[]Input{covered(observed(2, -1, full(1)...), 0, 0)}, Fresh},
		"stale, but nobody asks":               {[]Input{ignored(observed(99, -1))}, Fresh},
		"implausible, but nobody asks":         {[]Input{observed(2, 1000, full(1000)...), ignored(then(15, 1000, 1000, 10))}, Fresh},
		"both agree":                           {[]Input{observed(2, 1000, full(1000)...)}, Fresh},
		"half of the second source":            {[]Input{observed(2, 1000, full(500)...)}, Fresh},
		"idle pods":                            {[]Input{observed(2, 10, full(0)...)}, Fresh},
		"a decline that the second source has not":      {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 400)}, Decline},
		"a ramp that the second source sees first":      {[]Input{observed(2, 1000, full(1000)...), then(15, 4000, 1000, 1000)}, Fresh},
		"a ramp that only the second source ever sees":  {[]Input{observed(2, 1000, full(1000)...), then(15, 4000, 1000, 1000), then(135, 4000, 1000, 1000)}, Decline},
		"a decline stays open without a second reading": {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 400), then(30, -1, 400, 400)}, Decline},
		"until demand is what the second one read":      {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 400), then(30, -1, 400, 990), then(45, -1, 990, 1000)}, Fresh},
		"and no sooner":                              {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 400), then(30, 990, 400, 400), then(45, -1, 400, 980)}, Decline},
		"no doubt without a second source":           {[]Input{observed(2, -1, full(1000)...), then(15, -1, 1000, 9000)}, Fresh},
		"a ramp before the second source can see it": {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 9000)}, Fresh},
		"a ramp that the second source should see":   {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 9000), then(30, 1000, 9000, 9000)}, Ramp},
		"a ramp that the second source bears out":    {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 9000), then(30, 8000, 9000, 9000)}, Fresh},
		"a ramp that is over":                        {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 9000), then(30, 1000, 9000, 9000), then(45, 1000, 9000, 1000)}, Fresh},
		"usage fell, demand follows later":           {[]Input{observed(2, 9000, full(9000)...), then(15, 1000, 9000, 9000), then(30, 1000, 9000, 9000)}, Fresh},
		"usage fell for ever, demand grows":          {[]Input{observed(2, 9000, full(9000)...), then(15, 1000, 9000, 9000), then(300, 1000, 9000, 20000)}, Fresh},
		"a ramp at the first sight":                  {[]Input{observed(2, 1000, full(9000)...), then(15, 1000, 9000, 9000)}, Fresh},
		"the second source has not all pods":         {[]Input{observed(2, 1000, full(1000)...), covered(then(15, 1000, 1000, 9000), 9, 9), covered(then(30, 1000, 9000, 9000), 9, 9)}, Fresh},
		// What is late and what is wrong.
		"usage rose from where both agreed, after a fall":   {[]Input{observed(2, 1000, 5000, 5000, 1000), then(15, 4000, 5000, 1000, 1000)}, Fresh},
		"demand falls while usage rises":                    {[]Input{observed(2, 1000, full(1000)...), then(15, 4000, 1000, 400)}, Decline},
		"demand falls a little below half of the same":      {[]Input{observed(2, 1000, full(500)...), then(15, 1000, 500, 460)}, Decline},
		"a tenth less is as much":                           {[]Input{observed(2, 1000, full(500)...), then(15, 1200, 500, 450)}, Fresh},
		"a tenth more is no rise":                           {[]Input{observed(2, 900, full(450)...), then(15, 1000, 450, 430)}, Decline},
		"half, less noise":                                  {[]Input{observed(2, 1000, full(1000)...), then(15, 1010, 1000, 500)}, Fresh},
		"more usage at the first sight":                     {[]Input{observed(2, 4000, full(1000)...)}, Fresh},
		"more usage at the first sight of a fall":           {[]Input{observed(2, 4000, 1000, 1000, 100)}, Decline},
		"more usage at the first sight of a tenth less":     {[]Input{observed(2, 4000, 1000, 1000, 900)}, Fresh},
		"more usage at the first sight, a fall is long ago": {[]Input{observed(2, 4000, 5000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000)}, Decline},
		"a decline that is over":                            {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 400), then(30, 450, 400, 400)}, Fresh},
		"another rise is waited for anew":                   {[]Input{observed(2, 1000, full(1000)...), then(15, 4000, 1000, 1000), then(30, 1000, 1000, 1000), then(150, 4000, 1000, 1000)}, Fresh},
		"a ramp of no pod that must be there":               {[]Input{observed(2, 1000, full(1000)...), covered(then(15, 1000, 1000, 9000), 0, 0), covered(then(30, 1000, 9000, 9000), 0, 0)}, Fresh},
		"a ramp to twice as much, and noise":                {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 2020), then(45, 1000, 2020, 2020)}, Fresh},
		"another ramp is waited for anew":                   {[]Input{observed(2, 1000, full(1000)...), then(15, 1000, 1000, 9000), then(30, 9000, 9000, 9000), then(45, 8200, 9000, 20000)}, Fresh},
		"usage falls while demand rises":                    {[]Input{observed(2, 9000, full(9000)...), then(15, 1000, 9000, 20000), then(45, 1000, 20000, 20000)}, Fresh},
		"a little more demand is no ramp":                   {[]Input{observed(2, 1000, full(2000)...), then(15, 990, 2000, 2100), then(45, 990, 2100, 2100)}, Fresh},
		"a tenth more demand is no ramp":                    {[]Input{observed(2, 980, full(1800)...), then(15, 980, 1800, 2000), then(45, 980, 2000, 2000)}, Fresh},
		"a tenth less usage is the same":                    {[]Input{observed(2, 1000, full(1000)...), then(15, 900, 1000, 9000), then(45, 900, 9000, 9000)}, Ramp},
	} {
		t.Run(name, func(t *testing.T) {
			judge := NewJudge[string](rules)
			var got Verdict
			for _, in := range c.cycles {
				got = judge.Verdict("web", in)
			}
			if got.Doubt != c.want || got.Stale() != (c.want != Fresh) {
				t.Errorf("verdict = %q, stale %v, want %q", got.Doubt, got.Stale(), c.want)
			}
		})
	}
}

func TestFindings(t *testing.T) {
	key := api.Key{Namespace: "shop", Name: "web"}
	in := observed(99, -1, 1)
	in.Coverage = Coverage{Seen: 1, Expected: 3}
	for doubt, want := range map[Doubt]string{
		Fresh: "", Ramp: "", Decline: "",
		NoSample: "DemandStale: there is no sample of cpu",
		Old:      "DemandStale: the newest sample of cpu is of 2026-11-21T12:00:00Z",
		Gaps:     "DemandStale: the newest sample of cpu is of 2026-11-21T12:00:00Z",
		Partial:  "DemandPartial: only 1 of 3 Ready pods have a sample of cpu",
	} {
		got := ""
		if f, ok := (Verdict{Doubt: doubt}).Finding(key, in, "cpu"); ok {
			got = f.Reason + ": " + f.Message
		}
		if got != want {
			t.Errorf("%q: %q, want %q", doubt, got, want)
		}
	}
	fall := Disagreement{Since: noon, Kind: Decline, Demand: 123456.789, Usage: 1e306}
	rise := Disagreement{Since: noon, Kind: Ramp, Demand: 1e300, Usage: 1234}
	for name, c := range map[string]struct {
		after time.Duration
		all   []Disagreement
		want  []string
	}{
		"one decline is waited for": {after: time.Minute, all: []Disagreement{fall}},
		"one decline that lasts": {after: 2 * time.Minute, all: []Disagreement{fall}, want: []string{
			"Prometheus reports much less CPU usage, 123.5 cores, than metrics.k8s.io, 1e+303; replicas do not go down"}},
		"one ramp at once": {all: []Disagreement{rise}, want: []string{
			"Prometheus reports much more CPU usage, 1e+297 cores, than metrics.k8s.io, 1.234; replicas grow no further than the second value needs"}},
		"without a second reading": {after: 2 * time.Minute, all: []Disagreement{{Since: noon, Kind: Decline, Demand: 1}}, want: []string{
			"Prometheus reports much less CPU usage than metrics.k8s.io did; replicas do not go down"}},
	} {
		var all Disagreements
		all.Add(key, nil)
		for _, d := range c.all {
			all.Add(key, &d)
		}
		got := rules.Findings(noon.Add(c.after), all, 3)
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
			continue
		}
		for i, f := range got {
			if f.Message != c.want[i] || f.Reason != ReasonImplausible {
				t.Errorf("%s: %+v, want %q", name, f, c.want[i])
			}
		}
	}
	var all Disagreements
	all.Add(key, &fall)
	all.Add(key, &fall)
	for workloads, want := range map[int]int{3: 2, 4: 2, 5: 0} {
		if got := rules.Findings(noon, all, workloads); len(got) != want {
			t.Errorf("two declines at once of %d: %v", workloads, got)
		}
	}
	if got := rules.Findings(noon, all[:1], 1); len(got) != 0 {
		t.Errorf("the only one at once: %v", got)
	}
	for want, b := range map[string]Beyond{
		"": {},
		"Prometheus reports 9 cores for a pod; such samples count as gaps":                        {Pods: 1, Reads: 9000},
		"Prometheus reports 9 cores for a pod that can use 2 at most; such samples count as gaps": {Pods: 1, Reads: 9000, Most: 2000},
	} {
		if f, ok := b.Finding(key); ok != (want != "") || f.Message != want || ok && f.Reason != ReasonImplausible {
			t.Errorf("%+v: %+v (%v), want %q", b, f, ok, want)
		}
	}
}

// TestForget: who isn't known any more is judged anew.
func TestForget(t *testing.T) {
	judge := NewJudge[string](rules)
	for _, in := range []Input{observed(2, 1000, 1000), then(15, 1000, 1000, 9000)} {
		judge.Verdict("up", in)
	}
	for _, in := range []Input{observed(2, 1000, 1000), then(15, 1000, 1000, 400)} {
		judge.Verdict("down", in)
	}
	sizes := func() [4]int {
		return [4]int{len(judge.declines), len(judge.ramps), len(judge.agreed), len(judge.borne)}
	}
	judge.Forget(map[string]bool{"up": true, "down": true})
	if got := sizes(); got != [4]int{1, 1, 2, 2} {
		t.Errorf("known: %v", got)
	}
	judge.Forget(nil)
	if got := sizes(); got != [4]int{} {
		t.Errorf("not known: %v", got)
	}
}
