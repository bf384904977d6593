package strategy

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

var begin = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// parse a strategy of the namespace shop by its spec.
func parse(t testing.TB, name, spec string) api.Strategy {
	t.Helper()
	list, err := Parse([]byte(document(name, spec)))
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func document(name, spec string) string {
	return fmt.Sprintf("apiVersion: mash2.io/v1alpha1\nkind: Strategy\nmetadata: {name: %s, namespace: shop}\nspec:\n  %s\n",
		name, strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  "))
}

// steps are readings of the sensor load every so often; NaN can't be read.
func steps(every time.Duration, load ...float64) []Step {
	var out []Step
	for i, v := range load {
		s := Step{Time: begin.Add(time.Duration(i) * every), Sensors: map[string]*float64{"load": &v}}
		if math.IsNaN(v) {
			s.Sensors["load"] = nil
		}
		out = append(out, s)
	}
	return out
}

const load = "sensors: [{name: load, prometheus: {query: sum(load)}, staleAfter: 24h}]\n"

func TestRulesOverTime(t *testing.T) {
	gone := math.NaN()
	const act = ", actions: [{setPolicy: {policy: PERFORMANCE}}]}]"
	for name, c := range map[string]struct {
		spec string
		load []float64
		want string // + on, - off
	}{
		"on while it is true":                 {load + "rules: [{name: r, when: load > 5" + act, []float64{5, 6, 5, 7}, "-+-+"},
		"until is another bound":              {load + "rules: [{name: r, when: load > 5, until: load < 3" + act, []float64{4, 6, 4, 3, 2, 4}, "-+++--"},
		"for so long without a break":         {load + "rules: [{name: r, when: load > 5, for: 2m" + act, []float64{6, 6, 4, 6, 6, 6, 4, 4, 4}, "-----+++-"},
		"it stays for a while, on and off":    {load + "rules: [{name: r, when: load > 5, minStay: 2m" + act, []float64{6, 0, 0, 6, 6, 6}, "++--++"},
		"what can't be read holds":            {load + "rules: [{name: r, when: load > 5" + act, []float64{gone, 6, gone, gone, 4, gone}, "-+++--"},
		"what divides by nothing holds":       {load + "rules: [{name: r, when: 10 / int(load) > 1" + act, []float64{5, 0, 100}, "++-"},
		"also of fractional numbers":          {load + "rules: [{name: r, when: 10.0 / load > 1.0" + act, []float64{5, 0, 100}, "++-"},
		"the hour, in a time zone":            {"timeZone: Asia/Tokyo\nrules: [{name: r, when: hour == 18 && minute >= 2" + act, []float64{0, 0, 0, 0}, "--++"},
		"a rule of another's name is its own": {load + "rules: [{name: a, when: 'false'" + act[:len(act)-1] + ", {name: r, when: load > 5" + act, []float64{6, 4}, "+-"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, r := range Run([]api.Strategy{parse(t, "s", c.spec)}, steps(time.Minute, c.load...), nil) {
				rules := r.States[0].Rules
				on := rules[len(rules)-1].On
				if len(r.Actions) != map[bool]int{true: 1}[on] || rules[0].Reason == "" {
					t.Errorf("on %v: %+v", on, r)
				}
				got += map[bool]string{true: "+", false: "-"}[on]
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestTriggeredByHand: a rule that a person triggers is on once, for its stay at least; a
// trigger that is old, of the future or of another rule has no effect.
func TestTriggeredByHand(t *testing.T) {
	const act = ", actions: [{setPolicy: {policy: PERFORMANCE}}]}]"
	for name, c := range map[string]struct {
		spec string
		// target is triggered when the third cycle is decided, or so much later.
		target string
		later  time.Duration
		load   []float64
		want   string
	}{
		"on for one cycle":                {load + "rules: [{name: r, when: load > 5" + act, "rule/r", 0, []float64{0, 0, 0, 0, 0}, "--+--"},
		"on for its stay":                 {load + "rules: [{name: r, when: load > 5, minStay: 2m" + act, "rule/r", 0, []float64{0, 0, 0, 0, 0, 0}, "--++--"},
		"on although nothing can be read": {load + "rules: [{name: r, when: load > 5" + act, "rule/r", 0, []float64{math.NaN(), 0, math.NaN(), 0}, "--+-"},
		"it is on already":                {load + "rules: [{name: r, when: load > 5" + act, "rule/r", 0, []float64{6, 6, 6, 0, 0}, "+++--"},
		"another rule":                    {load + "rules: [{name: r, when: load > 5" + act, "rule/x", 0, []float64{0, 0, 0, 0}, "----"},
		"long ago":                        {load + "rules: [{name: r, when: load > 5" + act, "rule/r", -11 * time.Minute, []float64{0, 0, 0, 0}, "----"},
		"by a clock that is far ahead":    {load + "rules: [{name: r, when: load > 5" + act, "rule/r", time.Hour, []float64{0, 0, 0, 0}, "----"},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, "s", c.spec)
			var last []api.StrategyState
			got := ""
			for i, v := range c.load {
				now := begin.Add(time.Duration(i) * time.Minute)
				s.Readings = []api.SensorReading{{Sensor: "load", Value: v, At: now}}
				if i >= 2 {
					s.Triggered = []api.HandTrigger{{Target: c.target, At: begin.Add(2*time.Minute - time.Second).Add(c.later)}}
				}
				out := Decide(Input{Time: now, Strategies: []api.Strategy{s}, Last: last})
				last = out.States
				got += map[bool]string{true: "+", false: "-"}[last[0].Rules[0].On]
				if i == 2 && strings.HasPrefix(c.want, "--+") && last[0].Rules[0].Reason != "it was triggered by hand at 2026-03-02T09:01:59Z" {
					t.Errorf("%+v", last[0].Rules[0])
				}
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestParseRefuses: what can't be used is named by its path.
func TestParseRefuses(t *testing.T) {
	const act = "actions: [{setPolicy: {policy: P}}]"
	deep := strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100)
	for name, c := range map[string]struct{ spec, want string }{
		"nothing to do":               {"mode: Full", "spec: needs rules, choose, learn or outputs"},
		"an unknown field":            {"rulez: []", `unknown field "spec.rulez"`},
		"a field twice":               {"mode: Full\nmode: Off", "already set"},
		"a wrong type":                {"priority: high", "spec.priority: must be a int32"},
		"a mode that there isn't":     {"mode: Fast\noutputs: {a: '1'}", "spec.mode: must be Off, Shadow or Full"},
		"a time zone nowhere":         {"timeZone: Mars\noutputs: {a: '1'}", "spec.timeZone"},
		"a sensor without a source":   {"sensors: [{name: a}]\noutputs: {a: '1'}", "spec.sensors[0]: must have one of"},
		"two sources":                 {"sensors: [{name: a, prometheus: {query: up}, http: {url: 'http://a/', jsonPath: '{.x}'}}]\noutputs: {a: '1'}", "spec.sensors[0]: must have one of"},
		"another scheme":              {"sensors: [{name: a, http: {url: 'file:///etc/passwd', jsonPath: '{.x}'}}]\noutputs: {a: '1'}", "spec.sensors[0].http.url: must begin with http"},
		"a password":                  {"sensors: [{name: a, http: {url: 'http://u:p@a/', jsonPath: '{.x}'}}]\noutputs: {a: '1'}", "spec.sensors[0].http.url: must have no user"},
		"a walk without end":          {"sensors: [{name: a, http: {url: 'http://a/', jsonPath: '{..x}'}}]\noutputs: {a: '1'}", "spec.sensors[0].http.jsonPath: must have no recursive"},
		"no path":                     {"sensors: [{name: a, http: {url: 'http://a/', jsonPath: 'x'}}]\noutputs: {a: '1'}", "spec.sensors[0].http.jsonPath: must be one expression in braces"},
		"a secret":                    {"sensors: [{name: a, object: {resource: secrets, name: x, jsonPath: '{.x}'}}]\noutputs: {a: '1'}", "spec.sensors[0].object.resource: no numbers of secrets"},
		"a kind":                      {"sensors: [{name: a, object: {resource: ConfigMap, name: x, jsonPath: '{.x}'}}]\noutputs: {a: '1'}", "spec.sensors[0].object.resource: must be a resource in its plural"},
		"an object elsewhere":         {"sensors: [{name: a, object: {resource: configmaps, name: ../x, jsonPath: '{.x}'}}]\noutputs: {a: '1'}", "spec.sensors[0].object.name"},
		"a reserved name":             {"sensors: [{name: hour, prometheus: {query: up}}]\noutputs: {a: '1'}", "spec.sensors[0].name: \"hour\" has a meaning"},
		"two sensors of a name":       {"sensors: [{name: a, prometheus: {query: up}}, {name: a, prometheus: {query: up}}]\noutputs: {a: '1'}", "spec.sensors[1].name"},
		"a cron of nothing":           {"sensors: [{name: a, prometheus: {query: up}, when: {cron: {schedule: '* *'}}}]\noutputs: {a: '1'}", "spec.sensors[0].when.cron.schedule"},
		"two times":                   {"sensors: [{name: a, prometheus: {query: up}, when: {date: '2026-01-01T00:00:00Z', interval: {every: 1m}}}]\noutputs: {a: '1'}", "spec.sensors[0].when: must have one of"},
		"too often":                   {"sensors: [{name: a, prometheus: {query: up}, when: {anyOf: [{interval: {every: 1ms}}]}}]\noutputs: {a: '1'}", "spec.sensors[0].when.anyOf[0].interval.every"},
		"CEL that isn't":              {"rules: [{name: r, when: 'load >', " + act + "}]", "spec.rules[0].when: ERROR"},
		"a sensor that there isn't":   {"rules: [{name: r, when: load > 5, " + act + "}]", "spec.rules[0].when: ERROR: <input>:1:1: undeclared reference to 'load'"},
		"a rule that is a number":     {"rules: [{name: r, when: '1', " + act + "}]", "spec.rules[0].when: must give true or false, gives a int"},
		"an output that is a text":    {"outputs: {a: '\"x\"'}", "spec.outputs.a: must give a number"},
		"nested without an end":       {"rules: [{name: r, when: '" + deep + "', " + act + "}]", "spec.rules[0].when"},
		"endless in length":           {"outputs: {a: '" + strings.Repeat("1+", 1100) + "1'}", "spec.outputs.a: is longer than 2048 bytes"},
		"a rule without an action":    {"rules: [{name: r, when: 'true', actions: []}]", "spec.rules[0].actions: is required"},
		"an action of two kinds":      {"rules: [{name: r, when: 'true', actions: [{setPolicy: {policy: P}, move: {pools: [a]}}]}]", "spec.rules[0].actions[0]: must have one of"},
		"bounds the wrong way round":  {"rules: [{name: r, when: 'true', actions: [{setBounds: {workload: w, minReplicas: 3, maxReplicas: 2}}]}]", "spec.rules[0].actions[0].setBounds.minReplicas"},
		"bounds of nothing":           {"rules: [{name: r, when: 'true', actions: [{setBounds: {workload: w}}]}]", "spec.rules[0].actions[0].setBounds: needs"},
		"one candidate":               {"choose: {candidates: [{name: a, pools: [p]}], score: '1'}", "spec.choose.candidates: must have 2 to 8"},
		"a prediction by no model":    {"choose: {candidates: [{name: a, pools: [p]}, {name: b, pools: [q]}], score: predicted}", "spec.choose.model: is required"},
		"a feature without a name":    {"choose: {candidates: [{name: a, pools: [p], features: {'': '1'}}, {name: b, pools: [q]}], score: '1'}", `spec.choose.candidates[0].features: "" must have 1 to 253 bytes`},
		"a feature of another's name": {"choose: {candidates: [{name: a, pools: [p], features: {x: nope}}, {name: b, pools: [q]}], score: '1'}", "spec.choose.candidates[0].features.x: ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(document("s", c.spec)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	for text, want := range map[string]string{
		"":                            "has no Strategy",
		"kind: Strategy":              "apiVersion, kind: must be mash2.io/v1alpha1",
		document("''", "outputs: {}"): "metadata.name: is required",
		document("a", "outputs: {a: '1'}") + "---\n" + document("b", "mode: x"): "document 2: spec.mode",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestHostileExpressions: what would take for ever ends at its limit, holds its rule, and
// leaves other strategies alone.
func TestHostileExpressions(t *testing.T) {
	digits := "[0,1,2,3,4,5,6,7,8,9]"
	endless := "true"
	for range 7 { // 10^7 evaluations
		endless = digits + ".all(x, " + endless + ")"
	}
	long := "'aaaaaaaaaaaaaaaa'"
	for range 12 {
		long = "(" + long + " + " + long[:min(len(long), 60)] + ")"
	}
	bad := parse(t, "bad", "rules: [{name: r, when: '"+endless+"', actions: [{setPolicy: {policy: P}}]}]")
	good := parse(t, "good", "rules: [{name: r, when: 'true', actions: [{setPolicy: {policy: Q}}]}]")
	got := Run([]api.Strategy{bad, good}, steps(time.Minute, 0), nil)[0]
	if len(got.Actions) != 1 || got.Actions[0].Policy != "Q" {
		t.Errorf("actions %+v", got.Actions)
	}
	if len(got.Findings) != 1 || !strings.Contains(got.Findings[0], "actual cost limit exceeded") {
		t.Errorf("findings %q", got.Findings)
	}
	// Numbers that are none, or huge, ask for nothing impossible.
	for expr, want := range map[string]int32{"1e300": maxReplicas, "-5": 0, "2.1": 3} {
		s := parse(t, "s", "rules: [{name: r, when: 'true', actions: [{proposeReplicas: {workload: web, replicas: '"+expr+"'}}]}]")
		if a := Run([]api.Strategy{s}, steps(time.Minute, 0), nil)[0].Actions; len(a) != 1 || a[0].MinReplicas != want {
			t.Errorf("%s: %+v, want %d", expr, a, want)
		}
	}
	s := parse(t, "s", "rules: [{name: r, when: 'true', actions: [{proposeReplicas: {workload: web, replicas: '1.0 / 0.0'}}]}]")
	if r := Run([]api.Strategy{s}, steps(time.Minute, 0), nil)[0]; len(r.Actions) != 0 || len(r.Findings) != 1 {
		t.Errorf("infinitely many replicas: %+v", r)
	}
}

// TestProposalsStay: where the number of replicas can't be told for a while, what the rule proposed last stays as long as
// it is on.
func TestProposalsStay(t *testing.T) {
	s := parse(t, "s", "sensors: [{name: load, prometheus: {query: up}}, {name: jobs, prometheus: {query: jobs}}]\n"+
		"rules: [{name: r, when: load > 5, actions: [{proposeReplicas: {workload: web, replicas: jobs}}]}]")
	begin := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var last []api.StrategyState
	for i, c := range []struct {
		load, jobs float64 // below 0: not known
		want       int32   // below 0: nothing
	}{{9, -1, -1}, {9, 8, 8}, {9, -1, 8}, {-1, -1, 8}, {9, 6, 6}, {9, -1, 6}, {1, -1, -1}, {9, -1, -1}} {
		now := begin.Add(time.Duration(i) * time.Hour)
		s.Readings = nil
		for name, v := range map[string]float64{"load": c.load, "jobs": c.jobs} {
			if v >= 0 {
				s.Readings = append(s.Readings, api.SensorReading{Sensor: name, Value: v, At: now})
			}
		}
		out := Decide(Input{Time: now, Strategies: []api.Strategy{s}, Last: last})
		last = out.States
		got := int32(-1)
		if len(out.Actions) == 1 {
			got = out.Actions[0].MinReplicas
		}
		if got != c.want || (c.load < 0 || c.jobs < 0 && c.load > 5) != (len(out.Findings) > 0) {
			t.Errorf("cycle %d: %+v, want %d; %+v", i, out.Actions, c.want, out.Findings)
		}
	}
}

// TestContradictions: of two that want different things the one with priority wins, and the
// other is told.
func TestContradictions(t *testing.T) {
	of := func(name, policy string, priority int, mode string) api.Strategy {
		return parse(t, name, fmt.Sprintf("mode: '%s'\npriority: %d\nrules: [{name: r, when: 'true', actions: [{setPolicy: {policy: %s}}]}]", mode, priority, policy))
	}
	for name, c := range map[string]struct {
		strategies []api.Strategy
		want       string
		told       int
	}{
		"priority wins":                       {[]api.Strategy{of("a", "A", 1, "Full"), of("b", "B", 2, "Full")}, "B", 1},
		"of equals the first by name":         {[]api.Strategy{of("b", "B", 0, "Full"), of("a", "A", 0, "Full")}, "A", 1},
		"who wants the same contradicts none": {[]api.Strategy{of("a", "A", 1, "Full"), of("b", "A", 2, "Full")}, "A", 0},
		"Shadow neither wins nor contradicts": {[]api.Strategy{of("a", "A", 1, "Full"), of("b", "B", 2, "Shadow")}, "A", 0},
		"Off wants nothing":                   {[]api.Strategy{of("a", "A", 1, "Full"), of("b", "B", 2, "Off")}, "A", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := Run(c.strategies, steps(time.Minute, 0), nil)[0]
			done := ""
			for _, a := range r.Actions {
				if a.NotDone == "" {
					done += a.Policy
				}
			}
			if done != c.want || len(r.Findings) != c.told {
				t.Errorf("done %s, told %q; want %s and %d", done, r.Findings, c.want, c.told)
			}
		})
	}
}

// TestOutputs of one strategy are sensors of another, a cycle later.
func TestOutputs(t *testing.T) {
	from := parse(t, "from", load+"outputs: {double: load * 2.0}")
	to := parse(t, "to", "sensors: [{name: other, strategy: {name: from, output: double}}]\nrules: [{name: r, when: other > 10, actions: [{move: {pools: [p]}}]}]")
	got := ""
	for _, r := range Run([]api.Strategy{to, from}, steps(time.Minute, 6, 6, 1, 1), nil) {
		got += fmt.Sprint(len(r.Actions))
	}
	if got != "0110" {
		t.Errorf("actions %s", got)
	}
}

// TestSteer: what is done stays within what a person allows.
func TestSteer(t *testing.T) {
	spec := api.PolicySpec{Default: "A", Policies: map[string]api.Policy{
		"A": {Name: "A", NodePools: []string{"edge", "cloud"}}, "B": {Name: "B", NodePools: []string{"cloud"}},
	}}
	of := func(actions string) api.Snapshot {
		return api.Snapshot{
			Time: begin, Context: api.Context{Strategies: []api.Strategy{parse(t, "s", "rules: [{name: r, when: 'true', actions: ["+actions+"]}]")}},
			Workloads: []api.Workload{
				{Key: api.Key{Namespace: "other", Name: "web"}, MinReplicas: 1, MaxReplicas: 9},
				{Key: api.Key{Namespace: "shop", Name: "web"}, MinReplicas: 2, MaxReplicas: 10},
			},
		}
	}
	for name, c := range map[string]struct {
		actions, manual string
		want            string // policy, its pools, bounds
		told            string
	}{
		"a policy":                             {actions: "{setPolicy: {policy: B}}", want: "B strategy [cloud] 2-10"},
		"by hand comes before it":              {actions: "{setPolicy: {policy: B}}", manual: "A", want: "A manual [edge cloud] 2-10"},
		"a policy that there isn't":            {actions: "{setPolicy: {policy: C}}", want: "A default [edge cloud] 2-10", told: "there is no such policy"},
		"pools":                                {actions: "{move: {pools: [edge, gold]}}", want: "A default [edge] 2-10"},
		"pools that the policy allows none of": {actions: "{move: {pools: [gold]}}", want: "A default [edge cloud] 2-10", told: "policy A allows none of them"},
		"pools of the policy chosen":           {actions: "{setPolicy: {policy: B}}, {move: {pools: [edge]}}", want: "B strategy [cloud] 2-10", told: "policy B allows none"},
		"bounds narrow":                        {actions: "{setBounds: {workload: web, minReplicas: 3, maxReplicas: 5}}", want: "A default [edge cloud] 3-5"},
		"bounds never widen":                   {actions: "{setBounds: {workload: web, minReplicas: 1, maxReplicas: 50}}", want: "A default [edge cloud] 2-10"},
		"a maximum below the author's minimum": {actions: "{setBounds: {workload: web, maxReplicas: 1}}", want: "A default [edge cloud] 2-2"},
		"replicas at least":                    {actions: "{proposeReplicas: {workload: web, replicas: '7'}}", want: "A default [edge cloud] 7-10"},
		"no more than the author's maximum":    {actions: "{proposeReplicas: {workload: web, replicas: '70'}}", want: "A default [edge cloud] 10-10"},
		"a proposal lowers nothing":            {actions: "{proposeReplicas: {workload: web, replicas: '0'}}", want: "A default [edge cloud] 2-10"},
		"the bounds of nobody":                 {actions: "{setBounds: {workload: db, minReplicas: 3}}", want: "A default [edge cloud] 2-10", told: "there is no such ManagedWorkload"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := spec
			spec.Manual = c.manual
			s := of(c.actions)
			p, after, findings := Steer(spec, s, nil)
			w := after.Workloads[1]
			got := fmt.Sprintf("%s %s %v %d-%d", p.Name, p.Source, p.NodePools, w.MinReplicas, w.MaxReplicas)
			if got != c.want || (c.told == "") != (len(findings) == 0) || len(findings) > 0 && !strings.Contains(findings[0].Message, c.told) {
				t.Errorf("%s, told %v; want %s, told %q", got, findings, c.want, c.told)
			}
			if s.Workloads[1].MinReplicas != 2 || after.Workloads[0].MinReplicas != 1 || len(spec.Policies["A"].NodePools) != 2 {
				t.Error("its input or another namespace's workload was changed")
			}
			if lowered := w.MaxReplicas < 10; lowered != (w.AuthorMax == 10) { // a rollback goes back to the author's
				t.Errorf("the author's maximum is %d beside %d", w.AuthorMax, w.MaxReplicas)
			}
			if len(p.Strategies) != 1 || len(p.StrategyActions) == 0 {
				t.Errorf("not in the policy: %+v", p)
			}
		})
	}
}

// example is the strategy of the documentation, changed.
func example(t testing.TB, change func(string) string) api.Strategy {
	t.Helper()
	text, err := os.ReadFile("../../docs/examples/edge-or-cloud.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list, err := Parse([]byte(change(string(text))))
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func same(text string) string { return text }

// naive moves whenever another candidate scores better, as a rule without hysteresis does.
func naive(text string) string {
	return strings.NewReplacer("marginPercent: 10", "marginPercent: 0", "payback: 10m", "payback: 0s", "minStay: 30m", "minStay: 0s").Replace(text)
}

// moves counts how often the candidate changed.
func moves(results []Result) (n int, last string) {
	last = "cloud"
	for _, r := range results {
		if c := r.States[0].Choice.Candidate; c != last {
			last = c
			n++
		}
	}
	return n, last
}

// latencies are a step each half minute: cloud and edge around two means, with noise.
func latencies(seed uint64, hours int, cloud, edge func(hour float64) float64) []Step {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []Step
	for i := range hours * 120 {
		at := begin.Add(time.Duration(i) * 30 * time.Second)
		hour := float64(i) / 120
		c, e := cloud(hour)*math.Exp(0.1*r.NormFloat64()), edge(hour)*math.Exp(0.1*r.NormFloat64())
		out = append(out, Step{Time: at, Sensors: map[string]*float64{"cloudLatency": &c, "edgeLatency": &e}})
	}
	return out
}

func constant(v float64) func(float64) float64 { return func(float64) float64 { return v } }

// TestPriceOfAMove: where both candidates are worth the same and readings are noisy by a
// tenth, the naive rule goes to and fro and the example stays; where one is better, both go.
func TestPriceOfAMove(t *testing.T) {
	const day = 9 // hours, all of them at the tariff of the day
	for seed := range uint64(20) {
		alike := latencies(seed, day, constant(0.12), constant(0.10)) // 0.12 × 0.10 USD = 0.10 × 0.12 USD
		flaps, _ := moves(Run([]api.Strategy{example(t, naive)}, alike, nil))
		ours, _ := moves(Run([]api.Strategy{example(t, same)}, alike, nil))
		if flaps < 100 {
			t.Errorf("seed %d: the naive rule moves %d times: this doesn't test anything", seed, flaps)
		}
		if ours > 2 {
			t.Errorf("seed %d: the example moves %d times, the naive rule %d", seed, ours, flaps)
		}
		if seed == 0 {
			t.Logf("moves in %d hours: naive %d, the example %d", day, flaps, ours)
		}
		better := latencies(seed, day, constant(0.12), constant(0.05))
		if n, last := moves(Run([]api.Strategy{example(t, same)}, better, nil)); n != 1 || last != "edge" {
			t.Errorf("seed %d: edge is twice as good: %d moves, at last to %s", seed, n, last)
		}
	}
}

// TestScoresFarApart: how much better one candidate is than another is a number that can be told, whatever their scores
// are: without one the page would show nothing of anybody.
func TestScoresFarApart(t *testing.T) {
	s := parse(t, "s", "choose: {candidates: [{name: a, pools: [p], features: {x: '1e-200'}}, {name: b, pools: [q], features: {x: '1e200'}}], "+
		"score: c.x, payback: 1h, minStay: 1h}")
	in := Input{Strategies: []api.Strategy{s}, Last: []api.StrategyState{{Key: s.Key, Choice: &api.Choice{Candidate: "a", Since: begin}}}}
	for i := range 4 {
		in.Time = begin.Add(time.Duration(i) * time.Minute)
		out := Decide(in)
		if _, err := json.Marshal(out.States); err != nil {
			t.Fatalf("after %d min: %v", i, err)
		}
		in.Last = out.States
	}
	if choice := in.Last[0].Choice; choice.Candidate != "a" || choice.Better != "b" || choice.Gain != maxDuration.Hours() || !strings.Contains(choice.Reason, "it stays until") {
		t.Errorf("%+v", choice)
	}
}

// TestServiceLevel: a candidate that meets the SLA is moved to at once; without one nothing
// is done, and said.
func TestServiceLevel(t *testing.T) {
	of := func(cloud, edge float64) Result {
		results := Run([]api.Strategy{example(t, same)}, latencies(1, 1, constant(cloud), constant(edge))[:1], nil)
		return results[0]
	}
	if r := of(0.4, 0.1); r.States[0].Choice.Candidate != "edge" || !strings.Contains(r.Actions[0].Reason, "cloud doesn't meet") {
		t.Errorf("the SLA is broken in the cloud: %+v", r.States[0].Choice)
	}
	if r := of(0.4, 0.5); r.States[0].Choice.Candidate != "cloud" || len(r.Findings) != 1 || !strings.Contains(r.Findings[0], "no candidate meets") {
		t.Errorf("no candidate meets the SLA: %+v %q", r.States[0].Choice, r.Findings)
	}
}

// TestTariff: with the same latencies it is at the edge in the night, when it is cheap there,
// and in the cloud by day.
func TestTariff(t *testing.T) {
	at := map[int]string{}
	for _, r := range Run([]api.Strategy{example(t, same)}, latencies(3, 48, constant(0.1), constant(0.1)), nil) {
		at[int(r.Time.Sub(begin).Hours())] = r.States[0].Choice.Candidate
	}
	// Madrid is an hour ahead of UTC: it begins at ten o'clock there.
	for hour, want := range map[int]string{5: "cloud", 14: "edge", 20: "edge", 27: "cloud", 38: "edge"} {
		if at[hour] != want {
			t.Errorf("after %d hours at %s, want %s", hour, at[hour], want)
		}
	}
}

// TestReplaysToTheSameBytes: the same inputs give the same bytes.
func TestReplaysToTheSameBytes(t *testing.T) {
	inputs := latencies(7, 6, constant(0.12), constant(0.1))
	run := func() string {
		b, err := json.Marshal(Run([]api.Strategy{example(t, same)}, inputs, nil))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if first := run(); first != run() || len(first) < 1000 {
		t.Error("two runs differ")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(document("s", load+"rules: [{name: r, when: load > 5, actions: [{setPolicy: {policy: P}}]}]"))
	f.Add(document("s", "outputs: {a: '[1,2].map(x, x * 2).size()'}"))
	f.Add("a: &a [*a]")
	f.Add(document("s", load+"learn: {policies: [A, B], round: 1m, context: {a: 'hour < 12 ? 1.0 : 0.0', b: load}, reward: load / 2.0, act: true}"))
	f.Add(document("s", "choose: {candidates: [{name: a, pools: [p]}, {name: b, pools: [q]}], score: '1'}"))
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, s := range list {
			if err := Check(s); err != nil {
				t.Fatalf("accepted what can't be used: %v", err)
			}
		}
		Run(list, steps(time.Minute, 1, 2), nil)
	})
}

func FuzzSteps(f *testing.F) {
	f.Add(`{"time":"2026-03-02T10:00:00Z","policy":"A","sensors":{"load":1,"x":null}}`)
	f.Add("{}\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		if list, err := Steps(strings.NewReader(text)); err == nil && len(list) == 0 {
			t.Fatal("no step and no error")
		}
	})
}
