package v1alpha1_test

import (
	"context"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// crd is the generated definition as the API server holds it.
func crd(t *testing.T) *apiextensions.CustomResourceDefinition { return crdOf(t, "managedworkloads") }

// crdOf is that of a resource.
func crdOf(t *testing.T, resource string) *apiextensions.CustomResourceDefinition {
	t.Helper()
	raw, err := os.ReadFile("../../charts/mash2/crds/mash2.io_" + resource + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var external apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &external); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&external)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
	external.Status.StoredVersions = []string{v1alpha1.GroupVersion.Version}
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&external, &internal, nil); err != nil {
		t.Fatal(err)
	}
	return &internal
}

// Who deletes what a chart has made, as Argo CD does, leaves the definitions: with them go all ManagedWorkloads.
func TestDefinitionsAreKept(t *testing.T) {
	for _, resource := range []string{"managedworkloads", "strategies"} {
		if got := crdOf(t, resource).Annotations["helm.sh/resource-policy"]; got != "keep" {
			t.Errorf("%s: helm.sh/resource-policy is %q", resource, got)
		}
	}
}

func TestCRDIsAcceptedByAnAPIServer(t *testing.T) {
	for _, resource := range []string{"managedworkloads", "strategies"} {
		for _, err := range validation.ValidateCustomResourceDefinition(context.Background(), crdOf(t, resource)) {
			t.Errorf("%s: %v", resource, err)
		}
	}
}

// server admits objects as an API server does: defaults, schema, CEL.
type server struct {
	structural *structuralschema.Structural
	schema     schemavalidation.SchemaValidator
	rules      *cel.Validator
}

func newServer(t *testing.T) server { return serverOf(t, crd(t)) }

