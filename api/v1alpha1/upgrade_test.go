package v1alpha1_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// definition of a version, by file.
func definition(t *testing.T, path string) apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var d apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestNoFieldIsLost: what was stored under the first definition of v1alpha1 is
// kept and admitted under today's: the version is served and stored, every field
// is there with its type, no value of a closed set is gone, no bound is tighter,
// and none has become required.
func TestNoFieldIsLost(t *testing.T) {
	first := definition(t, "testdata/first-definition.yaml")
	today := definition(t, "../../charts/mash2/crds/mash2.io_managedworkloads.yaml")
	fields := 0
	for _, old := range first.Spec.Versions {
		i := slices.IndexFunc(today.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == old.Name })
		if i < 0 || !today.Spec.Versions[i].Served || old.Storage && !today.Spec.Versions[i].Storage && today.Spec.Conversion == nil {
			t.Errorf("version %s is neither served nor converted", old.Name)
			continue
		}
		now := today.Spec.Versions[i]
		if old.Subresources != nil && now.Subresources == nil {
			t.Error("the status is no subresource any more")
		}
		for _, problem := range narrower("", *old.Schema.OpenAPIV3Schema, *now.Schema.OpenAPIV3Schema, &fields) {
			t.Error(problem)
		}
	}
	if fields < 40 {
		t.Errorf("only %d fields were compared", fields)
	}
}

// narrower lists where now admits less than old did.
func narrower(path string, old, now apiextensionsv1.JSONSchemaProps, fields *int) []string {
	*fields++
	var out []string
	say := func(format string, args ...any) { out = append(out, path+": "+fmt.Sprintf(format, args...)) }
	if old.Type != now.Type || old.XIntOrString != now.XIntOrString {
		say("was %s, is %s", old.Type, now.Type)
	}
	for _, v := range old.Enum {
		if len(now.Enum) > 0 && !slices.ContainsFunc(now.Enum, func(n apiextensionsv1.JSON) bool { return string(n.Raw) == string(v.Raw) }) {
			say("%s is not allowed any more", v.Raw)
		}
	}
	if now.Minimum != nil && (old.Minimum == nil || *now.Minimum > *old.Minimum) {
		say("must be %g or more now", *now.Minimum)
	}
	if now.Maximum != nil && (old.Maximum == nil || *now.Maximum < *old.Maximum) {
		say("must be %g or less now", *now.Maximum)
	}
	for _, name := range now.Required {
		if !slices.Contains(old.Required, name) {
			say("%s is required now", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		field, ok := now.Properties[name]
		if !ok {
			say("%s is gone", name)
			continue
		}
		out = append(out, narrower(path+"."+name, old.Properties[name], field, fields)...)
	}
	if old.Items != nil && old.Items.Schema != nil && now.Items != nil && now.Items.Schema != nil {
		out = append(out, narrower(path+"[]", *old.Items.Schema, *now.Items.Schema, fields)...)
	}
	return out
}

// The comparison finds what it is for.
func TestNarrower(t *testing.T) {
	number := func(most float64) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "integer", Maximum: &most}
	}
	object := func(required []string, fields map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Required: required, Properties: fields}
	}
	old := object(nil, map[string]apiextensionsv1.JSONSchemaProps{"a": number(5)})
	for name, c := range map[string]struct {
		now  apiextensionsv1.JSONSchemaProps
		want int
	}{
		"the same":         {old, 0},
		"a wider bound":    {object(nil, map[string]apiextensionsv1.JSONSchemaProps{"a": number(6)}), 0},
		"one field more":   {object(nil, map[string]apiextensionsv1.JSONSchemaProps{"a": number(5), "b": number(1)}), 0},
		"a tighter bound":  {object(nil, map[string]apiextensionsv1.JSONSchemaProps{"a": number(4)}), 1},
		"a field less":     {object(nil, nil), 1},
		"one more to give": {object([]string{"b"}, map[string]apiextensionsv1.JSONSchemaProps{"a": number(5)}), 1},
		"another type":     {object(nil, map[string]apiextensionsv1.JSONSchemaProps{"a": {Type: "string"}}), 1},
	} {
		n := 0
		if got := narrower("", old, c.now, &n); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
