package delta

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// Encoder writes values of a type. It is for one goroutine.
type Encoder[T any] struct {
	types   *types
	root    *desc
	streams [][]byte
	parts   []int
}

// NewEncoder returns an Encoder of T, or an error that names what of T can't be
// encoded.
func NewEncoder[T any]() (*Encoder[T], error) {
	all, root, err := describe(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	return &Encoder[T]{types: all, root: root, streams: make([][]byte, all.columns*streamsOf)}, nil
}

// Append appends cur, as it differs from prev, to b; nil is the zero value. The
// error is of an interface that holds a type nobody registered.
func (e *Encoder[T]) Append(b []byte, prev, cur *T) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			refused, ok := r.(unregistered)
			if !ok {
				panic(r)
			}
			out, err = b, fmt.Errorf("delta: %v is in an interface and was not registered", refused.Type)
		}
	}()
	if prev == nil {
		prev = new(T)
	}
	for i := range e.streams {
		e.streams[i] = e.streams[i][:0]
	}
	w := writer{b: e.streams[0], streams: e.streams}
	w.value(e.root, unsafe.Pointer(prev), unsafe.Pointer(cur))
	e.streams[w.at] = w.b
	return appendStreams(b, e.streams), nil
}

// unregistered is the panic of a type that an interface may not hold.
type unregistered struct{ reflect.Type }

// writer writes to the stream at, of which b is what there is so far. Without streams
// everything goes to b.
type writer struct {
	b       []byte
	at      int
	streams [][]byte
}

func (w *writer) uint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)   { w.b = binary.AppendVarint(w.b, v) }

// enter writes to another stream from here on and returns the one before.
func (w *writer) enter(stream int) (before int) {
	before = w.at
	if w.streams != nil && stream != before {
		w.streams[before] = w.b
		w.b, w.at = w.streams[stream], stream
	}
	return before
}

// raw is where bytes of no structure are written.
func (w *writer) raw() *[]byte {
	if w.streams == nil {
		return &w.b
	}
	return &w.streams[streamOf(w.at, rawStream)]
}

// What an operation on a slice does, in the low two bits before its count. At is a
// place in the earlier slice that moves along.
const (
	opCopy   = iota // elements at At are taken
	opChange        // elements are written as they differ from those at At
	opSkip          // At moves by a count with a sign
	opNew           // elements are written as they differ from the one before
)

func (w *writer) value(d *desc, prev, cur unsafe.Pointer) {
	switch d.kind {
	case kBool:
		w.b = append(w.b, *(*byte)(cur))
	case kInt:
		w.int(d.value(cur).Int() - d.value(prev).Int())
	case kUint:
		w.int(int64(d.value(cur).Uint() - d.value(prev).Uint()))
	case kFloat:
		w.float(d.bits(prev), d.bits(cur))
	case kString:
		w.string(*(*string)(prev), *(*string)(cur))
	case kTime:
		a, b := (*time.Time)(prev), (*time.Time)(cur)
		w.int(b.Unix() - a.Unix())
		w.int(int64(b.Nanosecond() - a.Nanosecond()))
	case kPtr:
		w.pointer(d, prev, cur)
	case kArray:
		for i := range d.length {
			at := uintptr(i) * d.elem.size
			w.value(d.elem, unsafe.Add(prev, at), unsafe.Add(cur, at))
		}
	case kStruct:
		w.fields(d, prev, cur)
	case kSlice:
		w.slice(d, (*header)(prev), (*header)(cur))
	case kMap:
		w.mapping(d, prev, cur)
	case kAny:
		w.choice(d, prev, cur)
	}
}

// bits of a float, single precision in the upper half so that its zeros are last.
func (d *desc) bits(p unsafe.Pointer) uint64 {
	if d.size == 4 {
		return uint64(*(*uint32)(p)) << 32
	}
	return *(*uint64)(p)
}