func serverOf(t *testing.T, of *apiextensions.CustomResourceDefinition) server {
	t.Helper()
	version := of.Spec.Validation
	if version == nil {
		version = of.Spec.Versions[0].Schema
	}
	structural, err := structuralschema.NewStructural(version.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	schema, _, err := schemavalidation.NewSchemaValidator(version.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	return server{structural, schema, cel.NewValidator(structural, true, math.MaxInt)}
}

func (s server) admit(object, old map[string]any) (errs []string) {
	defaulting.Default(object, s.structural)
	all := schemavalidation.ValidateCustomResource(nil, object, s.schema)
	all = append(all, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	// Like the API server, which runs no rules on what the schema refuses for such a reason,
	// and runs them on the rest (hasBlockingErr of apiextensions-apiserver).
	if !slices.ContainsFunc(all, func(err *field.Error) bool {
		return slices.Contains([]field.ErrorType{
			field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
		}, err.Type)
	}) {
		var before any
		if old != nil {
			defaulting.Default(old, s.structural)
			before = old
		}
		errs, _ := s.rules.Validate(context.Background(), nil, s.structural, object, before, math.MaxInt64)
		all = append(all, errs...)
	}
	for _, err := range all {
		errs = append(errs, err.Error())
	}
	return errs
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil { // whole numbers as int64
		t.Fatal(err)
	}
	object["apiVersion"], object["kind"] = v1alpha1.GroupVersion.String(), "ManagedWorkload"
	object["metadata"] = map[string]any{"name": "shop", "namespace": "web"}
	return object
}

const target = "{apiVersion: apps/v1, kind: Deployment, name: shop}"

func TestAdmission(t *testing.T) {
	s := newServer(t)
	for name, tc := range map[string]struct {
		old, object string
		want        string // part of the only error; empty for accepted
	}{
		"target and maximum are enough": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10}",
		},
		"everything set": {
			object: `
spec:
  targetRef: ` + target + `
  minReplicas: 2
  maxReplicas: 10
  planner: horizontal
  mode: Shadow
  metric: {type: CPU}
  targetUtilizationPercent: 70
  behavior:
    scaleUp:
      stabilizationWindowSeconds: 0
      policies: [{type: Percent, value: 100, periodSeconds: 15}]
    scaleDown:
      selectPolicy: Disabled
      tolerance: 50m`,
		},
		"agents": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, countRequests: Template, vertical: {cpu: 1500m, memory: 2Gi, minMemory: 32Mi, maxMemory: 1Gi, priorities: [{pod: a, percent: 50}]}}",
		},
		"agents where replicas are counted by what they change": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, vertical: {}}", want: "must be Template with vertical",
		},
		"agents and sizes at once": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, countRequests: Template, sizing: {mode: InPlace}, vertical: {}}", want: "both would resize pods",
		},
		"agents without a budget above 0": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, countRequests: Template, vertical: {cpu: 0}}", want: "must be above 0",
		},
		"a budget of memory that is none": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, countRequests: Template, vertical: {memory: 0}}", want: "must be above 0",
		},
		"agents with a priority of nothing": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, countRequests: Template, vertical: {priorities: [{pod: a, percent: 0}]}}", want: "percent",
		},
		"KEDA scales, by a learned plan": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, actuator: KEDA, planner: rl, model: candidate-4}",
		},
		"an actuator nobody knows": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, actuator: HPA}",
			want:   "spec.actuator: Unsupported value",
		},
		"planner rl without a model": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, planner: rl}",
			want:   "spec.model: Invalid value",
		},
		"a model for another planner": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, model: candidate-4}",
			want:   "spec.model: Invalid value",
		},
		"a path as a model": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 10, planner: rl, model: ../x}",
			want:   "spec.model",
		},
		"a minimum above the maximum": {
			object: "spec: {targetRef: " + target + ", minReplicas: 11, maxReplicas: 10}",
			want:   "minReplicas must not be larger than maxReplicas",
		},
		"no maximum": {
			object: "spec: {targetRef: " + target + "}",
			want:   "spec.maxReplicas: Required value",
		},
		"no target": {
			object: "spec: {maxReplicas: 3}",
			want:   "spec.targetRef: Required value",
		},
		"an unknown mode": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, mode: Dry}",
			want:   `supported values: "Off", "Shadow", "Canary", "Full"`,
		},
		"an unknown planner": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, planner: magic}",
			want:   "spec.planner: Unsupported value",
		},
		"an unknown metric": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, metric: {type: Luck}}",
			want:   "spec.metric.type: Unsupported value",
		},
		"a utilisation above one": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, targetUtilizationPercent: 101}",
			want:   "spec.targetUtilizationPercent",
		},
		"a group without a version": {
			object: "spec: {targetRef: {apiVersion: apps, kind: Deployment, name: shop}, maxReplicas: 3}",
			want:   "spec.targetRef.apiVersion",
		},
		"another target than before": {
			old:    "spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: till}, maxReplicas: 3}",
			object: "spec: {targetRef: " + target + ", maxReplicas: 3}",
			want:   "targetRef can't be changed",
		},
		"other bounds than before": {
			old:    "spec: {targetRef: " + target + ", maxReplicas: 3}",
			object: "spec: {targetRef: " + target + ", maxReplicas: 30}",
		},
		"a policy without a period": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 0}]}}}",
			want:   "periodSeconds between 1 and 1800",
		},
		"a window above an hour": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, behavior: {scaleDown: {stabilizationWindowSeconds: 3601}}}",
			want:   "must be between 0 and 3600",
		},
		"triggers of all types": {
			object: "spec: {targetRef: " + target + `, minReplicas: 0, maxReplicas: 3, metric: {type: None}, cooldownSeconds: 60, countRequests: Template, triggers: [
  {name: a, type: External, external: {metric: {name: queue, selector: {matchLabels: {q: a}}}}, target: {averageValue: 20}, activationThreshold: "5"},
  {name: b, type: Object, object: {describedObject: {apiVersion: v1, kind: Service, name: web}, metric: {name: rps}}, target: {value: 500m}},
  {name: c, type: Pods, pods: {metric: {name: rps}}, target: {averageValue: "10"}},
  {name: d, type: Resource, resource: {name: memory, container: main}, target: {averageUtilization: 150}},
  {name: e, type: Prometheus, prometheus: {query: sum(jobs)}, target: {averageValue: "10"}},
  {name: f, type: Cron, cron: {timeZone: Europe/London, start: 0 8 * * *, end: 0 18 * * *, replicas: 3}}]}`,
		},
		"a minimum of 0 without a trigger": {
			object: "spec: {targetRef: " + target + ", minReplicas: 0, maxReplicas: 3}",
			want:   "0 needs a trigger of type External, Object, Prometheus or Cron",
		},
		"a minimum of 0 with a trigger that needs pods": {
			object: "spec: {targetRef: " + target + ", minReplicas: 0, maxReplicas: 3, triggers: [{name: c, type: Pods, pods: {metric: {name: rps}}, target: {averageValue: 1}}]}",
			want:   "0 needs a trigger of type External, Object, Prometheus or Cron",
		},
		"no demand at all": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, metric: {type: None}}",
			want:   "None needs triggers",
		},
		"a trigger of another type than it has": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, triggers: [{name: c, type: External, pods: {metric: {name: rps}}, target: {averageValue: 1}}]}",
			want:   "must have the one field",
		},
		"a trigger without a target": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, triggers: [{name: c, type: Pods, pods: {metric: {name: rps}}}]}",
			want:   "is required, except with type Cron",
		},
		"a target of two kinds": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, triggers: [{name: c, type: External, external: {metric: {name: rps}}, target: {averageValue: 1, value: 2}}]}",
			want:   "must have one of averageValue, value and averageUtilization",
		},
		"a utilisation of a queue": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, triggers: [{name: c, type: External, external: {metric: {name: rps}}, target: {averageUtilization: 1}}]}",
			want:   "averageUtilization is for type Resource",
		},
		"a ratio of pods": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, triggers: [{name: c, type: Pods, pods: {metric: {name: rps}}, target: {value: 1}}]}",
			want:   "value is not for types Resource and Pods",
		},
		"a threshold that nothing can pass without pods": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, triggers: [{name: c, type: Pods, pods: {metric: {name: rps}}, target: {averageValue: 1}, activationThreshold: 3}]}",
			want:   "is for types External, Object and Prometheus",
		},
		"two triggers of one name": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, triggers: [{name: c, type: Pods, pods: {metric: {name: a}}, target: {averageValue: 1}}, {name: c, type: Pods, pods: {metric: {name: b}}, target: {averageValue: 1}}]}",
			want:   "Duplicate value",
		},
		"a trigger's name that can't be": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, triggers: [{name: A b, type: Pods, pods: {metric: {name: a}}, target: {averageValue: 1}}]}",
			want:   "spec.triggers[0].name",
		},
		"a quantity that takes years to read": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, countRequests: Template, vertical: {cpu: \"9e-2000000000\"}}",
			want:   "spec.vertical.cpu",
		},
		"a quantity of a type of Kubernetes that takes years to read": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, behavior: {scaleDown: {tolerance: \"9e-2000000000\"}}}",
			want:   "spec.behavior.scaleDown.tolerance",
		},
		"a quantity of too many digits": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, vertical: {cpu: \"" + strings.Repeat("1", 41) + "\"}}",
			want:   "spec.vertical.cpu",
		},
		"a select policy that does not exist": {
			object: "spec: {targetRef: " + target + ", maxReplicas: 3, behavior: {scaleDown: {selectPolicy: Most}}}",
			want:   "must be Max, Min or Disabled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var old map[string]any
			if tc.old != "" {
				old = parse(t, tc.old)
			}
			errs := s.admit(parse(t, tc.object), old)
			switch {
			case tc.want == "" && len(errs) > 0:
				t.Errorf("refused: %v", errs)
			case tc.want != "" && (len(errs) != 1 || !strings.Contains(errs[0], tc.want)):
				t.Errorf("errors are %q, want one with %q", errs, tc.want)
			}
		})
	}
}

