package replay

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
)

// Difference of a replayed decision from the recorded one.
type Difference struct {
	Cycle uint64    `json:"cycle"`
	Time  time.Time `json:"time"`
	// Object is what was decided on: "workload shop/web", "pool n2", "actions",
	// "policy", "plan".
	Object string `json:"object"`
	Field  string `json:"field"`
	// Recorded and Replayed are the two values as text; empty for none.
	Recorded string `json:"recorded"`
	Replayed string `json:"replayed"`
}

// String is in a line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s %s → %s", d.Object, d.Field, named(d.Recorded), named(d.Replayed))
}

func named(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// summary is the first differences in a line, those of one object together.
func summary(all []Difference) string {
	var b strings.Builder
	for i, d := range all {
		if i == 0 {
			fmt.Fprintf(&b, "%s: ", strings.TrimPrefix(d.Object, "workload "))
		} else if d.Object != all[0].Object || i == 4 {
			fmt.Fprintf(&b, " (and %d more)", len(all)-i)
			break
		} else {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %s → %s", d.Field, named(d.Recorded), named(d.Replayed))
	}
	return b.String()
}

// differences of a decision from the recorded one, the most telling first: policy,
// actions, replicas, nodes, the rest.
func differences(r api.Record, d mash2.Decision) []Difference {
	c := &comparison{at: r.Cycle}
	if r.Brief {
		d.Plan = record.Brief(d.Plan)
	}
	c.compare("policy", "", reflect.ValueOf(r.Cycle.Policy), reflect.ValueOf(d.Policy))
	was, is := r.Cycle.Plan, d.Plan
	// What people look at first.
	for _, fields := range [][]string{{"Replicas", "NodeReplicas", "Binding"}, nil} {
		each(was.Workloads, is.Workloads, func(w api.WorkloadPlan) string { return w.Key.String() }, func(key string, a, b *api.WorkloadPlan) {
			c.objects("workload "+key, a, b, fields)
		})
	}
	each(was.Nodes.Pools, is.Nodes.Pools, func(p api.PoolPlan) string { return p.Pool }, func(key string, a, b *api.PoolPlan) {
		c.objects("pool "+key, a, b, nil)
	})
	was.Workloads, is.Workloads = nil, nil
	was.Nodes.Pools, is.Nodes.Pools = nil, nil
	c.compare("plan", "", reflect.ValueOf(was), reflect.ValueOf(is))
	c.compare("actions", "", reflect.ValueOf(texts(r.Actions)), reflect.ValueOf(texts(d.Actions)))
	if len(c.found) == 0 {
		c.add("plan", "what records don't keep (curves of forecasts, more digits)", r.Digest, "another digest")
	}
	return c.found
}

func texts(actions []api.Action) []string {
	var out []string
	for _, a := range actions {
		out = append(out, a.String())
	}
	return out
}

// each pairs the elements of two lists by their keys.
func each[T any](was, is []T, key func(T) string, do func(key string, a, b *T)) {
	after := make(map[string]*T, len(is))
	for i := range is {
		after[key(is[i])] = &is[i]
	}
	before := make(map[string]bool, len(was))
	for i := range was {
		k := key(was[i])
		before[k] = true
		do(k, &was[i], after[k])
	}
	for i := range is {
		if k := key(is[i]); !before[k] {
			do(k, nil, &is[i])
		}
	}
}

type comparison struct {
	at    api.Cycle
	found []Difference
	done  map[string]bool
}

func (c *comparison) add(object, field, was, is string) {
	if c.done == nil {
		c.done = map[string]bool{}
	}
	if c.done[object+" "+field] {
		return
	}
	c.done[object+" "+field] = true
	c.found = append(c.found, Difference{c.at.ID, c.at.Time, object, field, was, is})
}

// objects compares two of a kind, of which one may be missing: these fields, or all.
func (c *comparison) objects(object string, a, b any, fields []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case x.IsNil() || y.IsNil():
		have := map[bool]string{true: "", false: "planned"}
		c.add(object, "plan", have[x.IsNil()], have[y.IsNil()])
	case fields == nil:
		c.compare(object, "", x.Elem(), y.Elem())
	default:
		for _, f := range fields {
			c.compare(object, fieldName(x.Elem().Type(), f), x.Elem().FieldByName(f), y.Elem().FieldByName(f))
		}
	}
}

// fieldName is as in JSON.
func fieldName(t reflect.Type, name string) string {
	f, _ := t.FieldByName(name)
	if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" && tag != "-" {
		return tag
	}
	return strings.ToLower(name[:1]) + name[1:]
}

// compare adds the fields in which two values of a type differ.
func (c *comparison) compare(object, path string, a, b reflect.Value) {
	if a.Type() == reflect.TypeFor[time.Time]() {
		if x, y := a.Interface().(time.Time), b.Interface().(time.Time); !x.Equal(y) {
			c.add(object, path, x.UTC().Format(time.RFC3339Nano), y.UTC().Format(time.RFC3339Nano))
		}
		return
	}
	below := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	switch a.Kind() {
	case reflect.Pointer:
		switch {
		case a.IsNil() && b.IsNil():
		case a.IsNil() || b.IsNil():
			c.add(object, path, printed(a), printed(b))
		default:
			c.compare(object, path, a.Elem(), b.Elem())
		}
	case reflect.Struct:
		for i := range a.NumField() {
			c.compare(object, below(fieldName(a.Type(), a.Type().Field(i).Name)), a.Field(i), b.Field(i))
		}
	case reflect.Slice:
		for i := range max(a.Len(), b.Len()) {
			at := fmt.Sprintf("%s[%d]", path, i)
			switch {
			case i >= a.Len():
				c.add(object, at, "", printed(b.Index(i)))
			case i >= b.Len():
				c.add(object, at, printed(a.Index(i)), "")
			default:
				c.compare(object, at, a.Index(i), b.Index(i))
			}
		}
	case reflect.Float64:
		if math.Float64bits(a.Float()) != math.Float64bits(b.Float()) {
			c.add(object, path, strconv.FormatFloat(a.Float(), 'g', -1, 64), strconv.FormatFloat(b.Float(), 'g', -1, 64))
		}
	default:
		if x, y := printed(a), printed(b); x != y {
			c.add(object, path, x, y)
		}
	}
}

// printed is a value as text, empty for nil.
func printed(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if step, ok := v.Interface().(api.PathStep); ok {
		return fmt.Sprintf("%d from %s", step.Replicas, step.At.UTC().Format(time.RFC3339))
	}
	return fmt.Sprint(v.Interface())
}