// float writes the difference of two floats as numbers of 64 bits, without the bits at
// the end that are 0 in both: a byte that says how many bytes follow, and how many times
// four bits were cut off, and then those bytes. Figures that were rounded to a few bits
// take a byte or two.
func (w *writer) float(prev, cur uint64) {
	cut := floatCut(prev | cur)
	v := zigzag(int64(cur>>cut - prev>>cut))
	n := (bits.Len64(v) + 7) / 8
	w.b = append(w.b, byte(n<<4|cut/4))
	raw := w.raw()
	for range n {
		*raw = append(*raw, byte(v))
		v >>= 8
	}
}

// floatCut is how many bits at the end, in fours, are 0.
func floatCut(v uint64) int { return min(bits.TrailingZeros64(v)&^3, 60) }

func (w *writer) pointer(d *desc, prev, cur unsafe.Pointer) {
	from, to := *(*unsafe.Pointer)(prev), *(*unsafe.Pointer)(cur)
	if to == nil {
		w.b = append(w.b, 0)
		return
	}
	if from == nil {
		from = d.elem.zero
	}
	w.b = append(w.b, 1)
	w.value(d.elem, from, to)
}

// fields writes which of them changed, a bit each, and those.
func (w *writer) fields(d *desc, prev, cur unsafe.Pointer) {
	mask := len(w.b)
	w.b = append(w.b, make([]byte, maskLen(len(d.fields)))...)
	for i := range d.fields {
		f := &d.fields[i]
		from, to := unsafe.Add(prev, f.offset), unsafe.Add(cur, f.offset)
		if !f.desc.equal(from, to) {
			w.b[mask+i/8] |= 1 << (i % 8)
			was := w.enter(f.column * streamsOf)
			w.value(f.desc, from, to)
			w.enter(was)
		}
	}
}

// maskLen is at least 1, so that every struct takes a byte.
func maskLen(fields int) int { return max(1, (fields+7)/8) }

// slice writes its length and how it comes of the earlier one.
func (w *writer) slice(d *desc, prev, cur *header) {
	if cur.data == nil {
		w.uint(0)
		return
	}
	w.uint(uint64(cur.len) + 1)
	if cur.len == 0 {
		return
	}
	e := d.elem
	was := func(i int) unsafe.Pointer { return unsafe.Add(prev.data, uintptr(i)*e.size) }
	is := func(i int) unsafe.Pointer { return unsafe.Add(cur.data, uintptr(i)*e.size) }
	at, find := 0, d.finder(prev, cur)
	for i := 0; i < cur.len; {
		if to := find(i, at); to < 0 {
			n := 1
			for i+n < cur.len && find(i+n, at) < 0 {
				n++
			}
			w.uint(uint64(n)<<2 | opNew)
			for range n {
				before := e.zero
				if i > 0 {
					before = is(i - 1)
				}
				stream := w.enter(streamOf(w.at, elementStream))
				w.value(e, before, is(i))
				w.enter(stream)
				i++
			}
			continue
		} else if to != at {
			w.uint(zigzag(int64(to-at))<<2 | opSkip)
			at = to
		}
		// As many as follow one another, all the same or all changed.
		same := e.equal(was(at), is(i))
		n := 1
		if rest := min(cur.len-i, prev.len-at); same && e.plain && sameBytes(was(at), is(i), uintptr(rest)*e.size) {
			n = rest // as of a history that has gone on
		}
		for i+n < cur.len && at+n < prev.len {
			if sameBytes(was(at+n), is(i+n), e.size) { // the very same, key included
				if !same {
					break
				}
			} else if find(i+n, at+n) != at+n || e.equal(was(at+n), is(i+n)) != same {
				break
			}
			n++
		}
		if same {
			w.uint(uint64(n)<<2 + opCopy)
		} else {
			w.uint(uint64(n)<<2 | opChange)
			for k := range n {
				stream := w.enter(streamOf(w.at, elementStream))
				w.value(e, was(at+k), is(i+k))
				w.enter(stream)
			}
		}
		i, at = i+n, at+n
	}
}

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

