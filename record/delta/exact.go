package delta

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// AppendExact appends a form of v that two values share only if they are the same to
// the last bit: for digests, not to be read again. Programs of another architecture
// write another form. The error is of an interface that holds a type nobody registered.
func (e *Encoder[T]) AppendExact(b []byte, v *T) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			refused, ok := r.(unregistered)
			if !ok {
				panic(r)
			}
			out, err = b, fmt.Errorf("delta: %v is in an interface and was not registered", refused.Type)
		}
	}()
	w := writer{b: b}
	w.exact(e.root, unsafe.Pointer(v))
	return w.b, nil
}

// memory writes bytes as they are.
func (w *writer) memory(p unsafe.Pointer, n uintptr) {
	if n > 0 {
		w.b = append(w.b, unsafe.Slice((*byte)(p), n)...)
	}
}

func (w *writer) exact(d *desc, p unsafe.Pointer) {
	switch d.kind {
	case kBool, kInt, kUint, kFloat:
		w.memory(p, d.size)
	case kString:
		s := *(*string)(p)
		w.uint(uint64(len(s)))
		w.b = append(w.b, s...)
	case kTime:
		t := (*time.Time)(p)
		w.b = binary.LittleEndian.AppendUint64(w.b, uint64(t.Unix()))
		w.b = binary.LittleEndian.AppendUint32(w.b, uint32(t.Nanosecond()))
	case kPtr:
		to := *(*unsafe.Pointer)(p)
		if to == nil {
			w.b = append(w.b, 0)
			return
		}
		w.b = append(w.b, 1)
		w.exact(d.elem, to)
	case kArray:
		w.elements(d.elem, p, d.length)
	case kSlice:
		h := (*header)(p)
		if h.data == nil {
			w.uint(0)
			return
		}
		w.uint(uint64(h.len) + 1)
		w.elements(d.elem, h.data, h.len)
	case kStruct:
		for i := range d.fields {
			w.exact(d.fields[i].desc, unsafe.Add(p, d.fields[i].offset))
		}
	case kMap:
		v := d.value(p)
		if v.IsNil() {
			w.uint(0)
			return
		}
		w.uint(uint64(v.Len()) + 1)
		list := make([]entry, 0, v.Len())
		for it := v.MapRange(); it.Next(); {
			list = append(list, entry{key: d.keyBytes(it.Key()), to: addressed(it.Value())})
		}
		slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.key, b.key) })
		for _, e := range list {
			w.uint(uint64(len(e.key)))
			w.b = append(w.b, e.key...)
			w.exact(d.elem, e.to)
		}
	case kAny:
		is := d.value(p).Elem()
		if !is.IsValid() {
			w.uint(0)
			return
		}
		n := d.choose(is.Type())
		if n < 0 {
			panic(unregistered{is.Type()})
		}
		w.uint(uint64(n) + 1)
		w.exact(d.choices[n].desc, addressed(is))
	}
}

// elements writes what lies in a row.
func (w *writer) elements(d *desc, p unsafe.Pointer, n int) {
	switch d.kind {
	case kBool, kInt, kUint, kFloat: // nothing between them
		w.memory(p, uintptr(n)*d.size)
	default:
		for i := range n {
			w.exact(d, unsafe.Add(p, uintptr(i)*d.size))
		}
	}
}
