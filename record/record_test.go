package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/node"
	"github.com/mash2-io/mash2/record/delta/filltest"
)

var actions = []api.Action{
	api.ScaleWorkload{}, api.ResizePool{}, api.RemoveNode{}, api.CordonNode{}, api.UncordonNode{}, api.GiveUpMove{}, api.EvictPod{}, api.SetDeletionCost{}, api.ResizePod{}, api.CallWebhook{},
}

// TestActionsAreRegistered: every type of Action can be recorded.
func TestActionsAreRegistered(t *testing.T) {
	source, err := os.ReadFile("../api/action.go")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range actions {
		got = append(got, reflect.TypeOf(a).Name())
	}
	for _, m := range regexp.MustCompile(`func \((\w+)\) action\(\)`).FindAllStringSubmatch(string(source), -1) {
		if !strings.Contains(strings.Join(got, " "), m[1]) {
			t.Errorf("%s is neither registered nor tested", m[1])
		}
	}
}

// filler fills records: every field, caches and unexported ones included.
func filler(seed uint64) filltest.Filler {
	f := filltest.Filler{Rand: rand.New(rand.NewPCG(seed, 2))}
	f.Leave = func(_ reflect.Type, field reflect.StructField) bool { return field.Tag.Get("delta") == "-" }
	f.Any = func(t reflect.Type) any {
		if t == reflect.TypeFor[api.Action]() {
			a := reflect.New(reflect.TypeOf(actions[f.Rand.IntN(len(actions))]))
			f.Fill(a.Interface())
			return a.Elem().Interface()
		}
		var w node.WarmStart
		f.Fill(&w)
		return w
	}
	return f
}

// fill makes a record with a memory.
func fill(f filltest.Filler, id int) api.Record {
	var r api.Record
	var m planning.Memory
	f.Fill(&r)
	f.Fill(&m)
	return stamped(r, m, id)
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func stamped(r api.Record, m planning.Memory, id int) api.Record {
	r.Memory, r.Brief = m, false
	r.Cycle.ID, r.Cycle.Time, r.Cycle.Error = uint64(id), epoch.Add(time.Duration(id)*15*time.Second), ""
	return r
}

var exact = cmp.Options{
	cmp.Exporter(func(reflect.Type) bool { return true }),
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) && a.IsZero() == b.IsZero() }),
}

