package delta

import (
	"reflect"
	"time"
	"unsafe"
)

// header is a slice as it lies in memory.
type header struct {
	data unsafe.Pointer
	len  int
	cap  int
}

// equal reports whether two values of a type are the same to the last bit.
func (d *desc) equal(a, b unsafe.Pointer) bool {
	if a == b {
		return true
	}
	if d.plain {
		return sameBytes(a, b, d.size)
	}
	switch d.kind {
	case kString:
		return *(*string)(a) == *(*string)(b)
	case kTime:
		return (*time.Time)(a).Equal(*(*time.Time)(b))
	case kSlice:
		x, y := (*header)(a), (*header)(b)
		if x.len != y.len || (x.data == nil) != (y.data == nil) {
			return false
		}
		if x.data == y.data || x.len == 0 {
			return true
		}
		if d.elem.plain {
			return sameBytes(x.data, y.data, uintptr(x.len)*d.elem.size)
		}
		for i := range x.len {
			if !d.elem.equal(unsafe.Add(x.data, uintptr(i)*d.elem.size), unsafe.Add(y.data, uintptr(i)*d.elem.size)) {
				return false
			}
		}
		return true
	case kArray:
		for i := range d.length {
			if !d.elem.equal(unsafe.Add(a, uintptr(i)*d.elem.size), unsafe.Add(b, uintptr(i)*d.elem.size)) {
				return false
			}
		}
		return true
	case kPtr:
		x, y := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
		return x == y || x != nil && y != nil && d.elem.equal(x, y)
	case kStruct:
		if sameBytes(a, b, d.size) { // what it refers to is the same too
			return true
		}
		for i := range d.fields {
			f := &d.fields[i]
			if !f.desc.equal(unsafe.Add(a, f.offset), unsafe.Add(b, f.offset)) {
				return false
			}
		}
		return true
	case kMap:
		if *(*unsafe.Pointer)(a) == *(*unsafe.Pointer)(b) {
			return true
		}
		x, y := d.value(a), d.value(b)
		if x.Len() != y.Len() || x.IsNil() != y.IsNil() {
			return false
		}
		for it := x.MapRange(); it.Next(); {
			other := y.MapIndex(it.Key())
			if !other.IsValid() || !d.elem.equal(addressed(it.Value()), addressed(other)) {
				return false
			}
		}
		return true
	case kAny:
		x, y := d.value(a).Elem(), d.value(b).Elem()
		if !x.IsValid() || !y.IsValid() {
			return x.IsValid() == y.IsValid()
		}
		if x.Type() != y.Type() {
			return false
		}
		c := d.choose(x.Type())
		return c >= 0 && d.choices[c].desc.equal(addressed(x), addressed(y))
	}
	panic("delta: a kind without equality: " + string(d.kind))
}

func sameBytes(a, b unsafe.Pointer, n uintptr) bool {
	return n == 0 || unsafe.String((*byte)(a), n) == unsafe.String((*byte)(b), n)
}

// value is what lies at p, by reflection.
func (d *desc) value(p unsafe.Pointer) reflect.Value { return reflect.NewAt(d.typ, p).Elem() }

// addressed is the address of a copy of v.
func addressed(v reflect.Value) unsafe.Pointer {
	at := reflect.New(v.Type())
	at.Elem().Set(v)
	return at.UnsafePointer()
}

// choose is the choice of a type, −1 for one that was not registered.
func (d *desc) choose(t reflect.Type) int {
	for i, c := range d.choices {
		if c.desc.typ == t {
			return i
		}
	}
	return -1
}
