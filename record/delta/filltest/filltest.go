// Package filltest fills values at random, every field of them, for tests of what
// must forget none.
package filltest

import (
	"math"
	"math/rand/v2"
	"reflect"
	"time"
	"unsafe"
)

// Filler fills values.
type Filler struct {
	Rand *rand.Rand
	// Any returns a value that an interface holds.
	Any func(reflect.Type) any
	// Leave is asked for types and fields that stay as they are; nil for none.
	Leave func(of reflect.Type, field reflect.StructField) bool
}

// odd are numbers that are lost easily.
var odd = []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, math.MaxFloat64, 0.1}

// Fill fills what v points at, unexported fields included. Depth bounds values within
// values of the same type.
func (f Filler) Fill(v any) { f.fill(reflect.ValueOf(v).Elem(), 5) }

// Change fills some of v again.
func (f Filler) Change(v any) { f.change(reflect.ValueOf(v).Elem(), 5) }

func (f Filler) change(v reflect.Value, depth int) {
	switch k := v.Kind(); {
	case k == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			if f.left(v.Type(), i) || f.Rand.IntN(3) > 0 {
				continue
			}
			f.change(settable(v.Field(i)), depth)
		}
	case k == reflect.Slice && v.Len() > 0 && f.Rand.IntN(4) > 0:
		// Another slice: what was encoded is never written to again.
		n := v.Len()
		from := f.Rand.IntN(n + 1)
		out := reflect.MakeSlice(v.Type(), 0, n+1)
		out = reflect.AppendSlice(out, v.Slice(from, n))
		if out.Len() > 1 && f.Rand.IntN(2) == 0 {
			f.change(out.Index(f.Rand.IntN(out.Len())), depth)
		}
		if f.Rand.IntN(2) == 0 {
			e := reflect.New(v.Type().Elem()).Elem()
			f.fill(e, depth-1)
			out = reflect.Append(out, e)
		}
		v.Set(out)
	case k == reflect.Map && v.Len() > 0:
		out := reflect.MakeMap(v.Type())
		for it := v.MapRange(); it.Next(); {
			if f.Rand.IntN(3) > 0 {
				out.SetMapIndex(it.Key(), it.Value())
			}
		}
		v.Set(out)
	default:
		f.fill(v, depth)
	}
}

func (f Filler) left(t reflect.Type, i int) bool { return f.Leave != nil && f.Leave(t, t.Field(i)) }

func settable(v reflect.Value) reflect.Value {
	if v.CanSet() {
		return v
	}
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

func (f Filler) fill(v reflect.Value, depth int) {
	r := f.Rand
	switch k := v.Kind(); {
	case v.Type() == reflect.TypeFor[time.Time]():
		t := time.Time{}
		if r.IntN(4) > 0 {
			t = time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC()
		}
		v.Set(reflect.ValueOf(t))
	case k == reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case k >= reflect.Int && k <= reflect.Int64:
		v.SetInt(int64(r.Uint64()) >> (64 - v.Type().Bits()))
	case k >= reflect.Uint && k <= reflect.Uint64:
		v.SetUint(r.Uint64() >> (64 - v.Type().Bits()))
	case k == reflect.Float32 || k == reflect.Float64:
		if r.IntN(2) == 0 {
			v.SetFloat(odd[r.IntN(len(odd))])
		} else {
			v.SetFloat(r.NormFloat64())
		}
	case k == reflect.String:
		b := make([]rune, r.IntN(7))
		for i := range b {
			b[i] = []rune("ab01→ ")[r.IntN(6)]
		}
		v.SetString(string(b))
	case k == reflect.Struct:
		for i := range v.NumField() {
			if !f.left(v.Type(), i) {
				f.fill(settable(v.Field(i)), depth)
			}
		}
	case k == reflect.Pointer:
		v.SetZero()
		if depth > 0 && r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth-1)
		}
	case k == reflect.Slice:
		v.SetZero()
		if n := r.IntN(5); n > 0 {
			if depth <= 0 {
				n = 1
			}
			v.Set(reflect.MakeSlice(v.Type(), n-1, n))
			for i := range n - 1 {
				f.fill(v.Index(i), depth-1)
			}
		}
	case k == reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), depth)
		}
	case k == reflect.Map:
		v.SetZero()
		if n := r.IntN(4); n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n - 1 {
				key, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				f.fill(key, depth-1)
				f.fill(e, depth-1)
				v.SetMapIndex(key, e)
			}
		}
	case k == reflect.Interface:
		v.SetZero()
		if x := f.Any(v.Type()); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	default:
		panic("filltest: can't fill a " + v.Type().String())
	}
}
