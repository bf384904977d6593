package scenarios

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
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
// Its base, if it has one, must be built in, and no trace is read: use Load for
// files. Unknown and repeated fields are mistakes. The error joins one
// *FieldError per mistake.
func Parse(file string, data []byte) (Scenario, error) { return parse(file, data, readBuiltIn) }

// read returns the text of a scenario that another, in a file, is based on.
type read func(name, from string) (file string, data []byte, err error)

func parse(file string, data []byte, open read) (Scenario, error) {
	d := &decoder{file: file, lines: map[string]position{}, open: open}
	var s Scenario
	d.document(data, &s, 0)
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
	lines map[string]position // of the paths seen
	open  read
	errs  []error
}

type position struct {
	file string
	line int
}

// maxBases is how many scenarios may stand on each other's shoulders.
const maxBases = 4

// document decodes a file over what its base, which comes first, has set.
func (d *decoder) document(data []byte, s *Scenario, depth int) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		d.errs = append(d.errs, fmt.Errorf("%s: %w", d.file, err))
		return
	}
	if len(root.Content) != 1 {
		d.errs = append(d.errs, &FieldError{File: d.file, Err: errors.New("no scenario in it")})
		return
	}
	top := root.Content[0]
	given := map[string]*yaml.Node{}
	if top.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(top.Content); i += 2 {
			given[top.Content[i].Value] = top.Content[i+1]
		}
	}
	if base := given["base"]; base != nil && base.Kind == yaml.ScalarNode {
		d.lines["base"] = position{d.file, base.Line}
		if depth == maxBases {
			d.failAt("base", "more than %d scenarios stand on each other", maxBases)
			return
		}
		file, data, err := d.open(base.Value, d.file)
		if err != nil {
			d.failAt("base", "%w", err)
			return
		}
		mine := d.file
		d.file = file
		d.document(data, s, depth+1)
		d.file = mine
		// A scenario has a name of its own, and one kind of load.
		s.Name, s.Description = "", ""
		if given["stages"] != nil || given["arrivals"] != nil || given["users"] != nil {
			s.StartVUs, s.Stages, s.Arrivals, s.Users = nil, nil, nil, nil
		}
	}
	d.decode(top, "", reflect.ValueOf(s).Elem())
	s.Base = ""
}

func (d *decoder) failAt(field, format string, args ...any) {
	at, ok := d.lines[field]
	for p := field; !ok && p != ""; at, ok = d.lines[p] {
		p = p[:max(strings.LastIndexAny(p, ".["), 0)]
	}
	if at.file == "" {
		at.file = d.file
	}
	d.errs = append(d.errs, &FieldError{File: at.file, Line: at.line, Field: field, Err: fmt.Errorf(format, args...)})
}

func (d *decoder) decode(n *yaml.Node, field string, v reflect.Value) {
	d.lines[field] = position{d.file, n.Line}
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
		err := n.Decode(v.Addr().Interface())
		if v.CanInt() && err == nil { // YAML's decoder cuts 3.5 to 3
			_, err = strconv.ParseInt(n.Value, 0, v.Type().Bits())
		}
		if err != nil {
			d.failAt(field, "%q is not %s", n.Value, kindName(v.Kind()))
		}
	}
}

func (d *decoder) decodeStruct(n *yaml.Node, field string, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.failAt(field, "must be a mapping")
		return
	}
	fields := map[string][]int{}
	fieldsOf(v.Type(), nil, fields)
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		path := key
		if field != "" {
			path = field + "." + key
		}
		d.lines[path] = position{d.file, n.Content[i].Line}
		index, known := fields[key]
		switch {
		case !known:
			d.failAt(path, "unknown field")
		case seen[key]:
			d.failAt(path, "given twice")
		default:
			d.decode(n.Content[i+1], path, v.FieldByIndex(index))
		}
		seen[key] = true
	}
}

// kindName is what people call a kind of value.
func kindName(k reflect.Kind) string {
	switch k {
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	}
	return "a " + k.String()
}

// fieldsOf collects the fields of a struct by their names in YAML, those of
// embedded structs as its own.
func fieldsOf(t reflect.Type, at []int, out map[string][]int) {
	for i := range t.NumField() {
		f := t.Field(i)
		path := append(slices.Clone(at), i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			fieldsOf(f.Type, path, out)
		case f.IsExported() && name != "-":
			out[name] = path
		}
	}
}

// inherit fills what is missing in v from base, of the same type.
func inherit(v, base reflect.Value) {
	switch v.Interface().(type) {
	case Quantity, Duration, Distribution:
	default:
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				inherit(v.Field(i), base.Field(i))
			}
			return
		}
	}
	if v.IsZero() {
		v.Set(base)
	}
}
