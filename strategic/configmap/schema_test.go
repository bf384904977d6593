package configmap

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
)

var update = flag.Bool("update", false, "write docs/reference/policies.schema.json anew")

// TestSchemaOfPolicies: docs/reference/policies.schema.json is what Parse decodes. The
// schema knows names and types; Parse also checks what values mean.
func TestSchemaOfPolicies(t *testing.T) {
	const page = "../../docs/reference/policies.schema.json"
	root := schemaOf(reflect.TypeFor[file]())
	root["$schema"] = "https://json-schema.org/draft-07/schema#"
	root["title"] = "policies.yaml of the policy ConfigMap"
	properties := root["properties"].(map[string]any)
	properties["policies"] = map[string]any{"type": "object", "additionalProperties": schemaOf(reflect.TypeFor[filePolicy]())}
	properties["schedule"] = map[string]any{"type": "array", "items": schemaOf(reflect.TypeFor[api.ScheduleEntry]())}
	want, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != string(want) {
		t.Error("docs/reference/policies.schema.json:1: not what is decoded: run make reference")
	}
}

// schemaOf a type that is decoded strictly.
func schemaOf(of reflect.Type) map[string]any {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of == reflect.TypeFor[duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}
	case of.Kind() == reflect.Struct:
		properties := map[string]any{}
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			properties[name] = schemaOf(f.Type)
		}
		return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	case of.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(of.Elem())}
	case of.Kind() == reflect.Slice && of != reflect.TypeFor[json.RawMessage]():
		return map[string]any{"type": "array", "items": schemaOf(of.Elem())}
	case of.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case of.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case of.Kind() == reflect.Int32, of.Kind() == reflect.Int:
		return map[string]any{"type": "integer"}
	case of.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		return map[string]any{}
	}
}
