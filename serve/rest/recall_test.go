package rest

import (
	"os"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/record"
)

// logOf records cycles and opens them to be read.
func logOf(t *testing.T, cycles int, namespaces ...string) *record.Log {
	t.Helper()
	dir := t.TempDir()
	w, err := record.NewWriter(record.Config{Dir: dir, Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for id := range cycles {
		r := recordOf(uint64(id+1), namespaces...)
		r.Memory = planning.Memory{}
		if notes := w.Record(r); len(notes) > 0 {
			t.Fatal(notes)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := record.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A page after a restart has the past of the records, once, and in order.
func TestRecall(t *testing.T) {
	l := logOf(t, 50, "a", "b")
	s := NewStore(Config{Period: 15 * time.Second})
	for id := 48; id <= 60; id++ { // some are in both
		s.Add(recordOf(uint64(id), "a", "b"))
	}
	from := recordOf(11, "a").Cycle.Time
	if err := s.Recall(l, from); err != nil {
		t.Fatal(err)
	}
	s.Add(recordOf(61, "a", "b"))
	heads := s.headList(time.Time{}, 1000)
	if len(heads) != 51 || heads[0].Cycle != 61 || heads[50].Cycle != 11 {
		t.Errorf("%d cycles, %d to %d", len(heads), heads[len(heads)-1].Cycle, heads[0].Cycle)
	}
	d, ok := s.workload(Viewer{All: true}, api.Key{Namespace: "b", Name: "web-b"})
	if !ok || len(d.Past.Times) != 51 || d.Past.Times[0] != from.Unix() {
		t.Errorf("%d points from %v", len(d.Past.Times), d.Past.Times[:1])
	}
	last := s.changes[0].Time
	for _, k := range s.changes {
		if k.Time.Before(last) {
			t.Fatalf("a change of %v after one of %v", k.Time, last)
		}
		last = k.Time
	}
}

// The same where no cycle has come yet.
func TestRecallBeforeAll(t *testing.T) {
	s := NewStore(Config{Period: 15 * time.Second})
	if err := s.Recall(logOf(t, 20, "a"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if s.any() {
		t.Error("what was recorded by another process counts as a cycle of this one")
	}
	s.Add(recordOf(21, "a"))
	d, ok := s.workload(Viewer{All: true}, api.Key{Namespace: "a", Name: "web-a"})
	if !ok || len(d.Past.Times) != 21 {
		t.Errorf("%t, %d points", ok, len(d.Past.Times))
	}
}

// A page over records shows them, and explains each of their cycles.
func TestFill(t *testing.T) {
	l := logOf(t, 300, "a")
	s := NewStore(Config{Period: 15 * time.Second, Recorded: true, Records: func() (*record.Log, error) { return l, nil }})
	if err := s.Fill(l); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint64{1, 30, 150, 299, 300} {
		e, err := s.cycle(id)
		if err != nil || e.Cycle.ID != id || len(e.Cycle.Plan.Workloads) != 1 || e.Cycle.Plan.Workloads[0].Reason != "because of a" {
			t.Errorf("cycle %d: %v, %+v", id, err, e.Cycle.Plan.Workloads)
		}
	}
	if o := s.overview(Viewer{All: true}); !o.Recorded || o.Cycle != 300 || len(o.Pools) != 1 {
		t.Errorf("%+v", o)
	}
}
