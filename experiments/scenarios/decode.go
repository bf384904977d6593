package scenarios

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FieldError is a mistake in a scenario file.
type FieldError struct {
	File  string
	Line  int    // 0 if the field is missing altogether
	Field string // path, such as workload.cpu.request or stages[2]
	Err   error
}

// Error is "file:line: field: message".
func (e *FieldError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	return b.String() + e.Err.Error()
}

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }

// Parse decodes, defaults and validates a scenario; file is for messages only.
// Unknown and repeated fields are mistakes. The error joins one *FieldError per
// mistake.
func Parse(file string, data []byte) (Scenario, error) {
	d := &decoder{file: file, lines: map[string]int{}}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return Scenario{}, fmt.Errorf("%s: %w", file, err)
	}
	if len(root.Content) != 1 {
		return Scenario{}, &FieldError{File: file, Err: errors.New("no scenario in it")}
	}
	var s Scenario
	d.decode(root.Content[0], "", reflect.ValueOf(&s).Elem())
	if len(d.errs) == 0 {
		s.setDefaults()
		s.validate(d.failAt)
	}
	if len(d.errs) > 0 {
		return Scenario{}, errors.Join(d.errs...)
	}
	return s, nil
}

// decoder walks a YAML tree beside a Go value, so that every mistake can be
// reported with its field path and line, which no decoder at hand does for
// unknown fields and parse errors alike.
type decoder struct {
	file  string
	lines map[string]int // of the paths seen
	errs  []error
}

func (d *decoder) failAt(field, format string, args ...any) {
	line := d.lines[field]
	for p := field; line == 0 && p != ""; line = d.lines[p] {
		p = p[:max(strings.LastIndexAny(p, ".["), 0)]
	}
	d.errs = append(d.errs, &FieldError{File: d.file, Line: line, Field: field, Err: fmt.Errorf(format, args...)})
}

func (d *decoder) decode(n *yaml.Node, field string, v reflect.Value) {
	d.lines[field] = n.Line
	if n.Kind == yaml.AliasNode {
		d.failAt(field, "aliases are not supported")
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if n.Kind != yaml.ScalarNode {
			d.failAt(field, "must be a single value")
			return
		}
		if err := u.UnmarshalText([]byte(n.Value)); err != nil {
			d.failAt(field, "%w", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.decodeStruct(n, field, v)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.failAt(field, "must be a list")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, c := range n.Content {
			d.decode(c, fmt.Sprintf("%s[%d]", field, i), v.Index(i))
		}
	default:
		if n.Kind != yaml.ScalarNode {
			d.failAt(field, "must be a single value")
			return
		}
		if err := n.Decode(v.Addr().Interface()); err != nil {
			d.failAt(field, "%q is not a %s", n.Value, v.Kind())
		}
	}
}

func (d *decoder) decodeStruct(n *yaml.Node, field string, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.failAt(field, "must be a mapping")
		return
	}
	fields := map[string]int{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		fields[name] = i
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		path := key
		if field != "" {
			path = field + "." + key
		}
		d.lines[path] = n.Content[i].Line
		index, known := fields[key]
		switch {
		case !known:
			d.failAt(path, "unknown field")
		case seen[key]:
			d.failAt(path, "given twice")
		default:
			d.decode(n.Content[i+1], path, v.Field(index))
		}
		seen[key] = true
	}
}
