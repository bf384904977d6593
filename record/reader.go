package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record/delta"
)

// Log is a folder of segments to be read.
type Log struct {
	folder   fs.FS
	Segments []Segment // in order of time
}

// Segment of a log.
type Segment struct {
	Header
	Name  string
	Bytes int64
}

// Open lists a log's segments. The error is of a folder without any, or of one that
// can't be read; segments of another format or with a damaged header are refused.
func Open(folder fs.FS) (*Log, error) {
	names, err := segments(folder)
	if err != nil {
		return nil, fmt.Errorf("listing records: %w", err)
	}
	l := &Log{folder: folder}
	for i, name := range names {
		s, err := openSegment(folder, name)
		if errors.Is(err, errTorn) && i == len(names)-1 {
			break // begun when the process died
		}
		if err != nil {
			return nil, fmt.Errorf("records in %s: %w", name, err)
		}
		l.Segments = append(l.Segments, s)
	}
	if len(l.Segments) == 0 {
		return nil, fmt.Errorf("there are no records: no file ends in %s", Suffix)
	}
	return l, nil
}

// segments are the names of a folder's, in order of time.
func segments(folder fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), Suffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

func openSegment(folder fs.FS, name string) (Segment, error) {
	file, err := folder.Open(name)
	if err != nil {
		return Segment{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Segment{}, err
	}
	h, err := readHeader(&frames{r: file})
	return Segment{Header: h, Name: name, Bytes: info.Size()}, err
}

// Entry is a record as it is read.
type Entry struct {
	api.Record
	Segment Segment
	// Key is true of the first of a segment, which has a Memory.
	Key bool
	// Torn is not empty on the last record of a segment of which the rest was lost,
	// and says how much.
	Torn string
}

// Records yields the records of the log from the keyframe at or before a time on,
// all for the zero time. It ends with the first error.
func (l *Log) Records(from time.Time) iter.Seq2[Entry, error] {
	first := 0
	for i, s := range l.Segments {
		if !s.Time.After(from) {
			first = i
		}
	}
	return func(yield func(Entry, error) bool) {
		for _, s := range l.Segments[first:] {
			if !l.read(s, yield) {
				return
			}
		}
	}
}

// read yields a segment's records and reports whether to go on.
func (l *Log) read(s Segment, yield func(Entry, error) bool) bool {
	fail := func(err error) bool {
		yield(Entry{}, fmt.Errorf("records in %s: %w", s.Name, err))
		return false
	}
	file, err := l.folder.Open(s.Name)
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	d, err := newSegmentReader(file)
	if err != nil {
		return fail(err)
	}
	defer d.close()
	var held *Entry // until it is known whether it is the last one
	for {
		r, err := d.next()
		last := err != nil
		if held != nil {
			if errors.Is(err, errTorn) {
				held.Torn = fmt.Sprintf("%d bytes after cycle %d are lost: %v", s.Bytes-d.frames.whole, held.Cycle.ID, err)
			}
			if !yield(*held, nil) {
				return false
			}
		}
		switch {
		case errors.Is(err, io.EOF) || last && errors.Is(err, errTorn):
			return true
		case last:
			return fail(err)
		}
		held = &Entry{Record: r, Segment: s, Key: held == nil}
	}
}

// segmentReader reads one segment.
type segmentReader struct {
	frames  *frames
	chunk   bytes.Reader
	zstd    *zstd.Decoder
	decoder *delta.Decoder[api.Record]
	before  *api.Record
}

// window of the compression: how far back it finds what was the same.
const window = 8 << 20

// largest record that is read, uncompressed.
const largest = 4 << 30

func newSegmentReader(r io.Reader) (*segmentReader, error) {
	s := &segmentReader{frames: &frames{r: bufio.NewReaderSize(r, 1<<16)}}
	h, err := readHeader(s.frames)
	if err != nil {
		return nil, err
	}
	if s.decoder, err = delta.NewDecoder[api.Record](h.Schema); err != nil {
		return nil, err
	}
	s.zstd, err = zstd.NewReader(s, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
	return s, err
}

func (s *segmentReader) close() { s.zstd.Close() }

// Read implements io.Reader of the compressed bytes of all frames.
func (s *segmentReader) Read(b []byte) (int, error) {
	for s.chunk.Len() == 0 {
		payload, err := s.frames.next()
		if err != nil {
			return 0, err
		}
		s.chunk.Reset(payload)
	}
	return s.chunk.Read(b)
}

// next returns a record, io.EOF after the last one, or an error that wraps errTorn
// where frames are missing.
func (s *segmentReader) next() (api.Record, error) {
	size, err := binary.ReadUvarint(plainBytes{s.zstd})
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return api.Record{}, io.EOF // between two records
	case err != nil:
		return api.Record{}, err
	case size > largest:
		return api.Record{}, fmt.Errorf("%w: a record has %d bytes", delta.ErrDamaged, size)
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, s.zstd, int64(size)); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errTorn
		}
		return api.Record{}, err
	}
	r, err := s.decoder.Decode(b.Bytes(), s.before)
	if err != nil {
		return api.Record{}, err
	}
	s.before = &r
	return restored(r), nil
}

// plainBytes reads byte by byte.
type plainBytes struct{ io.Reader }

func (p plainBytes) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(p.Reader, b[:])
	return b[0], err
}
