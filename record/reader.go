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
	// Skipped are those that can't be read, in order of time.
	Skipped []Skipped
}

// Segment of a log.
type Segment struct {
	Header
	Name  string
	Bytes int64
}

// Skipped is a segment that can't be read, and why.
type Skipped struct {
	Name string
	Err  error
	next int // in Segments: what follows it
}

// String is a sentence about what is lost.
func (s Skipped) String() string { return fmt.Sprintf("%s: it can't be read: %v", s.Name, s.Err) }

// ErrNone is of a folder without records.
var ErrNone = errors.New("there are no records")

// Open lists a log's segments. Those that can't be read are Skipped. The error is ErrNone, or of
// a folder or segments none of which can be read, or of a segment of another format.
func Open(folder fs.FS) (*Log, error) {
	names, err := segments(folder)
	if err != nil {
		return nil, fmt.Errorf("listing records: %w", err)
	}
	l := &Log{folder: folder}
	for i, name := range names {
		s, err := openSegment(folder, name)
		switch {
		case err == nil:
			l.Segments = append(l.Segments, s)
		case errors.As(err, &formatError{}):
			return nil, fmt.Errorf("records in %s: %w", name, err)
		case errors.Is(err, errCut) && i == len(names)-1: // begun when the process died
		case errors.Is(err, fs.ErrNotExist): // its time was over
		default:
			l.Skipped = append(l.Skipped, Skipped{name, err, len(l.Segments)})
		}
	}
	switch {
	case len(l.Segments) > 0:
		return l, nil
	case len(l.Skipped) > 0:
		return nil, fmt.Errorf("no records can be read; %s", l.Skipped[0])
	}
	return nil, fmt.Errorf("%w: no file ends in %s", ErrNone, Suffix)
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
	// Lost is what is missing between this record and the next one, before this one too if it is
	// the first that is read: sentences that begin with the name of a segment.
	Lost []string
}

// Records yields the records of the log from the keyframe at or before a time on,
// all for the zero time. It ends with the first error.
func (l *Log) Records(from time.Time) iter.Seq2[Entry, error] { return l.records(l.begun(from)) }

// begun is the last segment that begins by a time, the first one if none does.
func (l *Log) begun(by time.Time) int {
	first := 0
	for i, s := range l.Segments {
		if !s.Time.After(by) {
			first = i
		}
	}
	return first
}

// records yields those of a segment and of all that follow.
func (l *Log) records(first int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var held *Entry // until it is known what after it is lost
		var lost []string
		lose := func(what string) {
			if held == nil {
				lost = append(lost, what)
			} else {
				held.Lost = append(held.Lost, what)
			}
		}
		pass := func() bool { return held == nil || yield(*held, nil) }
		for i := first; i <= len(l.Segments); i++ {
			for _, s := range l.Skipped {
				if s.next == i && (i == 0 || i > first) {
					lose(s.String())
				}
			}
			if i == len(l.Segments) {
				break
			}
			more, err := l.read(i, lose, func(e Entry) bool {
				if !pass() {
					return false
				}
				e.Lost, lost = lost, nil
				held = &e
				return true
			})
			if err != nil && pass() {
				yield(Entry{}, fmt.Errorf("records in %s: %w", l.Segments[i].Name, err))
			}
			if err != nil || !more {
				return
			}
		}
		pass()
	}
}

// read yields the records of one segment, tells what of it is lost, and reports whether to go on.
func (l *Log) read(i int, lose func(string), yield func(Entry) bool) (more bool, err error) {
	s := l.Segments[i]
	file, err := l.folder.Open(s.Name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	d, err := newSegmentReader(file)
	if err != nil {
		return false, err
	}
	defer d.close()
	for last := (*Entry)(nil); ; {
		r, err := d.next()
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case errors.Is(err, errCut) && last == nil && i == len(l.Segments)-1: // begun when the process died
			return true, nil
		case errors.Is(err, errTorn) && last == nil:
			lose(fmt.Sprintf("%s: its %d bytes hold no whole record: %v", s.Name, s.Bytes, err))
			return true, nil
		case errors.Is(err, errTorn):
			lose(fmt.Sprintf("%s: %d bytes after cycle %d are lost: %v", s.Name, s.Bytes-d.frames.whole, last.Cycle.ID, err))
			return true, nil
		case err != nil:
			return false, err
		}
		e := Entry{Record: r, Segment: s, Key: last == nil}
		if !yield(e) {
			return false, nil
		}
		last = &e
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
