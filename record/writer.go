package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record/delta"
)

// Config of a Writer.
type Config struct {
	// Dir is the folder of the log; it is made.
	Dir string
	// MaxBytes of all segments together: the oldest ones are deleted. 0 is
	// unbounded.
	MaxBytes int64
	// MaxAge of a segment's newest record, by the time of the newest one of all: older
	// ones are deleted. 0 is unbounded.
	MaxAge time.Duration
	// Program is the version that records, and Planners the configuration of what
	// decides, as JSON: replay takes it from here.
	Program  string
	Planners json.RawMessage
	// KeyEvery is after how many records a new segment begins at the latest; 0
	// leaves it to their size.
	KeyEvery int
}

// Validate reports the first field that can't be used.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("record config: Dir must be set")
	case c.MaxBytes < 0:
		return fmt.Errorf("record config: MaxBytes must not be negative, is %d", c.MaxBytes)
	case c.MaxAge < 0:
		return fmt.Errorf("record config: MaxAge must not be negative, is %v", c.MaxAge)
	case c.KeyEvery < 0:
		return fmt.Errorf("record config: KeyEvery must not be negative, is %d", c.KeyEvery)
	}
	return nil
}

const (
	// least records of a segment unless KeyEvery or MaxBytes ask for fewer.
	least = 240
	// outgrown is how many times the keyframe's bytes the rest of a segment has
	// when the next one begins.
	outgrown = 6
	// retry is how long recording pauses after a failure.
	retry = time.Minute
)

// Reasons of findings.
const (
	// ReasonStopped: records can't be written; deciding goes on.
	ReasonStopped = "RecordsStopped"
	// ReasonResumed: they can again.
	ReasonResumed = "RecordsResumed"
	// ReasonCut: what the process had not finished to write when it died was cut, or is skipped.
	ReasonCut = "RecordsCut"
)

// file is what a segment is written to.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// Writer appends records to a log. It is for one goroutine; one Writer at a time
// writes to a folder.
type Writer struct {
	Config
	// create makes a file that is not there yet; tests let it fail.
	create  func(path string) (file, error)
	encoder *delta.Encoder[api.Record]
	digest  *digester
	zstd    *zstd.Encoder

	segment  file // nil between segments
	name     string
	number   int // of the newest segment
	written  int64
	keyBytes int64
	records  int
	before   *api.Record

	plain    []byte
	packed   bytes.Buffer
	frame    []byte
	renewed  bool          // the configuration is not that of the segment
	notes    []api.Finding // not told yet
	stopped  bool
	again    time.Time // when to try again
	snapshot api.Snapshot
}

// NewWriter opens a log to append to it: the newest segment, if its end is torn, is cut
// to what is whole, and the next record begins a new one.
func NewWriter(c Config) (*Writer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w := &Writer{Config: c, create: func(path string) (file, error) {
		return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}}
	var err error
	if w.encoder, err = delta.NewEncoder[api.Record](); err != nil {
		return nil, err
	}
	if w.digest, err = newDigester(); err != nil {
		return nil, err
	}
	if w.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window/2), zstd.WithEncoderCRC(false)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of records: %w", err)
	}
	names, err := segments(os.DirFS(c.Dir))
	if err != nil {
		return nil, fmt.Errorf("listing records: %w", err)
	}
	inOrderOfWriting(names)
	if len(names) > 0 {
		newest := names[len(names)-1]
		w.number = numberOf(newest)
		w.cut(newest)
	}
	return w, nil
}

// numberOf is the running number in a segment's name; 0 without one.
func numberOf(name string) (n int) {
	_, number, _ := strings.Cut(strings.TrimSuffix(name, Suffix), "-")
	if _, err := fmt.Sscanf(number, "%d", &n); err != nil {
		return 0
	}
	return n
}

// inOrderOfWriting sorts names of segments, the oldest first: the times in them are those of
// a clock that may have been set back.
func inOrderOfWriting(names []string) {
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) })
}