// finder returns a function that says which element of the earlier slice the i-th
// one now comes of, −1 for none, where the one at a place is the most likely.
func (d *desc) finder(prev, cur *header) func(i, at int) int {
	e := d.elem
	was := func(i int) unsafe.Pointer { return unsafe.Add(prev.data, uintptr(i)*e.size) }
	is := func(i int) unsafe.Pointer { return unsafe.Add(cur.data, uintptr(i)*e.size) }
	if prev.len == 0 {
		return func(int, int) int { return -1 }
	}
	if d.ident < 0 {
		slid := d.slid(prev, cur)
		return func(i, _ int) int {
			if i+slid < prev.len {
				return i + slid
			}
			return -1
		}
	}
	ident := e.fields[d.ident]
	var places map[[2]string]int
	return func(i, at int) int {
		if at < prev.len && ident.desc.equal(unsafe.Add(was(at), ident.offset), unsafe.Add(is(i), ident.offset)) {
			return at
		}
		if places == nil {
			places = make(map[[2]string]int, prev.len)
			for k := range prev.len {
				places[text(ident.desc, unsafe.Add(was(k), ident.offset))] = k
			}
		}
		if k, ok := places[text(ident.desc, unsafe.Add(is(i), ident.offset))]; ok {
			return k
		}
		return -1
	}
}

// text of a key: of the usual two strings without writing them to memory of their own.
func text(d *desc, p unsafe.Pointer) (out [2]string) {
	if d.kind == kString {
		out[0] = *(*string)(p)
		return out
	}
	for i, f := range d.fields {
		s := *(*string)(unsafe.Add(p, f.offset))
		switch i {
		case 0, 1:
			out[i] = s
		default:
			out[1] += "\x00" + s
		}
	}
	return out
}

// slid is by how many elements the head of a slice was cut off: the first few are
// found again there.
func (d *desc) slid(prev, cur *header) int {
	const few = 8
	e := d.elem
	for k := range prev.len {
		n := min(few, cur.len, prev.len-k)
		i := 0
		for i < n && e.equal(unsafe.Add(prev.data, uintptr(k+i)*e.size), unsafe.Add(cur.data, uintptr(i)*e.size)) {
			i++
		}
		if i == n {
			return k
		}
	}
	return 0
}

// mapping writes the keys that went, and then those that came or changed, in an
// order of their own.
func (w *writer) mapping(d *desc, prev, cur unsafe.Pointer) {
	was, is := d.value(prev), d.value(cur)
	if is.IsNil() {
		w.b = append(w.b, 0)
		return
	}
	w.b = append(w.b, 1)
	var gone, changed []entry
	for it := was.MapRange(); it.Next(); {
		if !is.MapIndex(it.Key()).IsValid() {
			gone = append(gone, entry{key: d.keyBytes(it.Key())})
		}
	}
	for it := is.MapRange(); it.Next(); {
		to, from := addressed(it.Value()), d.elem.zero
		if v := was.MapIndex(it.Key()); v.IsValid() {
			if from = addressed(v); d.elem.equal(from, to) {
				continue
			}
		}
		changed = append(changed, entry{d.keyBytes(it.Key()), from, to})
	}
	for _, list := range [][]entry{gone, changed} {
		slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.key, b.key) })
		w.uint(uint64(len(list)))
		for _, e := range list {
			w.b = append(w.b, e.key...)
			if e.to != nil {
				w.value(d.elem, e.from, e.to)
			}
		}
	}
}

type entry struct {
	key      string // encoded
	from, to unsafe.Pointer
}

func (d *desc) keyBytes(k reflect.Value) string {
	var w writer
	w.value(d.key, d.key.zero, addressed(k))
	return string(w.b)
}

// choice writes which type an interface holds, 0 for none, and its value.
func (w *writer) choice(d *desc, prev, cur unsafe.Pointer) {
	was, is := d.value(prev).Elem(), d.value(cur).Elem()
	if !is.IsValid() {
		w.uint(0)
		return
	}
	n := d.choose(is.Type())
	if n < 0 {
		panic(unregistered{is.Type()})
	}
	from := d.choices[n].desc.zero
	if was.IsValid() && was.Type() == is.Type() {
		from = addressed(was)
	}
	w.uint(uint64(n) + 1)
	w.value(d.choices[n].desc, from, addressed(is))
}
