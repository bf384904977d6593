package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// threeSegments are cycles 1 to 12, a minute apart: four in a segment.
func threeSegments(t *testing.T) (dir string, names []string) {
	t.Helper()
	w := newWriter(t, Config{KeyEvery: 4})
	for m := range 12 {
		c := api.Cycle{ID: uint64(m + 1), Time: start.Add(time.Duration(m) * time.Minute)}
		record(t, w, api.Record{Cycle: c, Snapshot: api.Snapshot{Time: c.Time}, Memory: planning.Memory{}})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := segments(os.DirFS(w.Dir))
	if err != nil || len(names) != 3 {
		t.Fatalf("%v, %v", names, err)
	}
	return w.Dir, names
}

// headEnd is where the first record of a segment begins.
func headEnd(t *testing.T, b []byte) int {
	t.Helper()
	f := &frames{r: strings.NewReader(string(b))}
	if _, err := readHeader(f); err != nil {
		t.Fatal(err)
	}
	return int(f.whole)
}

// TestDamagedSegment: whatever is damaged in one segment, the others are read; who asks about a
// time that is lost is told, who asks about another one is not; and recording goes on.
func TestDamagedSegment(t *testing.T) {
	for name, c := range map[string]struct {
		segment int // of three
		damage  func(t *testing.T, b []byte) []byte
		read    []uint64 // cycles
		at      uint64   // the cycle that is found for a time that is lost, which is 6:30 or 10:30
		lost    string
		cut     string // what the next start says; empty if nothing
		removed bool   // by the next start
	}{
		"zeros in the midst": {
			1, func(_ *testing.T, b []byte) []byte { return make([]byte, len(b)) },
			[]uint64{1, 2, 3, 4, 9, 10, 11, 12}, 4, "it can't be read: it is not a segment of records", "", false,
		},
		"zeros in the newest": {
			2, func(_ *testing.T, b []byte) []byte { return make([]byte, len(b)) },
			[]uint64{1, 2, 3, 4, 5, 6, 7, 8}, 8, "it can't be read: it is not a segment of records", "are left as they are", false,
		},
		"a byte of a header": {
			1, func(_ *testing.T, b []byte) []byte { return flipped(b, len(magic)+frameHead+3) },
			[]uint64{1, 2, 3, 4, 9, 10, 11, 12}, 4, "it can't be read: reading its header", "", false,
		},
		"a header that is cut off": {
			1, func(_ *testing.T, b []byte) []byte { return b[:20] },
			[]uint64{1, 2, 3, 4, 9, 10, 11, 12}, 4, "it can't be read: reading its header", "", false,
		},
		"a keyframe": {
			1, func(t *testing.T, b []byte) []byte { return flipped(b, headEnd(t, b)+frameHead+3) },
			[]uint64{1, 2, 3, 4, 9, 10, 11, 12}, 4, "bytes hold no whole record", "", false,
		},
		"zeros after the header of the newest": {
			2, func(t *testing.T, b []byte) []byte { clear(b[headEnd(t, b):]); return b },
			[]uint64{1, 2, 3, 4, 5, 6, 7, 8}, 8, "bytes hold no whole record", "was deleted", true,
		},
		"zeros at the end of the newest": {
			2, func(_ *testing.T, b []byte) []byte { return append(b, make([]byte, 4096)...) },
			[]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 0, "4096 bytes after cycle 12 are lost", "4096 bytes at the end", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, names := threeSegments(t)
			path := filepath.Join(dir, names[c.segment])
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.damage(t, b), 0o600); err != nil {
				t.Fatal(err)
			}
			ids := func() (out []uint64, lost []string) {
				for _, e := range read(t, dir, time.Time{}) {
					out, lost = append(out, e.Cycle.ID), append(lost, e.Lost...)
				}
				return out, lost
			}
			says := func(what string, lost []string) {
				t.Helper()
				if len(lost) != 1 || !strings.HasPrefix(lost[0], names[c.segment]+": ") || !strings.Contains(lost[0], c.lost) {
					t.Errorf("%s: lost is %q, want %q", what, lost, c.lost)
				}
			}
			got, lost := ids()
			if diff := cmp.Diff(c.read, got); diff != "" {
				t.Errorf("cycles:\n%s", diff)
			}
			says("reading", lost)
			l, err := Open(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			if c.at > 0 {
				x, err := l.Explain(Question{At: start.Add(time.Duration(c.segment*4)*time.Minute + 90*time.Second)})
				if err != nil || x.Cycle != c.at {
					t.Errorf("in force is cycle %d, %v, want %d", x.Cycle, err, c.at)
				}
				says("explaining", x.Lost)
			}
			if x, err := l.Explain(Question{At: start.Add(90 * time.Second)}); err != nil || x.Cycle != 2 || len(x.Lost) > 0 {
				t.Errorf("another time: cycle %d, %q, %v", x.Cycle, x.Lost, err)
			}
			a, err := l.Over(Question{}, start, start.Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			says("accounting", a.Lost)
			if a, err := l.Over(Question{}, start, start.Add(2*time.Minute)); err != nil || len(a.Lost) > 0 {
				t.Errorf("another period: %q, %v", a.Lost, err)
			}

			next, err := NewWriter(Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			at := start.Add(time.Hour)
			notes := next.Record(api.Record{Cycle: api.Cycle{ID: 90, Time: at}, Snapshot: api.Snapshot{Time: at}})
			if (c.cut == "") != (len(notes) == 0) || c.cut != "" && (notes[0].Reason != ReasonCut || !strings.Contains(notes[0].Message, c.cut)) {
				t.Errorf("the next start says %v, want %q", notes, c.cut)
			}
			if err := next.Close(); err != nil {
				t.Fatal(err)
			}
			got, lost = ids()
			if diff := cmp.Diff(append(c.read, 90), got); diff != "" {
				t.Errorf("cycles afterwards:\n%s", diff)
			}
			if c.removed != (len(lost) == 0) {
				t.Errorf("lost afterwards: %q", lost)
			}
		})
	}
}

// TestNothingCanBeRead: that no segment can be read is something else than that there is none.
func TestNothingCanBeRead(t *testing.T) {
	_, err := Open(fstest.MapFS{"a" + Suffix: {Data: make([]byte, 100)}})
	if err == nil || !strings.Contains(err.Error(), "no records can be read; a"+Suffix+": it can't be read: it is not a segment") {
		t.Errorf("%v", err)
	}
}