// cut takes what is not whole off the end of a segment.
func (w *Writer) cut(name string) {
	path := filepath.Join(w.Dir, name)
	whole, size, last, err := extent(w.Dir, name)
	switch {
	case err != nil:
		// Who reads skips it, and tells what is missing, until its time is over.
		w.note(api.Warning, ReasonCut, fmt.Sprintf("the newest records, %s, can't be read and are left as they are: %v", name, err))
	case whole == 0:
		err = os.Remove(path)
		w.note(api.Warning, ReasonCut, withError(fmt.Sprintf("%s was deleted: its %d bytes hold no whole record", name, size), err))
	case whole < size:
		err = os.Truncate(path, whole)
		w.note(api.Warning, ReasonCut, withError(fmt.Sprintf("%d bytes at the end of %s were cut: what followed cycle %d was not written completely", size-whole, name, last), err))
	}
}

func withError(s string, err error) string {
	if err != nil {
		return s + "; failed: " + err.Error()
	}
	return s
}

// extent is how many bytes of a segment are whole, of how many, and which cycle is
// the last one in them.
func extent(dir, name string) (whole, size int64, last uint64, err error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return 0, 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, 0, err
	}
	r := &frames{r: f}
	if _, err := readHeader(r); err != nil {
		if errors.Is(err, errCut) {
			err = nil
		}
		return 0, info.Size(), 0, err
	}
	n := 0
	for {
		if _, err = r.next(); err != nil {
			break
		}
		n++
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, errTorn) {
		return 0, 0, 0, err
	}
	if n == 0 {
		return 0, info.Size(), 0, nil
	}
	if r.whole == info.Size() {
		return r.whole, info.Size(), 0, nil
	}
	l := &Log{folder: os.DirFS(dir), Segments: []Segment{{Name: name, Bytes: info.Size()}}}
	for e, err := range l.records(0) {
		if err != nil {
			break
		}
		last = e.Cycle.ID
	}
	return r.whole, info.Size(), last, nil
}

func (w *Writer) note(s api.FindingSeverity, reason, message string) {
	w.notes = append(w.notes, api.Finding{Severity: s, Reason: reason, Object: api.ObjectRef{Kind: "records"}, Message: message})
}

// Record appends a record and returns what somebody should know: that recording
// stopped or goes on again, once each. It sets r.Digest and doesn't keep what r refers
// to longer than until the record after next.
func (w *Writer) Record(r api.Record) []api.Finding {
	if err := w.append(r); err != nil {
		if !w.stopped {
			w.note(api.Warning, ReasonStopped, fmt.Sprintf("cycles are not recorded until this is fixed; planning continues: %v", err))
		}
		w.stopped, w.again = true, r.Cycle.Time.Add(retry)
		w.abandon()
	}
	notes := w.notes
	w.notes = nil
	return notes
}

// Reconfigure says that another configuration decides from the next record on. A new segment
// begins with it.
func (w *Writer) Reconfigure(planners json.RawMessage) { w.Planners, w.renewed = planners, true }

func (w *Writer) append(r api.Record) error {
	if w.stopped && r.Cycle.Time.Before(w.again) {
		return nil
	}
	if r.Cycle.Error != "" && r.Snapshot.Time.IsZero() {
		r.Snapshot = w.snapshot // nothing was seen: nothing changed
	}
	// After a restart the memory is not that of the record before.
	if w.segment != nil && (w.renewed || w.outgrown() || w.before != nil && r.Cycle.ID != w.before.Cycle.ID+1) {
		if err := w.end(); err != nil {
			return err
		}
	}
	if w.segment == nil {
		if err := w.begin(r); err != nil {
			return err
		}
	}
	key := w.before == nil
	digest, err := w.digest.digest(r.Cycle.Policy, r.Cycle.Plan, r.Actions)
	if err != nil {
		return err
	}
	r.Digest = digest
	r = slim(r, key)
	imply(&r)
	if w.plain, err = w.encoder.Append(w.plain[:0], w.before, &r); err != nil {
		return err
	}
	var size [binary.MaxVarintLen64]byte
	w.packed.Reset()
	if _, err := w.zstd.Write(binary.AppendUvarint(size[:0], uint64(len(w.plain)))); err != nil {
		return err
	}
	begin := 0
	for _, end := range w.encoder.Parts(len(w.plain)) {
		if _, err := w.zstd.Write(w.plain[begin:end]); err != nil {
			return err
		}
		// A block for each, with codes of its own.
		if err := w.zstd.Flush(); err != nil {
			return err
		}
		begin = end
	}
	w.frame = appendFrame(w.frame[:0], w.packed.Bytes())
	if _, err := w.segment.Write(w.frame); err != nil {
		return err
	}
	w.written += int64(len(w.frame))
	w.records++
	if key {
		w.keyBytes = w.written
		if w.MaxBytes > 0 && w.written > w.MaxBytes {
			return fmt.Errorf("one keyframe takes %d bytes, and all records may have %d: allow more", w.written, w.MaxBytes)
		}
		w.retain(r.Cycle.Time)
	} else if w.MaxBytes > 0 && w.records%64 == 0 {
		w.retain(r.Cycle.Time)
	}
	w.before, w.snapshot = &r, r.Snapshot
	if w.stopped {
		w.stopped = false
		w.note(api.Normal, ReasonResumed, "cycles are recorded again")
	}
	return nil
}