func newWriter(t *testing.T, c Config) *Writer {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	w, err := NewWriter(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func record(t *testing.T, w *Writer, r api.Record) {
	t.Helper()
	for _, f := range w.Record(r) {
		t.Fatalf("cycle %d: %v", r.Cycle.ID, f)
	}
}

// read returns a log's records from a time on.
func read(t *testing.T, dir string, from time.Time) []Entry {
	t.Helper()
	l, err := Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	var out []Entry
	for e, err := range l.Records(from) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// TestLossless: every field of what a cycle is decided from comes back, from
// keyframes and from differences; of keyframes the plan and the memory too.
func TestLossless(t *testing.T) {
	for seed := range uint64(12) {
		w := newWriter(t, Config{KeyEvery: 4})
		f := filler(seed)
		r := fill(f, 0)
		m := r.Memory.(planning.Memory)
		var want []api.Record
		for id := range 10 {
			record(t, w, r)
			kept := slim(r, id%4 == 0)
			var err error
			if kept.Digest, err = Digest(r.Cycle.Policy, r.Cycle.Plan, r.Actions); err != nil {
				t.Fatal(err)
			}
			want = append(want, kept)
			f.Change(&r.Snapshot)
			f.Change(&r.Spec)
			f.Change(&r.Cycle)
			f.Change(&r.Actions)
			f.Change(&m)
			r = stamped(r, m, id+1)
		}
		entries := read(t, w.Dir, time.Time{})
		var got []api.Record
		for i, e := range entries {
			if e.Key != (i%4 == 0) || len(e.Lost) > 0 {
				t.Errorf("record %d: key %v, lost %q", i, e.Key, e.Lost)
			}
			got = append(got, e.Record)
		}
		if diff := cmp.Diff(want, got, exact); diff != "" {
			t.Fatalf("seed %d:\n%s", seed, diff)
		}
		// From a keyframe in the middle.
		if got := read(t, w.Dir, epoch.Add(5*15*time.Second+time.Second)); len(got) != 6 || got[0].Cycle.ID != 4 || got[0].Memory == nil {
			t.Fatalf("from cycle 5 on there are %d records", len(got))
		}
	}
}

// TestImplied: what the rest of a record implies is not written, and comes back.
func TestImplied(t *testing.T) {
	key := func(name string) api.Key { return api.Key{Namespace: "shop", Name: name} }
	series := func(v float64) api.Series {
		return api.Series{Start: epoch, Step: time.Second, Values: []float64{1, v}}
	}
	skill := 0.25
	r := stamped(api.Record{}, planning.Memory{}, 1)
	r.Snapshot.Time = epoch
	r.Snapshot.Workloads = []api.Workload{{Key: key("a"), Demand: series(3)}, {Key: key("b"), Demand: series(5)}, {Key: key("c")}, {Key: key("d"), Demand: series(7)}}
	r.Cycle.Plan.Workloads = []api.WorkloadPlan{
		{Key: key("a"), Demand: 3, Skill: &api.ForecastSkill{LastValue: &skill}, Forecast: &api.Forecast{Skill: skill, SeasonalSkill: math.NaN()}},
		{Key: key("b"), Demand: 6}, // of another source
		{Key: key("d"), Demand: 7, Forecast: &api.Forecast{Skill: 0.5, SeasonalSkill: 0}},
		{Key: key("e"), Demand: -1},
	}
	written := slim(r, true)
	imply(&written)
	var left []bool
	for _, w := range written.Cycle.Plan.Workloads {
		left = append(left, isImplied(w.Demand))
	}
	f := written.Cycle.Plan.Workloads[0].Forecast
	if diff := cmp.Diff([]bool{true, false, true, false, true, true}, append(left, isImplied(f.Skill), isImplied(f.SeasonalSkill))); diff != "" {
		t.Errorf("left out:\n%s", diff)
	}
	if diff := cmp.Diff(slim(r, true), restored(written), exact); diff != "" {
		t.Errorf("it comes back as\n%s", diff)
	}
}

// TestHeldCycle: a cycle that saw nothing has the snapshot of the one before.
func TestHeldCycle(t *testing.T) {
	w := newWriter(t, Config{})
	r := fill(filler(1), 1)
	record(t, w, r)
	held := stamped(api.Record{}, planning.Memory{}, 2)
	held.Cycle.Error = "observing: no route to host"
	record(t, w, held)
	got := read(t, w.Dir, time.Time{})
	if diff := cmp.Diff(r.Snapshot, got[1].Snapshot, exact); diff != "" || got[1].Cycle.Error == "" {
		t.Errorf("error %q, snapshot:\n%s", got[1].Cycle.Error, diff)
	}
}

// TestTorn: whatever is cut off or damaged at the end of a log, all before it is read,
// what is lost is said, and recording goes on in a segment of its own.
func TestTorn(t *testing.T) {
	w := newWriter(t, Config{})
	f := filler(3)
	var sizes []int64 // after each record
	for id := range 5 {
		record(t, w, fill(f, id+1))
		sizes = append(sizes, w.written)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(w.Dir, w.name))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		bytes    []byte
		want     int    // records
		wantLost string // empty: nothing is lost
	}{
		"all of it":                 {whole, 5, ""},
		"between two records":       {whole[:sizes[3]], 4, ""},
		"within a frame's head":     {whole[:sizes[3]+3], 4, "3 bytes after cycle 4 are lost"},
		"within a record":           {whole[:sizes[4]-1], 4, fmt.Sprintf("%d bytes after cycle 4 are lost", sizes[4]-1-sizes[3])},
		"a bit is wrong":            {flipped(whole, int(sizes[2])+20), 3, fmt.Sprintf("%d bytes after cycle 3 are lost", sizes[4]-sizes[2])},
		"a length beyond the end":   {flipped(whole, int(sizes[3])+3), 4, fmt.Sprintf("%d bytes after cycle 4 are lost", sizes[4]-sizes[3])},
		"the keyframe is cut off":   {whole[:sizes[0]-1], 0, ""},
		"the header is cut off":     {whole[:20], 0, ""},
		"there is nothing after it": {whole[:3], 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, w.name)
			if err := os.WriteFile(path, c.bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			var lost []string
			if c.want > 0 {
				got := read(t, dir, time.Time{})
				if len(got) != c.want {
					t.Errorf("%d records, want %d", len(got), c.want)
				}
				lost = got[len(got)-1].Lost
			}
			if (len(lost) == 0) != (c.wantLost == "") || c.wantLost != "" && !strings.HasPrefix(lost[0], w.name+": "+c.wantLost) {
				t.Errorf("lost is %q, want %q", lost, c.wantLost)
			}
			// The next process.
			next, err := NewWriter(Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			notes := next.Record(fill(f, 9))
			if cut := c.wantLost != "" || c.want == 0; cut != (len(notes) == 1 && notes[0].Reason == ReasonCut) {
				t.Errorf("notes %v", notes)
			}
			if err := next.Close(); err != nil {
				t.Fatal(err)
			}
			after := read(t, dir, time.Time{})
			if len(after) != c.want+1 || after[c.want].Cycle.ID != 9 || !after[c.want].Key {
				t.Errorf("%d records afterwards, want %d and a keyframe", len(after), c.want)
			}
			for _, e := range after {
				if len(e.Lost) > 0 {
					t.Errorf("still lost: %s", e.Lost)
				}
			}
		})
	}
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 0x40
	return b
}

// small is a file on a disk with little room.
type small struct {
	*os.File
	room *int
}

func (s small) Write(b []byte) (int, error) {
	n := min(len(b), *s.room)
	*s.room -= n
	if _, err := s.File.Write(b[:n]); err != nil {
		return 0, err
	}
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// TestDiskFull: recording stops, is said once, and goes on when there is room.
func TestDiskFull(t *testing.T) {
	w := newWriter(t, Config{})
	room := 1 << 30
	create := w.create
	w.create = func(path string) (file, error) {
		f, err := create(path)
		if err != nil {
			return nil, err
		}
		return small{f.(*os.File), &room}, nil
	}
	f := filler(5)
	reasons := map[int][]string{}
	want := map[int][]string{4: {ReasonStopped}, 12: {ReasonResumed}}
	for id := 1; id <= 14; id++ { // cycles are 15 s apart
		switch id {
		case 4:
			room = 10
		case 10:
			room = 1 << 30
		}
		for _, n := range w.Record(fill(f, id)) {
			reasons[id] = append(reasons[id], n.Reason)
			if n.Reason == ReasonStopped && !strings.Contains(n.Message, "no space left") {
				t.Errorf("it says %q", n.Message)
			}
		}
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("findings:\n%s", diff)
	}
	var ids []uint64
	for _, e := range read(t, w.Dir, time.Time{}) {
		ids = append(ids, e.Cycle.ID)
		if len(e.Lost) > 0 {
			t.Errorf("cycle %d: %s", e.Cycle.ID, e.Lost)
		}
	}
	if diff := cmp.Diff([]uint64{1, 2, 3, 12, 13, 14}, ids); diff != "" {
		t.Errorf("recorded:\n%s", diff)
	}
}

// TestRetention: old segments go, by bytes and by age; what is left can be read.
func TestRetention(t *testing.T) {
	r := fill(filler(7), 1)
	cycles := func(t *testing.T, c Config, n int) (*Writer, []Entry) {
		w := newWriter(t, c)
		for id := range n {
			record(t, w, stamped(r, planning.Memory{}, id))
		}
		return w, read(t, w.Dir, time.Time{})
	}
	w, all := cycles(t, Config{KeyEvery: 10}, 100)
	if len(all) != 100 {
		t.Fatalf("%d of 100 are kept without limits", len(all))
	}
	var size int64
	for _, s := range must(Open(os.DirFS(w.Dir))).Segments {
		size += s.Bytes
	}
	for name, c := range map[string]struct {
		config Config
		want   [2]int // records, at least and at most
	}{
		"bytes": {Config{KeyEvery: 10, MaxBytes: size / 3}, [2]int{20, 39}},
		// Ten records are two and a half minutes.
		"age": {Config{KeyEvery: 10, MaxAge: 10 * time.Minute}, [2]int{40, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			w, left := cycles(t, c.config, 100)
			if len(left) < c.want[0] || len(left) > c.want[1] || left[len(left)-1].Cycle.ID != 99 || !left[0].Key {
				t.Errorf("%d records are left, want %v", len(left), c.want)
			}
			var now int64
			for _, s := range must(Open(os.DirFS(w.Dir))).Segments {
				now += s.Bytes
			}
			if c.config.MaxBytes > 0 && now > c.config.MaxBytes {
				t.Errorf("they take %d bytes, more than %d", now, c.config.MaxBytes)
			}
		})
	}
	// The clock is a day ahead, is set right, and the process begins anew: the records that go
	// are those that were written first.
	t.Run("a clock that was ahead", func(t *testing.T) {
		c := Config{KeyEvery: 10, MaxBytes: size / 3, Dir: t.TempDir()}
		const day = 24 * 60 * 4
		at := func(w *Writer, first, n, ahead int) {
			for id := first; id < first+n; id++ {
				r := stamped(r, planning.Memory{}, id+ahead)
				r.Cycle.ID = uint64(id)
				record(t, w, r)
			}
		}
		w := newWriter(t, c)
		at(w, 0, 20, day)
		at(w, 20, 10, 0)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		at(newWriter(t, c), 30, 70, 0)
		left := read(t, c.Dir, time.Time{})
		if len(left) < 20 || left[0].Cycle.ID < 60 || left[len(left)-1].Cycle.ID != 99 {
			t.Errorf("%d records are left, from cycle %d to %d", len(left), left[0].Cycle.ID, left[len(left)-1].Cycle.ID)
		}
	})
	t.Run("a limit that not even a keyframe fits in", func(t *testing.T) {
		w := newWriter(t, Config{MaxBytes: 100})
		if notes := w.Record(r); len(notes) != 1 || notes[0].Reason != ReasonStopped || !strings.Contains(notes[0].Message, "allow more") {
			t.Errorf("notes %v", notes)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestRefused: a log of another format says who can read it.
func TestRefused(t *testing.T) {
	head := appendFrame([]byte(magic), []byte(`{"format":7,"program":"v9.9.9"}`))
	_, err := Open(fstest.MapFS{"a" + Suffix: {Data: head}})
	if err == nil || !strings.Contains(err.Error(), "format 7, of mash2 v9.9.9") {
		t.Errorf("format 7: %v", err)
	}
	if _, err := Open(fstest.MapFS{}); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "there are no records") {
		t.Errorf("an empty folder: %v", err)
	}
	if err := (Config{Dir: "x", MaxBytes: -1}).Validate(); err == nil {
		t.Error("negative bytes are accepted")
	}
}

// FuzzRead: whatever a file holds, reading it ends, without a panic and without
// memory out of proportion.
func FuzzRead(f *testing.F) {
	dir := f.TempDir()
	w, err := NewWriter(Config{Dir: dir})
	if err != nil {
		f.Fatal(err)
	}
	fl := filler(9)
	for id := range 3 {
		w.Record(fill(fl, id))
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, w.name))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-5])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		// A checksum that is right, so that what is behind it is reached.
		for at := len(magic); at+frameHead <= len(b); {
			size := int(binary.LittleEndian.Uint32(b[at:]))
			if size > len(b)-at-frameHead {
				break
			}
			payload := bytes.Clone(b[at+frameHead : at+frameHead+size])
			copy(b[at:], appendFrame(nil, payload))
			at += frameHead + size
		}
		l, err := Open(fstest.MapFS{"a" + Suffix: {Data: b}})
		if err != nil {
			return
		}
		for _, err := range l.Records(time.Time{}) {
			if err != nil && errors.Is(err, errTorn) {
				t.Fatal("a torn end is no error")
			}
		}
	})
}