// TestQuantitiesAreReadAtOnce: no field takes a quantity whose digits take long to work out,
// and ParseQuantity takes what fields take.
func TestQuantitiesAreReadAtOnce(t *testing.T) {
	good := []string{"1", "1500m", "0.5", "+2Gi", "1E", "9e-99", "1e3", "-1", "1.", ".5", "100n"}
	bad := []string{"9e-999", "9E-2000000000", "1e+100", "", "a", "1e", strings.Repeat("1", 41), "0." + strings.Repeat("0", 41)}
	for _, text := range good {
		if _, err := v1alpha1.ParseQuantity(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range bad {
		if q, err := v1alpha1.ParseQuantity(text); err == nil {
			t.Errorf("%.10s is %s", text, &q)
		}
	}
	found := 0
	var look func(path string, s *apiextensions.JSONSchemaProps)
	look = func(path string, s *apiextensions.JSONSchemaProps) {
		if s.XIntOrString {
			found++
			takes := func(text string) bool {
				matches, err := regexp.MatchString(s.Pattern, text)
				return err == nil && matches && s.MaxLength != nil && len(text) <= int(*s.MaxLength)
			}
			for _, text := range good {
				if !takes(text) {
					t.Errorf("%s does not take %s", path, text)
				}
			}
			for _, text := range bad {
				if takes(text) {
					t.Errorf("%s takes %.10s", path, text)
				}
			}
		}
		for name, p := range s.Properties {
			look(path+"."+name, &p)
		}
		if s.Items != nil && s.Items.Schema != nil {
			look(path+"[]", s.Items.Schema)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			look(path+".*", s.AdditionalProperties.Schema)
		}
	}
	for _, resource := range []string{"managedworkloads", "strategies"} {
		of := crdOf(t, resource)
		version := of.Spec.Validation
		if version == nil {
			version = of.Spec.Versions[0].Schema
		}
		look(resource, version.OpenAPIV3Schema)
	}
	if found < 10 {
		t.Errorf("only %d quantities", found)
	}
}

func TestDefaults(t *testing.T) {
	object := parse(t, "spec: {targetRef: "+target+", maxReplicas: 10}")
	if errs := newServer(t).admit(object, nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	var got v1alpha1.ManagedWorkload
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, &got, true); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.ManagedWorkloadSpec{
		TargetRef:   v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop"},
		MinReplicas: ptr.To[int32](1),
		MaxReplicas: 10,
		Planner:     v1alpha1.PlannerHorizontal,
		Actuator:    v1alpha1.ActuatorMash2,
		Mode:        v1alpha1.ModeFull,
		Metric:      v1alpha1.Metric{Type: v1alpha1.MetricCPU},

		CooldownSeconds: ptr.To[int32](300),
		CountRequests:   v1alpha1.CountPods,
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestSchemeKnowsTheTypes(t *testing.T) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ManagedWorkload", "ManagedWorkloadList"} {
		if !s.Recognizes(v1alpha1.GroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
}

// The words for modes are the same in both vocabularies.
func TestModesMatch(t *testing.T) {
	want := []api.Mode{api.ModeOff, api.ModeShadow, api.ModeFull}
	got := []api.Mode{api.Mode(v1alpha1.ModeOff), api.Mode(v1alpha1.ModeShadow), api.Mode(v1alpha1.ModeFull)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
