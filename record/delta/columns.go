package delta

import "encoding/binary"

// A value is written as columns: what is written of one field, of all the structs of a
// type, lies together. It is of one kind, so that it compresses far better than the
// fields of one struct after another do, and faster. Column 0 is of the root, the
// others are of the fields of structs, in the order of the schema. Each has three
// streams.
const (
	ownStream     = iota // how a slice comes of the earlier one, which fields changed, numbers
	elementStream        // the same of elements
	rawStream            // digits of floats, texts: what has no structure
	streamsOf            // a column
)

// streamOf is another stream of the same column.
func streamOf(at, which int) int { return at - at%streamsOf + which }

// appendStreams writes which streams have how many bytes, and then those.
func appendStreams(b []byte, streams [][]byte) []byte {
	used, next := 0, 0
	for _, s := range streams {
		if len(s) > 0 {
			used++
		}
	}
	b = binary.AppendUvarint(b, uint64(used))
	for i, s := range streams {
		if len(s) > 0 {
			b = binary.AppendUvarint(b, uint64(i-next))
			b = binary.AppendUvarint(b, uint64(len(s)))
			next = i + 1
		}
	}
	for _, s := range streams {
		b = append(b, s...)
	}
	return b
}

// Parts cuts what Append appended last, n bytes, where a large column begins or ends:
// each part is of one kind, or small. It returns the offsets.
func (e *Encoder[T]) Parts(n int) []int {
	const large = 2048
	e.parts = e.parts[:0]
	cut := func(at int) {
		if k := len(e.parts); at > 0 && (k == 0 || e.parts[k-1] != at) {
			e.parts = append(e.parts, at)
		}
	}
	at := n
	for _, s := range e.streams {
		at -= len(s)
	}
	for _, s := range e.streams {
		if len(s) >= large {
			cut(at)
			cut(at + len(s))
		}
		at += len(s)
	}
	cut(n)
	return e.parts
}

// split is the other way round.
func (r *reader) split(columns int) {
	type extent struct{ stream, size int }
	most := columns * streamsOf
	used, next := r.uint(), 0
	if used > uint64(most) {
		r.fail("there are more columns than the schema has")
		return
	}
	list := make([]extent, 0, used)
	for range used {
		gap, size := r.uint(), r.uint()
		if r.err != nil {
			return
		}
		if gap >= uint64(most-next) || size > uint64(len(r.b)) {
			r.fail("a column is cut off")
			return
		}
		list = append(list, extent{next + int(gap), int(size)})
		next += int(gap) + 1
	}
	r.streams = make([][]byte, most)
	for _, e := range list {
		if e.size > len(r.b) {
			r.fail("a column is cut off")
			return
		}
		r.streams[e.stream], r.b = r.b[:e.size], r.b[e.size:]
	}
	if len(r.b) > 0 {
		r.fail("bytes are left over")
		return
	}
	r.b, r.at = r.streams[0], 0
}

// Columns returns what a value is written as, by the names of fields: how the bytes of
// a record come about.
func (e *Encoder[T]) Columns(prev, cur *T) (map[string][]byte, error) {
	if _, err := e.Append(nil, prev, cur); err != nil {
		return nil, err
	}
	names := make([]string, e.types.columns)
	names[0] = "(root)"
	for _, d := range e.types.list {
		for _, f := range d.fields {
			names[f.column] = d.typ.String() + "." + f.name
		}
	}
	out := map[string][]byte{}
	for i, s := range e.streams {
		if len(s) > 0 {
			name := names[i/streamsOf] + []string{"", " elements", " raw"}[i%streamsOf]
			out[name] = append([]byte(nil), s...)
		}
	}
	return out, nil
}
