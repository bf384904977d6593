package v1alpha1_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// TestStrategyAdmission: an API server admits the example of the documentation, and refuses
// what says nothing or two things at once.
func TestStrategyAdmission(t *testing.T) {
	s := serverOf(t, crdOf(t, "strategies"))
	object := func(text string) map[string]any {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, name := range []string{"edge-or-cloud", "learn-policy"} {
		example, err := os.ReadFile("../../docs/examples/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if errs := s.admit(object(string(example)), nil); len(errs) > 0 {
			t.Errorf("the example %s: %v", name, errs)
		}
	}
	const learn = "{learn: {policies: [A, B], round: 1h, context: {a: '1.0'}, reward: '0.5'}}"
	with := func(from, to string) string { return strings.Replace(learn, from, to, 1) }
	for spec, want := range map[string]string{
		with("[A, B]", "[A]"):                                                "spec.learn.policies",
		with("[A, B]", "[A, A]"):                                             "spec.learn.policies[1]",
		with("[A, B]", "['', A]"):                                            "spec.learn.policies[0]",
		with("1h", "10s"):                                                    "round must be from 1m to 744h",
		with("1h", "1000h"):                                                  "round must be from 1m to 744h",
		with("{a: '1.0'}", "{}"):                                             "spec.learn.context",
		with("reward: '0.5'", "noisePercent: 1"):                             "spec.learn.reward",
		with("reward: '0.5'", "reward: '1', noisePercent: 0"):                "spec.learn.noisePercent",
		with("reward: '0.5'", "reward: '1', maxLossPercent: 60"):             "spec.learn.maxLossPercent",
		"{mode: Shadow}":                                                     "needs rules, choose, learn or outputs",
		"{outputs: {a: '1'}, sensors: [{name: a}]}":                          "must have one of prometheus, http, object and strategy",
		"{outputs: {a: '1'}, sensors: [{name: A, prometheus: {query: up}}]}": "spec.sensors[0].name",
		"{outputs: {a: '1'}, sensors: [{name: a, prometheus: {query: up}, when: {}}]}":                                                              "must have one of interval, date, cron, allOf and anyOf",
		"{outputs: {a: '1'}, sensors: [{name: a, prometheus: {query: up}, when: {interval: {every: 1m, start: '1700-01-01T00:00:00Z'}}}]}":          "start and end must be in the years 1970 to 2199",
		"{outputs: {a: '1'}, sensors: [{name: a, prometheus: {query: up}, when: {anyOf: [{interval: {every: 1m, end: '2200-01-01T00:00:00Z'}}]}}]}": "start and end must be in the years 1970 to 2199",
		"{outputs: {a: '1'}, priority: 2000}":                                                                                                     "spec.priority",
		"{rules: [{name: r, when: 'true', actions: []}]}":                                                                                         "spec.rules[0].actions",
		"{rules: [{name: r, when: 'true', actions: [{}]}]}":                                                                                       "must have one of setPolicy, move, setBounds, proposeReplicas and callWebhook",
		"{rules: [{name: r, when: 'true', actions: [{setBounds: {workload: w, minReplicas: 3, maxReplicas: 2}}]}]}":                               "must not be larger than maxReplicas",
		"{choose: {candidates: [{name: a, pools: [p]}], score: '1'}}":                                                                             "spec.choose.candidates",
		"{outputs: {a: '1'}, sensors: [{name: a, prometheus: {query: up}, when: {date: '2026-01-01T00:00:00Z', cron: {schedule: '* * * * *'}}}]}": "must have one of interval, date, cron, allOf and anyOf",
	} {
		o := object("{apiVersion: mash2.io/v1alpha1, kind: Strategy, metadata: {name: s, namespace: shop}, spec: " + spec + "}")
		if errs := s.admit(o, nil); len(errs) == 0 || !strings.Contains(strings.Join(errs, "; "), want) {
			t.Errorf("%s: %v, want %q", spec, errs, want)
		}
	}
}
