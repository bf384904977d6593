package instance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node"
)

type problem struct {
	Pods      []pods     `json:"pods"`
	NodeTypes []nodeType `json:"nodeTypes"`
	Existing  []existing `json:"existing"`
}

type pods struct {
	Name       string            `json:"name"`
	Count      int64             `json:"count"`
	CPU        *amount           `json:"cpu"`
	Memory     *amount           `json:"memory"`
	Resources  map[string]amount `json:"resources"`
	MaxPerNode int64             `json:"maxPerNode"`
	MaxPerZone int64             `json:"maxPerZone"`
	NodeTypes  []string          `json:"nodeTypes"`
}

type nodeType struct {
	Name      string            `json:"name"`
	CPU       *amount           `json:"cpu"`
	Memory    *amount           `json:"memory"`
	MaxPods   *int64            `json:"maxPods"`
	Resources map[string]amount `json:"resources"`
	Overhead  map[string]amount `json:"overhead"`
	Price     float64           `json:"price"`
	Max       *int64            `json:"max"`
	Zone      string            `json:"zone"`
}

type existing struct {
	Type  string            `json:"type"`
	Count int64             `json:"count"`
	Stay  map[string]amount `json:"stay"`
	Keep  bool              `json:"keep"`
}

// amount is a quantity as Kubernetes writes it, or a number.
type amount struct{ resource.Quantity }

// most is the largest amount and count: sums of them stay in 64 bits.
const most = 1 << 50

// ErrInput is wrapped by every error that is the input's fault.
var ErrInput = errors.New("not a packing problem")

func wrong(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: %w: %s", line, ErrInput, fmt.Sprintf(format, args...))
}

// JSON reads a problem in JSON. Errors wrap ErrInput and name line and field.
func JSON(text []byte) (node.Problem, error) {
	lines, err := index(text)
	if err != nil {
		return node.Problem{}, err
	}
	var in problem
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return node.Problem{}, wrong(lineOf(text, kind.Offset), "%s: %s is no %s", kind.Field, kind.Value, kind.Type)
		}
		return node.Problem{}, wrong(lineOf(text, d.InputOffset()), "%v", err)
	}
	c := converter{lines: lines}
	p := c.problem(in)
	return p, errors.Join(c.errs...)
}

// index maps the path of every value (pods[3].cpu) to its line, and reports
// what is not JSON.
func index(text []byte) (map[string]int, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	lines := map[string]int{}
	var value func(path string, depth int) error
	value = func(path string, depth int) error {
		if depth > 16 {
			return wrong(lineOf(text, d.InputOffset()), "%s: nested too deeply", path)
		}
		token, err := d.Token()
		if err != nil {
			return err
		}
		lines[path] = lineOf(text, d.InputOffset())
		switch token {
		case json.Delim('{'):
			for d.More() {
				key, err := d.Token()
				if err != nil {
					return err
				}
				inner := fmt.Sprint(key)
				if path != "" {
					inner = path + "." + inner
				}
				if err := value(inner, depth+1); err != nil {
					return err
				}
			}
			_, err = d.Token()
		case json.Delim('['):
			for n := 0; d.More(); n++ {
				if err := value(fmt.Sprintf("%s[%d]", path, n), depth+1); err != nil {
					return err
				}
			}
			_, err = d.Token()
		}
		return err
	}
	err := value("", 0)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			return nil, wrong(lineOf(text, d.InputOffset()), "more than one value")
		}
		return lines, nil
	}
	if errors.Is(err, ErrInput) {
		return nil, err
	}
	offset := d.InputOffset()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	}
	return nil, wrong(lineOf(text, offset), "%v", err)
}

func lineOf(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:max(0, min(int(offset), len(text)))], []byte("\n"))
}

// converter turns the file's terms into a problem and collects what is wrong.
type converter struct {
	lines map[string]int
	errs  []error
}

func (c *converter) wrong(path, format string, args ...any) {
	line, ok := c.lines[path]
	for !ok && path != "" { // absent: the line of what should have it
		path = path[:max(0, max(bytes.LastIndexByte([]byte(path), '.'), bytes.LastIndexByte([]byte(path), '[')))]
		line, ok = c.lines[path]
	}
	c.errs = append(c.errs, wrong(max(line, 1), format, args...))
}

