package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mash2-io/mash2/record/delta"
)

// Codec writes a value as a checkpoint: with its time, the version that wrote it, a
// checksum and the schema of its type.
type Codec[T any] struct {
	program string
	encoder *delta.Encoder[T]
}

// NewCodec returns a Codec, or an error of a type that can't be encoded.
func NewCodec[T any](program string) (*Codec[T], error) {
	e, err := delta.NewEncoder[T]()
	return &Codec[T]{program, e}, err
}

// checkpointHeader is the first frame of a checkpoint, whose second one is the value.
type checkpointHeader struct {
	Format  int             `json:"format"`
	Program string          `json:"program"`
	Time    time.Time       `json:"time"`
	Schema  json.RawMessage `json:"schema"`
}

const checkpointMagic = "mash2ckp"

// Encode returns v as it was at a time.
func (c *Codec[T]) Encode(v T, at time.Time) ([]byte, error) {
	plain, err := c.encoder.Append(nil, nil, &v)
	if err != nil {
		return nil, err
	}
	h, err := json.Marshal(checkpointHeader{Format, c.program, at.UTC(), c.encoder.Schema()})
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return appendFrame(appendFrame([]byte(checkpointMagic), h), z.EncodeAll(plain, nil)), nil
}

// Decode returns what Encode was given. The error is of bytes that are damaged, or of
// another format.
func (c *Codec[T]) Decode(b []byte) (v T, at time.Time, err error) {
	rest, ok := bytes.CutPrefix(b, []byte(checkpointMagic))
	if !ok {
		return v, at, errors.New("it is not a checkpoint")
	}
	r := &frames{r: bytes.NewReader(rest)}
	head, err := r.next()
	if err != nil {
		return v, at, errTorn
	}
	var h checkpointHeader
	if err := json.Unmarshal(head, &h); err != nil {
		return v, at, fmt.Errorf("reading its header: %w", err)
	}
	if h.Format != Format {
		return v, at, fmt.Errorf("it has format %d, of mash2 %s; this program reads format %d", h.Format, h.Program, Format)
	}
	plain, err := unpacked(r)
	if err != nil {
		return v, at, err
	}
	d, err := delta.NewDecoder[T](h.Schema)
	if err != nil {
		return v, at, err
	}
	v, err = d.Decode(plain, nil)
	return v, h.Time, err
}

// What is longer than leastPlain and mostPacked times as long as it is packed was not
// written by an Encoder, and would take the memory of a process.
const (
	leastPlain = 64 << 20
	mostPacked = 64
)

// unpacked is the next frame, uncompressed.
func unpacked(r *frames) ([]byte, error) {
	packed, err := r.next()
	if err != nil {
		return nil, errTorn
	}
	z, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	most := max(leastPlain, int64(len(packed))*mostPacked)
	plain, err := io.ReadAll(io.LimitReader(z, most+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTorn, err)
	}
	if int64(len(plain)) > most {
		return nil, fmt.Errorf("%w: %d bytes stand for more than %d", delta.ErrDamaged, len(packed), most)
	}
	return plain, nil
}

// partHead is what a part begins with: of which whole it is, by its checksum and size,
// and where in it.
const partHead = 12

// Split cuts bytes into parts of at most so many, each of which knows its whole.
func Split(b []byte, most int) [][]byte {
	var parts [][]byte
	for at := 0; at == 0 || at < len(b); at += most - partHead {
		part := binary.LittleEndian.AppendUint32(nil, checksum(b))
		part = binary.LittleEndian.AppendUint32(part, uint32(len(b)))
		part = binary.LittleEndian.AppendUint32(part, uint32(at))
		parts = append(parts, append(part, b[at:min(len(b), at+most-partHead)]...))
	}
	return parts
}

// ErrParts is of parts that are missing, or not of one whole.
var ErrParts = errors.New("parts are missing or of different times")

// Join puts the parts of a whole together, in their order. Parts that come after the
// whole are left aside: those of a larger one before it.
func Join(parts [][]byte) ([]byte, error) {
	var whole []byte
	var sum, size uint32
	for i, p := range parts {
		if i > 0 && uint32(len(whole)) == size {
			break
		}
		if len(p) < partHead {
			return nil, ErrParts
		}
		s, n, at := binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint32(p[4:]), binary.LittleEndian.Uint32(p[8:])
		if i == 0 {
			sum, size = s, n
		}
		if s != sum || n != size || at != uint32(len(whole)) || uint64(at)+uint64(len(p)-partHead) > uint64(size) {
			return nil, ErrParts
		}
		whole = append(whole, p[partHead:]...)
	}
	if len(parts) == 0 || uint32(len(whole)) != size || checksum(whole) != sum {
		return nil, ErrParts
	}
	return whole, nil
}
