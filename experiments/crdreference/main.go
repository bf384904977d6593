// Command crdreference writes docs/reference/crd.md from the definition in the chart.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "crdreference:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	var b strings.Builder
	if err := references(&b, root); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "reference", "crd.md"), []byte(b.String()), 0o644)
}

// references writes those of all definitions.
func references(w io.Writer, root string) error {
	for i, name := range []string{"managedworkloads", "strategies"} {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := reference(w, filepath.Join(root, "charts", "mash2", "crds", "mash2.io_"+name+".yaml")); err != nil {
			return err
		}
	}
	return nil
}

// reference writes every field of a definition with its type, default, bounds
// and description.
func reference(w io.Writer, path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, v := range crd.Spec.Versions {
		fmt.Fprintf(w, "# %s, %s/%s\n\nMade from the definition by `make reference`.", crd.Spec.Names.Kind, crd.Spec.Group, v.Name)
		if short := crd.Spec.Names.ShortNames; len(short) > 0 {
			fmt.Fprintf(w, " Short name: %s.", strings.Join(short, ", "))
		}
		fmt.Fprintln(w)
		for _, part := range []string{"spec", "status"} {
			schema := v.Schema.OpenAPIV3Schema.Properties[part]
			fmt.Fprintf(w, "\n## %s\n\n%s\n\n| field | type | description |\n|---|---|---|\n", part, sentence(schema.Description))
			fields(w, "", schema)
			for _, rule := range schema.XValidations {
				fmt.Fprintf(w, "\nRule: %s.\n", strings.TrimSuffix(rule.Message, "."))
			}
		}
	}
	return nil
}

func fields(w io.Writer, prefix string, s apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		text := sentence(p.Description)
		if slices.Contains(s.Required, name) {
			text += " Required."
		}
		if p.Default != nil {
			text += " Default: `" + string(p.Default.Raw) + "`."
		}
		for _, rule := range p.XValidations {
			text += " Rule: " + strings.TrimSuffix(rule.Message, ".") + "."
		}
		fmt.Fprintf(w, "| `%s%s` | %s | %s |\n", prefix, name, kind(p), strings.ReplaceAll(text, "|", "\\|"))
		fields(w, prefix+name+".", p)
		if p.Items != nil && p.Items.Schema != nil {
			fields(w, prefix+name+"[].", *p.Items.Schema)
		}
	}
}

// kind of a field, with what bounds it.
func kind(p apiextensionsv1.JSONSchemaProps) string {
	out := p.Type
	switch {
	case p.XIntOrString:
		out = "quantity"
	case p.Type == "array" && p.Items != nil && p.Items.Schema != nil:
		out = "list of " + p.Items.Schema.Type
	}
	if len(p.Enum) > 0 {
		values := make([]string, len(p.Enum))
		for i, v := range p.Enum {
			values[i] = strings.Trim(string(v.Raw), `"`)
		}
		out = strings.Join(values, ", ")
	}
	if p.Minimum != nil && p.Maximum != nil {
		out += fmt.Sprintf(", %.0f to %.0f", *p.Minimum, *p.Maximum)
	}
	return out
}

func sentence(text string) string { return strings.Join(strings.Fields(text), " ") }
