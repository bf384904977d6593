package configmap

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic"
)

const full = `
default: COST_SAVING
policies:
  COST_SAVING: {nodePools: [cheap], maxHourlyCost: 12.5}
  NIGHT:
    weights: {cost: 3}
    nodePools: [cheap, spot]
    machineType: e2-medium
    minReplicas: 1
    quantile: 0.8
    targetUtilization: 0.9
    minNodesPerPool: 2
    maxNodesPerPool: 4
    disruption:
      podPrice: 0.02
      payback: 2h
      maxEvictions: 3
      growTimeout: 20m
      moveTimeout: 1h
      retryAfter: 3h
      windows: [{cron: "0 1 * * *", timeZone: Europe/London, duration: 4h}]
    rollback: {hold: 2h, namespaces: [shop]}
    canary: {share: 0.3, worseBy: 1, dearerBy: 0.1, alpha: 0.01, band: 0.5, baseline: 2h, soak: 24h}
schedule:
  - {cron: "0 22 * * *", timeZone: Europe/London, policy: NIGHT}
`

func TestParse(t *testing.T) {
	t.Run("the minimal form is one key", func(t *testing.T) {
		spec, err := Parse(map[string]string{"policy": " COST_SAVING\n"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Manual != api.CostSaving {
			t.Errorf("manual is %q", spec.Manual)
		}
		if diff := cmp.Diff(strategic.Defaults(), spec.Policies); diff != "" {
			t.Errorf("policies are not the built-in ones: %s", diff)
		}
	})
	t.Run("the full form overrides and adds", func(t *testing.T) {
		spec, err := Parse(map[string]string{"policies.yaml": full}, map[string]string{api.AnnotationPaused: ""})
		if err != nil {
			t.Fatal(err)
		}
		want := strategic.Defaults()
		cheap := want[api.CostSaving]
		night := cheap
		cheap.NodePools, cheap.MaxHourlyCost = []string{"cheap"}, 12.5
		night.Name = "NIGHT"
		night.Weights.Cost = 3
		night.NodePools, night.MachineType = []string{"cheap", "spot"}, "e2-medium"
		night.MinReplicas, night.Quantile, night.TargetUtilization, night.MaxNodesPerPool = 1, 0.8, 0.9, 4
		night.Disruption = api.Disruption{
			PodPrice: 0.02, Payback: 2 * time.Hour, MaxEvictions: 3,
			GrowTimeout: 20 * time.Minute, MoveTimeout: time.Hour, RetryAfter: 3 * time.Hour,
			Windows: []api.Window{{Cron: "0 1 * * *", TimeZone: "Europe/London", Duration: 4 * time.Hour}},
		}
		night.Canary = api.CanaryPolicy{Share: 0.3, WorseBy: 1, DearerBy: 0.1, Alpha: 0.01, Band: 0.5, Baseline: 2 * time.Hour, Soak: 24 * time.Hour}
		night.Rollback = api.RollbackPolicy{Hold: 2 * time.Hour, Namespaces: []string{"shop"}}
		night.MinNodesPerPool = 2
		night.Objective, night.Burst = 0, false // it says what margin there is to be
		want[api.CostSaving], want["NIGHT"] = cheap, night
		if diff := cmp.Diff(want, spec.Policies); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]api.ScheduleEntry{{Cron: "0 22 * * *", TimeZone: "Europe/London", Policy: "NIGHT"}}, spec.Schedule); diff != "" {
			t.Error(diff)
		}
		if !spec.Paused {
			t.Error("an empty pause annotation must pause")
		}
	})
	t.Run("signals", func(t *testing.T) {
		spec, err := Parse(map[string]string{"policies.yaml": `
signals:
  - {name: spend, prometheus: {query: sum(weekly_spend_usd)}, above: 1000, until: 900, policy: COST_SAVING, minStay: 1h}
  - {name: stock, configMapKey: stock, below: 3, policy: COST_SAVING}
  - {name: campaign, configMapKey: campaign, equals: "on", policy: PERFORMANCE}
`}, nil)
		want := []api.Signal{
			{Name: "spend", Query: "sum(weekly_spend_usd)", Compare: api.CompareAbove, On: 1000, Off: 900, Policy: api.CostSaving, MinStay: time.Hour},
			{Name: "stock", Key: "stock", Compare: api.CompareBelow, On: 3, Off: 3, Policy: api.CostSaving},
			{Name: "campaign", Key: "campaign", Compare: api.CompareEquals, Text: "on", Policy: api.Performance},
		}
		if diff := cmp.Diff(want, spec.Signals); err != nil || diff != "" {
			t.Error(err, diff)
		}
	})
	for text, want := range map[string]struct {
		objective float64
		burst     bool
	}{
		"{}":                                {0.999, true},
		"{objective: 0.99}":                 {0.99, true},
		"{objective: 0}":                    {0, true},
		"{burst: false}":                    {0.999, false},
		"{targetUtilization: 0.7}":          {0, false},
		"{quantile: 0.95}":                  {0, false},
		"{quantile: 0.95, objective: 0.99}": {0.99, false},
	} {
		t.Run("the margin of "+text, func(t *testing.T) {
			spec, err := Parse(map[string]string{"policies.yaml": "policies: {COST_SAVING: " + text + "}"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := spec.Policies[api.CostSaving]; got.Objective != want.objective || got.Burst != want.burst {
				t.Errorf("objective %v, burst %v; want %+v", got.Objective, got.Burst, want)
			}
		})
	}
	for text, want := range map[string]struct {
		spot *api.Spot
		err  string
	}{
		"{}":                                    {},
		"{spot: {maxShare: 0.7, floor: 3}}":     {spot: &api.Spot{MaxShare: 0.7, Floor: 3}},
		"{spot: {maxShare: 1, floor: 0}}":       {spot: &api.Spot{MaxShare: 1}},
		"{minReplicas: 4, spot: {maxShare: 1}}": {spot: &api.Spot{MaxShare: 1, Floor: 4}},
		"{spot: {maxShare: 0}}":                 {},
		"{spot: {floor: 2}}":                    {err: "policies.COST_SAVING.spot.maxShare: must be stated, above 0 and at most 1, is 0"},
		"{spot: {maxShare: 1.2}}":               {err: "policies.COST_SAVING.spot.maxShare: must be stated, above 0 and at most 1, is 1.2"},
		"{spot: {maxShare: 0.5, floor: -1}}":    {err: "policies.COST_SAVING.spot.floor: must be 0 or more, is -1"},
		"{spot: {share: 0.5}}":                  {err: "policies.COST_SAVING.spot.share"},
	} {
		t.Run("bounds of spot machines by "+text, func(t *testing.T) {
			spec, err := Parse(map[string]string{"policies.yaml": "policies: {COST_SAVING: " + text + "}"}, nil)
			if (err != nil) != (want.err != "") || err != nil && !strings.Contains(err.Error(), want.err) {
				t.Fatalf("%v, want %q", err, want.err)
			}
			if diff := cmp.Diff(want.spot, spec.Policies[api.CostSaving].Spot); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, c := range map[string]struct {
		policy, policies, other string
		want                    string
	}{
		"unknown policy":                {policy: "FAST", want: `policy: there is no policy "FAST"`},
		"unknown key of data":           {other: "x", want: `data["polices.yaml"]: unknown key`},
		"unknown field":                 {policies: "policies: {PERFORMANCE: {minReplica: 2}}", want: `unknown field "policies.PERFORMANCE.minReplica"`},
		"unknown field at top":          {policies: "polices: {}", want: `"polices"`},
		"wrong type":                    {policies: "policies: {PERFORMANCE: {quantile: high}}", want: "policies.PERFORMANCE.quantile: must be a number, is a text"},
		"wrong type of a group":         {policies: "policies: {PERFORMANCE: {weights: 3}}", want: "policies.PERFORMANCE.weights: must be a mapping of fields, is"},
		"wrong type of a list":          {policies: "policies: {PERFORMANCE: {nodePools: fast}}", want: "policies.PERFORMANCE.nodePools: must be a list, is a text"},
		"wrong type of it all":          {policies: "- PERFORMANCE", want: "policies.yaml: content: must be a mapping of fields, is a list"},
		"half a replica":                {policies: "policies: {PERFORMANCE: {minReplicas: 1.5}}", want: "policies.PERFORMANCE.minReplicas: must be a whole number of at most 32 bits, is 1.5"},
		"unknown schedule field":        {policies: "schedule: [{corn: '* * * * *', policy: PERFORMANCE}]", want: `unknown field "schedule[0].corn"`},
		"a time zone in cron":           {policies: "schedule: [{cron: 'CRON_TZ=X', policy: PERFORMANCE}]", want: "schedule[0].cron"},
		"a signal without a source":     {policies: "signals: [{name: a, above: 1, policy: PERFORMANCE}]", want: "signals[0].prometheus: a signal reads either"},
		"a signal with two sources":     {policies: "signals: [{name: a, above: 1, configMapKey: k, prometheus: {query: up}, policy: PERFORMANCE}]", want: "signals[0].prometheus: a signal reads either"},
		"a signal without a query":      {policies: "signals: [{name: a, above: 1, prometheus: {}, policy: PERFORMANCE}]", want: "signals[0].prometheus.query: is required"},
		"a signal of no policy":         {policies: "signals: [{name: a, above: 1, configMapKey: k, policy: FAST}]", want: `signals[0].policy: there is no policy "FAST"`},
		"a signal that compares twice":  {policies: "signals: [{name: a, above: 1, below: 2, configMapKey: k, policy: PERFORMANCE}]", want: "a signal has only one of above, below and equals"},
		"a signal that never compares":  {policies: "signals: [{name: a, configMapKey: k, policy: PERFORMANCE}]", want: "signals[0].above: a signal needs one of"},
		"a signal that is never off":    {policies: "signals: [{name: a, above: 1, until: 2, configMapKey: k, policy: PERFORMANCE}]", want: "signals[0].until: must not be above 1"},
		"a signal below that is so":     {policies: "signals: [{name: a, below: 1, until: 0, configMapKey: k, policy: PERFORMANCE}]", want: "signals[0].until: must not be below 1"},
		"until with a text":             {policies: "signals: [{name: a, equals: x, until: 2, configMapKey: k, policy: PERFORMANCE}]", want: "signals[0].until: is for above and below"},
		"a query compared as a text":    {policies: "signals: [{name: a, equals: x, prometheus: {query: up}, policy: PERFORMANCE}]", want: "signals[0].equals: is for a configMapKey"},
		"two signals of a name":         {policies: "signals: [{name: a, above: 1, configMapKey: k, policy: PERFORMANCE}, {name: a, above: 1, configMapKey: k, policy: PERFORMANCE}]", want: `signals[1].name: "a" is the name of another signal`},
		"an unknown field of a signal":  {policies: "signals: [{name: a, over: 1}]", want: `unknown field "signals[0].over"`},
		"a signal's threshold in words": {policies: "signals: [{name: a, above: high}]", want: "signals[0].above: must be a number, is a text"},
		"a signal that stays for years": {policies: "signals: [{name: a, above: 1, configMapKey: k, policy: PERFORMANCE, minStay: 9999h}]", want: "signals[0].minStay: must be from 0"},
		"a key that is none":            {policies: "signals: [{name: a, above: 1, configMapKey: 'a/b', policy: PERFORMANCE}]", want: "signals[0].configMapKey"},
		"not YAML":                      {policies: "policies: [", want: "policies.yaml"},
		"two documents":                 {policies: "default: PERFORMANCE\n---\ndefault: COST_SAVING\n", want: "policies.yaml: has 2 YAML documents"},
		"a key twice":                   {policies: "default: A\ndefault: B\n", want: `already set`},
		"not a number":                  {policies: "policies: {PERFORMANCE: {quantile: .nan}}", want: "policies.PERFORMANCE.quantile: must be a finite number, is NaN"},
		"an infinite cost":              {policies: "policies: {PERFORMANCE: {maxHourlyCost: .inf}}", want: "policies.PERFORMANCE.maxHourlyCost: must be a finite number"},
		"a number that is huge":         {policies: "policies: {PERFORMANCE: {minReplicas: 99999999999}}", want: "minReplicas"},
		"negative weight":               {policies: "policies: {PERFORMANCE: {weights: {cost: -1}}}", want: "policies.PERFORMANCE.weights.cost: must be 0 or more, is -1"},
		"percent for a ratio":           {policies: "policies: {PERFORMANCE: {targetUtilization: 80}}", want: "policies.PERFORMANCE.targetUtilization"},
		"an empty policy's name":        {policies: `policies: {"": {}}`, want: "not a valid policy name"},
		"a duration in numbers":         {policies: "policies: {PERFORMANCE: {disruption: {payback: 5}}}", want: "policies.PERFORMANCE.disruption.payback"},
		"a duration in words":           {policies: "policies: {PERFORMANCE: {disruption: {payback: soon}}}", want: `"soon" is not a duration such as 30m`},
		"seconds to move":               {policies: "policies: {PERFORMANCE: {disruption: {moveTimeout: 5s}}}", want: "policies.PERFORMANCE.disruption.moveTimeout: must be 0 (the default) or between 1m"},
		"a price below nothing":         {policies: "policies: {PERFORMANCE: {disruption: {podPrice: -1}}}", want: "policies.PERFORMANCE.disruption.podPrice"},
		"a window that is shut":         {policies: "policies: {PERFORMANCE: {disruption: {windows: [{cron: '0 1 * * *'}]}}}", want: "policies.PERFORMANCE.disruption.windows[0].duration: must be between 1m"},
		"a window nowhere":              {policies: "policies: {PERFORMANCE: {disruption: {windows: [{cron: '0 1 * * *', timeZone: Mars, duration: 1h}]}}}", want: "policies.PERFORMANCE.disruption.windows[0].timeZone"},
		"wrong cron":                    {policies: `schedule: [{cron: "* * *", policy: PERFORMANCE}]`, want: "schedule[0].cron"},
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			data := map[string]string{"policy": c.policy, "policies.yaml": c.policies}
			if c.other != "" {
				data["polices.yaml"] = c.other
			}
			_, err := Parse(data, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// Every field is in the reference of policies.
func TestFieldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	for of, fields := range map[string]reflect.Type{"`": reflect.TypeFor[filePolicy](), ".": reflect.TypeFor[fileDisruption](), "rollback.": reflect.TypeFor[fileRollback](), "canary.": reflect.TypeFor[fileCanary](), "spot.": reflect.TypeFor[fileSpot](), "`signals[]": reflect.TypeFor[fileSignal]()} {
		for i := range fields.NumField() {
			name := fields.Field(i).Tag.Get("json")
			if of == "`signals[]" {
				name = "." + name
			}
			if !strings.Contains(string(text), of+name) {
				t.Errorf("docs/reference/policy.md has no row for %s", name)
			}
		}
	}
}

func TestPaused(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "": true, "yes": true, "false": false} {
		if got := Paused(map[string]string{api.AnnotationPaused: value}); got != want {
			t.Errorf("Paused(%q) = %v, want %v", value, got, want)
		}
	}
	if Paused(nil) {
		t.Error("paused without the annotation")
	}
}

// TestRollbackEnded: a time on the ConfigMap ends rollbacks from before it; what is no time
// is refused.
func TestRollbackEnded(t *testing.T) {
	at := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	spec, err := Parse(nil, map[string]string{api.AnnotationRollbackEnded: at.Format(time.RFC3339)})
	if err != nil || !strategic.Decide(spec, api.Snapshot{}).Rollback.Ended.Equal(at) {
		t.Errorf("%v, %v", spec.RollbackEnded, err)
	}
	if _, err := Parse(nil, map[string]string{api.AnnotationRollbackEnded: "now"}); err == nil || !strings.Contains(err.Error(), "is not a time") {
		t.Errorf("now: %v", err)
	}
	for text, want := range map[string]string{"hold: 30s": "rollback.hold: must be 0", "namespaces: ['']": "rollback.namespaces[0]: is empty"} {
		if _, err := Parse(map[string]string{"policies.yaml": "policies: {COST_SAVING: {rollback: {" + text + "}}}"}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Whatever the input: no panic, and what is accepted is valid and can be
// decided on.
func FuzzParse(f *testing.F) {
	f.Add("COST_SAVING", full)
	f.Add("", "policies: {A: {weights: {cost: 1e400}}}")
	f.Add("A", "policies:\n  A: {nodePools: [x, x]}\n")
	f.Add("", "schedule: [{cron: '*/5 * * * *', timeZone: 'UTC', policy: COST_SAVING}]")
	f.Add("", "signals: [{name: a, above: 1, until: 0.5, configMapKey: k, policy: PERFORMANCE, minStay: 1h}]")
	f.Add("", "a: &a [*a]")
	f.Add("", "schedule: [{cron: 'CRON_TZ=X', policy: COST_SAVING}]")
	f.Add("", "policies: {A: {weights: 3, quantile: .nan}}\nschedule: [x, {corn: y}]")
	f.Fuzz(func(t *testing.T, policy, policies string) {
		spec, err := Parse(map[string]string{"policy": policy, "policies.yaml": policies}, nil)
		if err != nil {
			return
		}
		if err := strategic.Validate(spec); err != nil {
			t.Fatalf("accepted what is not valid: %v", err)
		}
		if p := strategic.Decide(spec, api.Snapshot{}); p.Name == "" {
			t.Fatal("decided on nothing")
		}
	})
}
