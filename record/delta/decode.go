package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"time"
	"unsafe"
)

// ErrDamaged is wrapped by the errors of bytes that no Encoder wrote.
var ErrDamaged = errors.New("delta: damaged")

// Decoder reads what an Encoder wrote, of this or of another version of the type.
type Decoder[T any] struct {
	root    *pair
	columns int
}

// NewDecoder returns a Decoder for values of a schema. Fields that T lacks, or has of
// another kind, are skipped; those that the schema lacks stay zero.
func NewDecoder[T any](schema []byte) (*Decoder[T], error) {
	root, columns, err := newPairing(schema, reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	if root.typ == nil {
		return nil, fmt.Errorf("delta: the schema is of a %s, not of a %v", root.node.Kind, reflect.TypeFor[T]())
	}
	return &Decoder[T]{root, columns}, nil
}

// Decode returns the value that was written as b, as it differs from prev, which
// must be what the Encoder had; nil is the zero value. The value shares memory with
// prev. What it allocates is in proportion to b and prev. An error wraps ErrDamaged.
func (d *Decoder[T]) Decode(b []byte, prev *T) (out T, err error) {
	if prev == nil {
		prev = new(T)
	}
	r := reader{b: b}
	r.split(d.columns)
	r.value(d.root, reflect.ValueOf(prev).Elem(), reflect.ValueOf(&out).Elem())
	if r.err == nil {
		r.streams[r.at] = r.b
		for _, s := range r.streams {
			if len(s) > 0 {
				r.fail("bytes are left over")
			}
		}
	}
	if r.err != nil {
		var zero T
		return zero, r.err
	}
	return out, nil
}

// reader reads from the stream at, of which b is the rest. Without streams everything
// comes from b.
type reader struct {
	b       []byte
	at      int
	streams [][]byte
	flat    bool // a key is being read
	err     error
	depth   int
}

// enter reads from another stream from here on and returns the one before.
func (r *reader) enter(stream int) (before int) {
	before = r.at
	if !r.flat && stream != before && r.err == nil {
		r.streams[before] = r.b
		r.b, r.at = r.streams[stream], stream
	}
	return before
}

// raw is where bytes of no structure are read from.
func (r *reader) raw() *[]byte {
	if r.flat || r.err != nil {
		return &r.b
	}
	return &r.streams[streamOf(r.at, rawStream)]
}

// maxDepth of values within values.
const maxDepth = 200

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrDamaged, why)
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("ends early")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("a number is cut off")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("a number is cut off")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// own is v as a field of a struct, which may be an unexported one.
func own(v reflect.Value, field int) reflect.Value {
	f := v.Field(field)
	if f.CanSet() {
		return f
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// value reads into out, which can be set, as it differs from prev, which can be
// addressed. Both are invalid where what is read is skipped.
func (r *reader) value(p *pair, prev, out reflect.Value) {
	if r.depth++; r.depth > maxDepth {
		r.fail("too deep")
	}
	defer func() { r.depth-- }()
	if r.err != nil {
		return
	}
	keep := p.typ != nil && out.IsValid()
	switch p.node.Kind {
	case kBool:
		if v := r.byte(); keep {
			out.SetBool(v != 0)
		}
	case kInt:
		if v := r.int(); keep {
			if v += prev.Int(); out.OverflowInt(v) {
				r.fail("a number is too large")
				return
			}
			out.SetInt(v)
		}
	case kUint:
		if v := uint64(r.int()); keep {
			if v += prev.Uint(); out.OverflowUint(v) {
				r.fail("a number is too large")
				return
			}
			out.SetUint(v)
		}
	case kFloat:
		r.float(p, prev, out, keep)
	case kString:
		r.string(prev, out, keep)
	case kTime:
		seconds, nanos := r.int(), r.int()
		if keep {
			before := prev.Addr().Interface().(*time.Time)
			out.Set(reflect.ValueOf(time.Unix(before.Unix()+seconds, int64(before.Nanosecond())+nanos).UTC()))
		}
	case kPtr:
		r.pointer(p, prev, out, keep)
	case kArray:
		for i := 0; i < p.node.Length && r.err == nil; i++ {
			if keep {
				r.value(p.elem, prev.Index(i), out.Index(i))
			} else {
				r.value(p.elem, reflect.Value{}, reflect.Value{})
			}
		}
	case kStruct:
		r.fields(p, prev, out, keep)
	case kSlice:
		r.slice(p, prev, out, keep)
	case kMap:
		r.mapping(p, prev, out, keep)
	case kAny:
		r.choice(p, prev, out, keep)
	}
}

func (r *reader) float(p *pair, prev, out reflect.Value, keep bool) {
	how := r.byte()
	n, cut := int(how>>4), int(how&15)*4
	raw := r.raw()
	if n > 8 || n > len(*raw) {
		r.fail("a float is cut off")
		return
	}
	var v uint64
	for i, b := range (*raw)[:n] {
		v |= uint64(b) << (8 * i)
	}
	*raw = (*raw)[n:]
	if !keep {
		return
	}
	to := func(before uint64) uint64 { return (before>>cut + (v>>1 ^ -(v & 1))) << cut }
	if at := unsafe.Pointer(out.UnsafeAddr()); p.node.Single {
		*(*uint32)(at) = uint32(to(uint64(*(*uint32)(unsafe.Pointer(prev.UnsafeAddr())))<<32) >> 32)
	} else {
		*(*uint64)(at) = to(*(*uint64)(unsafe.Pointer(prev.UnsafeAddr())))
	}
}

func (r *reader) pointer(p *pair, prev, out reflect.Value, keep bool) {
	if r.byte() == 0 {
		return
	}
	if !keep {
		r.value(p.elem, reflect.Value{}, reflect.Value{})
		return
	}
	at := reflect.New(out.Type().Elem())
	if prev.IsNil() {
		prev = reflect.New(out.Type().Elem())
	}
	r.value(p.elem, prev.Elem(), at.Elem())
	out.Set(at)
}

func (r *reader) fields(p *pair, prev, out reflect.Value, keep bool) {
	n := maskLen(len(p.parts))
	if n > len(r.b) {
		r.fail("ends early")
		return
	}
	mask := r.b[:n]
	r.b = r.b[n:]
	if keep {
		out.Set(prev)
		for i := range p.parts {
			if mask[i/8]&(1<<(i%8)) == 0 {
				continue
			}
			if f := p.parts[i].index; f >= 0 {
				own(out, f).SetZero()
			}
		}
	}
	for i := range p.parts {
		if mask[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		was := r.enter((p.column + i) * streamsOf)
		if f := p.parts[i].index; keep && f >= 0 {
			r.value(p.parts[i].pair, own(prev, f), own(out, f))
		} else {
			r.value(p.parts[i].pair, reflect.Value{}, reflect.Value{})
		}
		r.enter(was)
		if r.err != nil {
			return
		}
	}
}

func (r *reader) slice(p *pair, prev, out reflect.Value, keep bool) {
	size := r.uint()
	if size == 0 || r.err != nil {
		return // nil, as out is
	}
	size--
	var list, zero reflect.Value
	before := 0
	if keep {
		before = prev.Len()
		// Every new element takes a byte, all others are in the earlier slice.
		list = reflect.MakeSlice(out.Type(), 0, int(min(size, uint64(before+min(len(r.b), 64)))))
		zero = reflect.New(out.Type().Elem()).Elem()
	}
	at := int64(0)
	for done := uint64(0); done < size; {
		if r.err != nil {
			return
		}
		op := r.uint()
		n := op >> 2
		if op&3 == opSkip {
			at += int64(n>>1) ^ -int64(n&1)
			continue
		}
		if n == 0 || n > size-done {
			r.fail("a slice is longer than it should be")
			return
		}
		switch op & 3 {
		case opCopy:
			if keep {
				if at < 0 || at > int64(before) || n > uint64(int64(before)-at) {
					r.fail("a slice refers to more than there was")
					return
				}
				list = reflect.AppendSlice(list, prev.Slice(int(at), int(at)+int(n)))
			}
			at += int64(n)
		default:
			for range n {
				stream := r.enter(streamOf(r.at, elementStream))
				if !keep {
					r.value(p.elem, reflect.Value{}, reflect.Value{})
				} else {
					from := zero
					if op&3 == opChange {
						if at < 0 || at >= int64(before) {
							r.fail("a slice refers to more than there was")
							return
						}
						from = prev.Index(int(at))
					} else if list.Len() > 0 {
						from = list.Index(list.Len() - 1)
					}
					list = r.element(p, list, from)
				}
				r.enter(stream)
				if op&3 == opChange {
					at++
				}
				if r.err != nil {
					return
				}
			}
		}
		done += n
	}
	if keep {
		out.Set(list)
	}
}

// element reads one more element of a list.
func (r *reader) element(p *pair, list, from reflect.Value) reflect.Value {
	one := reflect.New(list.Type().Elem()).Elem()
	r.value(p.elem, from, one)
	return reflect.Append(list, one)
}

func (r *reader) mapping(p *pair, prev, out reflect.Value, keep bool) {
	if r.byte() == 0 {
		return
	}
	key := func() reflect.Value {
		defer func(was bool) { r.flat = was }(r.flat)
		r.flat = true
		if !keep || p.key.typ == nil {
			r.value(p.key, reflect.Value{}, reflect.Value{})
			return reflect.Value{}
		}
		k := reflect.New(out.Type().Key()).Elem()
		r.value(p.key, reflect.New(out.Type().Key()).Elem(), k)
		return k
	}
	keep = keep && p.key.typ != nil && p.elem.typ != nil
	if keep {
		out.Set(reflect.MakeMap(out.Type()))
		for it := prev.MapRange(); it.Next(); {
			out.SetMapIndex(it.Key(), it.Value())
		}
	}
	for n := r.uint(); n > 0 && r.err == nil; n-- {
		if k := key(); keep && r.err == nil {
			out.SetMapIndex(k, reflect.Value{})
		}
	}
	for n := r.uint(); n > 0 && r.err == nil; n-- {
		k := key()
		if !keep {
			r.value(p.elem, reflect.Value{}, reflect.Value{})
			continue
		}
		from, to := reflect.New(out.Type().Elem()).Elem(), reflect.New(out.Type().Elem()).Elem()
		if v := prev.MapIndex(k); v.IsValid() {
			from.Set(v)
		}
		r.value(p.elem, from, to)
		if r.err == nil {
			out.SetMapIndex(k, to)
		}
	}
}

func (r *reader) choice(p *pair, prev, out reflect.Value, keep bool) {
	n := r.uint()
	if n == 0 || r.err != nil {
		return
	}
	if n > uint64(len(p.parts)) {
		r.fail("an interface holds a type that is not in the schema")
		return
	}
	c := p.parts[n-1].pair
	if !keep || c.typ == nil {
		r.value(c, reflect.Value{}, reflect.Value{})
		return
	}
	from, to := reflect.New(c.typ).Elem(), reflect.New(c.typ).Elem()
	if was := prev.Elem(); was.IsValid() && was.Type() == c.typ {
		from.Set(was)
	}
	r.value(c, from, to)
	out.Set(to)
}
