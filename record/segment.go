package record

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// Format of the segments that this program writes. Another one is refused.
const Format = 4

// magic is what a segment begins with.
const magic = "mash2rec"

// Suffix of a segment's file.
const Suffix = ".mash2rec"

// Header of a segment.
type Header struct {
	Format int `json:"format"`
	// Program is the version that recorded.
	Program string `json:"program"`
	// Config of the planners, as who recorded wrote it.
	Config json.RawMessage `json:"config,omitempty"`
	// First is the number of the first cycle, and Time when it was.
	First uint64    `json:"first"`
	Time  time.Time `json:"time"`
	// Schema of the records; see package delta.
	Schema json.RawMessage `json:"schema"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// frameHead is the length and the checksum before a frame's bytes.
const frameHead = 8

// appendFrame appends a frame.
func appendFrame(b, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...)
}

// errTorn is of a frame that isn't whole; errCut of one that the file ends in.
var (
	errTorn = errors.New("a frame is cut off or damaged")
	errCut  = fmt.Errorf("%w: the file ends in it", errTorn)
)

// formatError is of a segment that another program reads.
type formatError struct{ Header }

func (e formatError) Error() string {
	return fmt.Sprintf("it has format %d, of mash2 %s; this program reads format %d: use that program", e.Format, e.Program, Format)
}

// frames reads frames and counts the bytes of those that were whole.
type frames struct {
	r     io.Reader
	whole int64
}

// next returns a frame's bytes, io.EOF after the last one, or errTorn. It allocates
// no more than there is to read.
func (f *frames) next() ([]byte, error) {
	var head [frameHead]byte
	switch n, err := io.ReadFull(f.r, head[:]); {
	case n == 0 && err == io.EOF:
		return nil, io.EOF
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return nil, errCut
	case err != nil:
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	payload, err := io.ReadAll(io.LimitReader(f.r, int64(size)))
	switch {
	case err != nil:
		return nil, err
	case uint32(len(payload)) != size:
		return nil, errCut
	case size == 0, // zeros after a power cut; their checksum is right
		crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(head[4:]):
		return nil, errTorn
	}
	f.whole += frameHead + int64(size)
	return payload, nil
}

// readHeader reads what a segment begins with.
func readHeader(f *frames) (Header, error) {
	var h Header
	begin := make([]byte, len(magic))
	var b []byte
	_, err := io.ReadFull(f.r, begin)
	switch {
	case err == nil && string(begin) != magic:
		return h, errors.New("it is not a segment of records")
	case err == nil:
		f.whole += int64(len(magic))
		b, err = f.next()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut
	}
	if err != nil {
		return h, fmt.Errorf("reading its header: %w", err)
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return h, fmt.Errorf("reading its header: %w", err)
	}
	if h.Format != Format {
		return h, formatError{h}
	}
	return h, nil
}