// outgrown reports whether a new segment is due.
func (w *Writer) outgrown() bool {
	switch rest := w.written - w.keyBytes; {
	case w.KeyEvery > 0 && w.records >= w.KeyEvery:
		return true
	case w.MaxBytes > 0 && rest > w.keyBytes/4 && w.written > w.MaxBytes/4:
		return true // or nothing could ever be deleted
	default:
		return w.records >= least && rest > outgrown*w.keyBytes
	}
}

// begin begins a segment with its header.
func (w *Writer) begin(r api.Record) error {
	w.number++
	w.name = fmt.Sprintf("%s-%06d%s", r.Cycle.Time.UTC().Format("20060102T150405Z"), w.number, Suffix)
	f, err := w.create(filepath.Join(w.Dir, w.name))
	if err != nil {
		return err
	}
	w.segment, w.before, w.records, w.renewed = f, nil, 0, false
	h, err := json.Marshal(Header{
		Format: Format, Program: w.Program, Config: w.Planners, First: r.Cycle.ID, Time: r.Cycle.Time.UTC(), Schema: w.encoder.Schema(),
	})
	if err != nil {
		return err
	}
	w.frame = appendFrame(append(w.frame[:0], magic...), h)
	if _, err := f.Write(w.frame); err != nil {
		return err
	}
	w.written = int64(len(w.frame))
	w.zstd.Reset(&w.packed)
	return nil
}

// end closes the segment.
func (w *Writer) end() error {
	f := w.segment
	w.segment = nil
	return errors.Join(f.Sync(), f.Close())
}

// abandon closes a segment that can't be written to. What of it is whole stays; one
// without a record goes.
func (w *Writer) abandon() {
	if w.segment == nil {
		return
	}
	_ = w.segment.Close() // it has failed already
	w.segment = nil
	path := filepath.Join(w.Dir, w.name)
	if w.records == 0 || w.before == nil {
		_ = os.Remove(path) // or it is cut off by who reads
	} else {
		_ = os.Truncate(path, w.written)
	}
}

// Close ends the log.
func (w *Writer) Close() error {
	if w.segment == nil {
		return nil
	}
	return w.end()
}

// retain deletes the oldest segments beyond MaxBytes and MaxAge, never the present
// one. A segment ends where the next one begins.
func (w *Writer) retain(now time.Time) {
	folder := os.DirFS(w.Dir)
	names, err := segments(folder)
	if err != nil {
		return // the next one tries again
	}
	inOrderOfWriting(names)
	sizes := make([]int64, len(names))
	var all int64
	for i, name := range names {
		if info, err := fs.Stat(folder, name); err == nil {
			sizes[i] = info.Size()
			all += info.Size()
		}
	}
	for i, name := range names {
		if name == w.name || i+1 >= len(names) {
			return
		}
		stamp, _, _ := strings.Cut(names[i+1], "-")
		end, err := time.Parse("20060102T150405Z", stamp)
		old := err == nil && w.MaxAge > 0 && now.Sub(end) > w.MaxAge
		if !old && (w.MaxBytes == 0 || all <= w.MaxBytes) {
			return
		}
		if os.Remove(filepath.Join(w.Dir, name)) != nil {
			return
		}
		all -= sizes[i]
	}
}
