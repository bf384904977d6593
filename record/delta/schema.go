package delta

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// node is a type of a schema.
type node struct {
	Kind   kind   `json:"k"`
	Elem   *int   `json:"e,omitempty"`
	Key    *int   `json:"m,omitempty"`
	Length int    `json:"n,omitempty"`
	Single bool   `json:"s,omitempty"` // a float of single precision
	Names  []part `json:"f,omitempty"` // fields, or what an interface may hold
}

type part struct {
	Name string `json:"n"`
	Type int    `json:"t"`
}

// Schema describes the type to a Decoder.
func (e *Encoder[T]) Schema() []byte {
	nodes := make([]node, len(e.types.list))
	id := func(d *desc) *int {
		if d == nil {
			return nil
		}
		return &d.id
	}
	for i, d := range e.types.list {
		n := node{Kind: d.kind, Elem: id(d.elem), Key: id(d.key), Length: d.length, Single: d.kind == kFloat && d.size == 4}
		for _, f := range d.fields {
			n.Names = append(n.Names, part{f.name, f.desc.id})
		}
		for _, c := range d.choices {
			n.Names = append(n.Names, part{c.name, c.desc.id})
		}
		nodes[i] = n
	}
	b, err := json.Marshal(nodes)
	if err != nil {
		panic(err) // plain values
	}
	return b
}

// pair is a type of the schema with the one of ours that it is read into, nil
// where there is none: then what is written is skipped.
type pair struct {
	column    int // of its first field, of a struct
	node      *node
	typ       reflect.Type
	elem, key *pair
	parts     []partPair
}

type partPair struct {
	index int // of the field; −1 for one that we don't have
	*pair
}

type pairKey struct {
	id  int
	typ reflect.Type
}

type pairing struct {
	nodes []node
	first []int                   // column of each struct's first field
	names map[string]reflect.Type // that were registered
	known map[pairKey]*pair
}

var errSchema = errors.New("delta: the schema is damaged")

// newPairing pairs a schema with a type.
// It returns how many columns there are, too.
func newPairing(schema []byte, t reflect.Type) (root *pair, columns int, err error) {
	p := &pairing{names: registered(), known: map[pairKey]*pair{}}
	if err := json.Unmarshal(schema, &p.nodes); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errSchema, err)
	}
	columns = 1
	for _, n := range p.nodes {
		p.first = append(p.first, columns)
		if n.Kind == kStruct {
			columns += len(n.Names)
		}
	}
	if len(p.nodes) > maxTypes || columns > maxColumns {
		return nil, 0, errSchema
	}
	// The first is the root.
	root, err = p.pair(0, t)
	return root, columns, err
}

// pair finds, by the names of fields, where a type of the schema is read into.
func (p *pairing) pair(id int, t reflect.Type) (*pair, error) {
	if id < 0 || id >= len(p.nodes) {
		return nil, errSchema
	}
	n := &p.nodes[id]
	if t != nil && !fits(n, t) {
		t = nil
	}
	key := pairKey{id, t}
	if known, ok := p.known[key]; ok {
		return known, nil
	}
	out := &pair{node: n, typ: t, column: p.first[id]}
	p.known[key] = out
	inside := func(id *int, of func(reflect.Type) reflect.Type) (*pair, error) {
		if id == nil {
			return nil, errSchema
		}
		if t == nil {
			return p.pair(*id, nil)
		}
		return p.pair(*id, of(t))
	}
	var err error
	switch n.Kind {
	case kSlice, kPtr, kArray:
		if n.Kind == kArray && (n.Length < 1 || n.Length > maxArray) {
			return nil, errSchema
		}
		out.elem, err = inside(n.Elem, reflect.Type.Elem)
	case kMap:
		if out.key, err = inside(n.Key, reflect.Type.Key); err == nil {
			out.elem, err = inside(n.Elem, reflect.Type.Elem)
		}
	case kStruct:
		for _, f := range n.Names {
			q := partPair{index: -1}
			var ft reflect.Type
			if t != nil {
				if sf, ok := t.FieldByName(f.Name); ok && len(sf.Index) == 1 && sf.Tag.Get("delta") != "-" {
					q.index, ft = sf.Index[0], sf.Type
				}
			}
			if q.pair, err = p.pair(f.Type, ft); err != nil {
				return nil, err
			}
			if q.typ == nil {
				q.index = -1
			}
			out.parts = append(out.parts, q)
		}
	case kAny:
		for _, c := range n.Names {
			ct := p.names[c.Name]
			if t == nil || ct != nil && !ct.Implements(t) {
				ct = nil
			}
			cp, err := p.pair(c.Type, ct)
			if err != nil {
				return nil, err
			}
			out.parts = append(out.parts, partPair{-1, cp})
		}
	case kBool, kInt, kUint, kFloat, kString, kTime:
	default:
		err = errSchema
	}
	return out, err
}

// maxArray is the longest array, maxTypes the most types, and maxColumns the most
// columns, that a schema may have.
const (
	maxArray   = 1 << 10
	maxTypes   = 1 << 12
	maxColumns = 1 << 14
)

// fits reports whether values of a node can be read into a type.
func fits(n *node, t reflect.Type) bool {
	k := t.Kind()
	switch n.Kind {
	case kTime:
		return t == timeType
	case kBool:
		return k == reflect.Bool
	case kInt:
		return k >= reflect.Int && k <= reflect.Int64
	case kUint:
		return k >= reflect.Uint && k <= reflect.Uint64
	case kFloat:
		return k == reflect.Float64 && !n.Single || k == reflect.Float32 && n.Single
	case kString:
		return k == reflect.String
	case kSlice:
		return k == reflect.Slice
	case kArray:
		return k == reflect.Array && t.Len() == n.Length
	case kPtr:
		return k == reflect.Pointer
	case kMap:
		return k == reflect.Map
	case kStruct:
		return k == reflect.Struct && t != timeType
	case kAny:
		return k == reflect.Interface
	}
	return false
}