func (c *converter) problem(in problem) node.Problem {
	var p node.Problem
	byName := map[string][]int{}
	for n, t := range in.NodeTypes {
		path := fmt.Sprintf("nodeTypes[%d]", n)
		if t.Name == "" || byName[t.Name] != nil {
			c.wrong(path+".name", "%s.name: every node type needs a name of its own, not %q", path, t.Name)
		}
		byName[t.Name] = append(byName[t.Name], n)
		capacity := c.resources(path, t.CPU, t.Memory, t.Resources)
		capacity.Pods = math.MaxInt32
		if t.MaxPods != nil {
			capacity.Pods = c.count(path+".maxPods", *t.MaxPods)
		}
		if t.Price < 0 {
			c.wrong(path+".price", "%s.price: %g is negative", path, t.Price)
		}
		typ := node.Type{
			Name: t.Name, Price: t.Price, Max: node.Unlimited, Zone: t.Zone,
			Capacity: capacity.Minus(c.named(path+".overhead", t.Overhead)),
		}
		if t.Max != nil {
			typ.Max = int32(c.count(path+".max", *t.Max))
		}
		p.Types = append(p.Types, typ)
	}
	for n, e := range in.Existing {
		path := fmt.Sprintf("existing[%d]", n)
		of, ok := byName[e.Type]
		if !ok {
			c.wrong(path+".type", "%s.type: there is no node type %q", path, e.Type)
			continue
		}
		kind := &p.Types[of[0]]
		count := int32(c.count(path+".count", e.Count))
		if kind.Max != node.Unlimited {
			if kind.Max -= count; kind.Max < 0 {
				c.wrong(path+".count", "%s.count: more nodes than the max of %s", path, e.Type)
			}
		}
		typ := *kind
		typ.Name = fmt.Sprintf("%s (existing[%d])", e.Type, n)
		typ.Max = count
		typ.Capacity = typ.Capacity.Minus(c.named(path+".stay", e.Stay))
		if e.Keep {
			typ.Price = 0
		}
		byName[e.Type] = append(byName[e.Type], len(p.Types))
		p.Types = append(p.Types, typ)
	}
	seen := map[string]bool{}
	for n, it := range in.Pods {
		path := fmt.Sprintf("pods[%d]", n)
		if it.Name == "" || seen[it.Name] {
			c.wrong(path+".name", "%s.name: all pods of one shape go together under a name of their own, not %q", path, it.Name)
		}
		seen[it.Name] = true
		item := node.Item{
			Name: it.Name, Count: int32(c.count(path+".count", it.Count)),
			Requests:   c.resources(path, it.CPU, it.Memory, it.Resources),
			MaxPerNode: int32(c.count(path+".maxPerNode", it.MaxPerNode)),
			MaxPerZone: int32(c.count(path+".maxPerZone", it.MaxPerZone)),
		}
		item.Requests.Pods = 1
		for m, name := range it.NodeTypes {
			of, ok := byName[name]
			if !ok {
				c.wrong(fmt.Sprintf("%s.nodeTypes[%d]", path, m), "%s.nodeTypes[%d]: there is no node type %q", path, m, name)
			}
			item.Types = append(item.Types, of...)
		}
		if it.NodeTypes != nil && item.Types == nil {
			item.Types = []int{}
		}
		slices.Sort(item.Types)
		item.Types = slices.Compact(item.Types)
		p.Items = append(p.Items, item)
	}
	return p
}

// count is a number of pods or nodes.
func (c *converter) count(path string, n int64) int64 {
	if n < 0 || n > math.MaxInt32/4 {
		c.wrong(path, "%s: %d is no count", path, n)
		return 0
	}
	return n
}

func (c *converter) resources(path string, cpu, memory *amount, more map[string]amount) api.Resources {
	all := map[string]amount{}
	for k, v := range more {
		if k == "cpu" || k == "memory" || k == "pods" {
			c.wrong(path+".resources."+k, "%s.resources.%s: has a field of its own", path, k)
		}
		all[k] = v
	}
	if cpu != nil {
		all["cpu"] = *cpu
	}
	if memory != nil {
		all["memory"] = *memory
	}
	return c.named(path, all)
}

func (c *converter) named(path string, amounts map[string]amount) api.Resources {
	var r api.Resources
	for k, v := range amounts {
		n := v.Value()
		if k == "cpu" {
			n = v.MilliValue()
		}
		if n < 0 || n > most {
			c.wrong(path+"."+k, "%s.%s: %s is negative or too much", path, k, v.String())
			continue
		}
		switch k {
		case "cpu":
			r.MilliCPU = n
		case "memory":
			r.Memory = n
		case "ephemeral-storage":
			r.EphemeralStorage = n
		case "pods":
			r.Pods = n
		default:
			if r.Extended == nil {
				r.Extended = map[string]int64{}
			}
			r.Extended[k] = n
		}
	}
	return r
}
