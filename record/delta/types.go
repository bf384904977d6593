package delta

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"
)

type kind string

// The kinds of a schema.
const (
	kBool   kind = "bool"
	kInt    kind = "int"
	kUint   kind = "uint"
	kFloat  kind = "float"
	kString kind = "string"
	kTime   kind = "time"
	kSlice  kind = "slice"
	kArray  kind = "array"
	kMap    kind = "map"
	kPtr    kind = "pointer"
	kStruct kind = "struct"
	kAny    kind = "any"
)

// desc is a type as the codec handles it.
type desc struct {
	id        int
	typ       reflect.Type
	kind      kind
	size      uintptr
	elem, key *desc
	length    int // of an array
	fields    []field
	// ident is the field that tells elements of a slice apart; −1 for none.
	ident int
	// plain is true where values hold no pointers and no floats: equal memory is
	// an equal value, and the other way round.
	plain bool
	// choices of an interface, in order of name.
	choices []choice
	zero    unsafe.Pointer // a value of all zeros
}

type field struct {
	name   string
	index  int
	offset uintptr
	desc   *desc
	column int // see columns
}

type choice struct {
	name string
	desc *desc
}

var (
	registryLock sync.Mutex
	registry     = map[string]reflect.Type{}
)

// Register names a type that interfaces hold. It is called once for each type and
// panics when a name is taken by another one.
func Register(name string, of any) {
	registryLock.Lock()
	defer registryLock.Unlock()
	t := reflect.TypeOf(of)
	if was, ok := registry[name]; ok && was != t {
		panic(fmt.Sprintf("delta: %q is %v, not %v", name, was, t))
	}
	registry[name] = t
}

func registered() map[string]reflect.Type {
	registryLock.Lock()
	defer registryLock.Unlock()
	return maps.Clone(registry)
}

var timeType = reflect.TypeFor[time.Time]()

// types are all that a root type refers to, by id.
type types struct {
	list    []*desc
	of      map[reflect.Type]*desc
	columns int
}

func describe(t reflect.Type) (*types, *desc, error) {
	all := &types{of: map[reflect.Type]*desc{}}
	root, err := all.add(t, t.String())
	column := 0
	for _, d := range all.list {
		for i := range d.fields {
			column++
			d.fields[i].column = column
		}
	}
	all.columns = column + 1
	return all, root, err
}

func (a *types) add(t reflect.Type, path string) (*desc, error) {
	if d, ok := a.of[t]; ok {
		return d, nil
	}
	d := &desc{id: len(a.list), typ: t, size: t.Size(), ident: -1}
	a.list, a.of[t] = append(a.list, d), d
	d.zero = reflect.New(t).UnsafePointer()
	var err error
	switch k := t.Kind(); {
	case t == timeType:
		d.kind = kTime
	case k == reflect.Bool:
		d.kind, d.plain = kBool, true
	case k >= reflect.Int && k <= reflect.Int64:
		d.kind, d.plain = kInt, true
	case k >= reflect.Uint && k <= reflect.Uint64:
		d.kind, d.plain = kUint, true
	case k == reflect.Float32 || k == reflect.Float64:
		d.kind, d.plain = kFloat, true // by their bits
	case k == reflect.String:
		d.kind = kString
	case k == reflect.Slice:
		d.kind = kSlice
		if d.elem, err = a.add(t.Elem(), path+"[]"); err == nil {
			d.ident = identOf(d.elem)
		}
	case k == reflect.Array && t.Len() > 0 && t.Len() <= maxArray:
		d.kind, d.length = kArray, t.Len()
		if d.elem, err = a.add(t.Elem(), path+"[]"); err == nil {
			d.plain = d.elem.plain
		}
	case k == reflect.Pointer:
		d.kind = kPtr
		d.elem, err = a.add(t.Elem(), path)
	case k == reflect.Map:
		d.kind = kMap
		if d.key, err = a.add(t.Key(), path+"{key}"); err == nil {
			d.elem, err = a.add(t.Elem(), path+"{}")
		}
	case k == reflect.Struct:
		d.kind = kStruct
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Tag.Get("delta") == "-" {
				continue
			}
			fd, err := a.add(f.Type, path+"."+f.Name)
			if err != nil {
				return nil, err
			}
			d.fields = append(d.fields, field{name: f.Name, index: i, offset: f.Offset, desc: fd})
		}
	case k == reflect.Interface:
		d.kind = kAny
		known := registered()
		for _, name := range slices.Sorted(maps.Keys(known)) {
			if !known[name].Implements(t) {
				continue
			}
			cd, err := a.add(known[name], path+"("+name+")")
			if err != nil {
				return nil, err
			}
			d.choices = append(d.choices, choice{name, cd})
		}
	default:
		err = fmt.Errorf("delta: %s is a %v, which can't be encoded", path, t)
	}
	return d, err
}

// identOf is the field of a struct that tells elements apart.
func identOf(d *desc) int {
	if d.kind != kStruct {
		return -1
	}
	for _, name := range []string{"Key", "Name", "Pool"} {
		for i, f := range d.fields {
			if f.name == name && texts(f.desc) {
				return i
			}
		}
	}
	return -1
}

// texts reports whether a type is a string or a struct of strings.
func texts(d *desc) bool {
	if d.kind == kStruct {
		return len(d.fields) > 0 && !slices.ContainsFunc(d.fields, func(f field) bool { return f.desc.kind != kString })
	}
	return d.kind == kString
}
