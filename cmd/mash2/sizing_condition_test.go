package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

// TestSizingIsTurnedOffAtAdmission: of the same status a pod is sized or not by what the spec says
// now. It evaluates the condition of the chart's policy itself: in a cluster a pod is also left as it is
// while the API server does not know the policy yet.
func TestSizingIsTurnedOffAtAdmission(t *testing.T) {
	out, err := templatedOf(t, chartFolder, "sizing.enabled=true", "--kube-version", "1.36.0", "--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
	if err != nil {
		t.Fatal(out)
	}
	var policy admissionv1.MutatingAdmissionPolicy
	for text := range strings.SplitSeq(out, "\n---\n") {
		if strings.Contains(text, "\nkind: MutatingAdmissionPolicy\n") && strings.Contains(text, "# Source: mash2/templates/sizing.yaml") {
			if err := yaml.UnmarshalStrict([]byte(text), &policy); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := slices.IndexFunc(policy.Spec.MatchConditions, func(c admissionv1.MatchCondition) bool { return c.Name == "sized" })
	if at < 0 {
		t.Fatalf("no condition tells of sizing: %+v", policy.Spec.MatchConditions)
	}
	env, err := cel.NewEnv(cel.Variable("params", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(policy.Spec.MatchConditions[at].Expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	const inPlace = `{"sizing":{"mode":"InPlace","containers":[{"name":"web"}]}}`
	for name, tc := range map[string]struct {
		spec, status string
		want         bool
	}{
		"sized in place":                       {`{"sizing":{"mode":"InPlace"}}`, inPlace, true},
		"sizes of new pods only":               {`{"sizing":{"mode":"InitialOnly"}}`, inPlace, true},
		"in mode Full":                         {`{"mode":"Full","sizing":{"mode":"InPlace"}}`, inPlace, true},
		"in mode Canary":                       {`{"mode":"Canary","sizing":{"mode":"InPlace"}}`, inPlace, true},
		"mode Off":                             {`{"mode":"Off","sizing":{"mode":"InPlace"}}`, inPlace, false},
		"mode Shadow":                          {`{"mode":"Shadow","sizing":{"mode":"InPlace"}}`, inPlace, false},
		"sizing turned off":                    {`{"sizing":{"mode":"Off"}}`, inPlace, false},
		"recommended only since":               {`{"sizing":{"mode":"RecommendOnly"}}`, inPlace, false},
		"sizing of no mode":                    {`{"sizing":{}}`, inPlace, false},
		"no sizing any more":                   {`{}`, inPlace, false},
		"recommended only when it was planned": {`{"sizing":{"mode":"InPlace"}}`, `{"sizing":{"mode":"RecommendOnly","containers":[]}}`, false},
		"no sizes":                             {`{"sizing":{"mode":"InPlace"}}`, `{"sizing":{"mode":"InPlace"}}`, false},
		"no status":                            {`{"sizing":{"mode":"InPlace"}}`, `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var params map[string]any
			if err := json.Unmarshal([]byte(`{"spec":`+tc.spec+`,"status":`+tc.status+`}`), &params); err != nil {
				t.Fatal(err)
			}
			got, _, err := program.Eval(map[string]any{"params": params})
			if err != nil || got.Value() != tc.want {
				t.Errorf("%v, %v; want %v", got, err, tc.want)
			}
		})
	}
}
