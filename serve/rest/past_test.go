package rest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
)

// A history is bounded, has the newest points as they were, and reaches back to the first.
func TestHistory(t *testing.T) {
	for _, size := range []int{4, 96} {
		h := newHistory(size)
		for n := range 5000 {
			h.add(point{at: int64(n)})
			got := h.points()
			if len(got) > 2*size || got[0].at != 0 || got[len(got)-1].at != int64(n) {
				t.Fatalf("size %d after %d: %d points from %d to %d", size, n, len(got), got[0].at, got[len(got)-1].at)
			}
			for i := 1; i < len(got); i++ {
				if got[i].at <= got[i-1].at {
					t.Fatalf("size %d after %d: times %d, %d", size, n, got[i-1].at, got[i].at)
				}
				// No hole is larger than an eighth of all: the past is covered evenly.
				if size > 16 && n > 2*size && got[i].at-got[i-1].at > int64(n)/8 {
					t.Fatalf("size %d after %d: nothing between %d and %d", size, n, got[i-1].at, got[i].at)
				}
			}
			for i := range min(size, n+1) {
				if got[len(got)-1-i].at != int64(n-i) {
					t.Fatalf("size %d after %d: the newest but %d is %d", size, n, i, got[len(got)-1-i].at)
				}
			}
		}
	}
}

func TestStockHPA(t *testing.T) {
	w := api.Workload{Replicas: 4, MinReplicas: 2, MaxReplicas: 10}
	type step struct {
		minute float64
		need   float64
		want   int32
	}
	for name, steps := range map[string][]step{
		"as it is":                    {{0, 3.2, 4}},
		"within the tolerance":        {{0, 3.5, 4}},
		"up at once":                  {{0, 3.2, 4}, {0.25, 4.8, 6}},
		"no further than the most":    {{0, 50, 10}},
		"down after five minutes":     {{0, 4.8, 6}, {1, 1.6, 6}, {4.9, 1.6, 6}, {6.1, 1.6, 2}},
		"down to the largest of them": {{0, 4.8, 6}, {1, 1.6, 6}, {3, 3.2, 6}, {6.1, 1.6, 4}, {8.1, 1.6, 2}},
		"no lower than the least":     {{0, 0, 2}},
		"unknown demand":              {{0, 4.8, 6}, {1, -1, 6}, {9, -1, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			h := stockHPA{stabilization: hpaStabilization}
			for _, s := range steps {
				at := began.Add(time.Duration(s.minute * float64(time.Minute)))
				if got := h.step(at, s.need, w); got != s.want {
					t.Errorf("at minute %g: %d replicas, want %d", s.minute, got, s.want)
				}
			}
		})
	}
	// By its definition: the largest of what the last five minutes recommended.
	r := rand.New(rand.NewPCG(1, 2))
	h := stockHPA{stabilization: hpaStabilization}
	var all []recommendation
	now := int32(4)
	for n := range 2000 {
		at := began.Add(time.Duration(n) * 15 * time.Second)
		need := 8 * r.Float64()
		want := int32(math.Ceil(need / hpaTarget))
		if math.Abs(need/hpaTarget/float64(now)-1) <= hpaTolerance {
			want = now
		}
		all = append(all, recommendation{at, min(max(want, 2), 10)})
		most := int32(0)
		for _, k := range all {
			if at.Sub(k.at) <= hpaStabilization {
				most = max(most, k.replicas)
			}
		}
		now = most
		if got := h.step(at, need, w); got != most {
			t.Fatalf("step %d: %d, want %d", n, got, most)
		}
	}
}

func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "spent.json")
	l, err := newLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	last := time.Date(2026, 2, 28, 23, 0, 0, 0, time.UTC)
	at := last
	for range 3 * 60 { // one hour of February, two of March
		at = at.Add(time.Minute)
		l.spend(at.Add(-time.Second), time.Minute, 6, 12)
	}
	if err := l.save(at); err != nil {
		t.Fatal(err)
	}
	again, err := newLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
	for _, l := range []*ledger{l, again} {
		m := l.money(at, 6, 12)
		if !near(m.Month.Spent, 12) || !near(m.Month.HPA, 24) || !near(m.Day.Spent, 12) || !near(m.Day.Known, 1) {
			t.Errorf("%+v", m)
		}
	}
	if m := again.money(at.Add(2*time.Hour), 6, 12); !near(m.Day.Known, 0.5) || !near(m.Day.Spent, 12) {
		t.Errorf("after two hours without a cycle: %+v", m)
	}
	// Old hours go.
	again.spend(at.Add(63*24*time.Hour), time.Minute, 6, 12)
	if len(again.Hours) != 1 {
		t.Errorf("%d hours are kept", len(again.Hours))
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := newLedger(path); err == nil || len(l.Hours) != 0 {
		t.Errorf("a torn file: %v", err)
	}
}

// A replica that begins to lead goes on from what the one before it spent.
func TestMoneyOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spent.json")
	store := func() *Store { return NewStore(Config{Period: 15 * time.Second, MoneyFile: path}) }
	leader, standby := store(), store()
	for id := range 10 {
		leader.Add(recordOf(uint64(id+1), "a"))
	}
	standby.LoadMoney()
	standby.Add(recordOf(11, "a"))
	// The file is written once a minute at most: after four cycles, and four later.
	if got := standby.overview(Viewer{All: true}).Money.Day.Spent; math.Abs(got-8*15.0/3600*0.1) > 1e-9 {
		t.Errorf("%g USD", got)
	}
}

// A gap between cycles is billed by nobody, and prices are those of the time before.
func TestSpent(t *testing.T) {
	s := NewStore(Config{Period: 15 * time.Second})
	add := func(id uint64) { s.Add(recordOf(id, "a")) }
	add(1)
	add(2)
	add(3)
	add(500) // two hours later
	m := s.overview(Viewer{All: true}).Money
	want := 2 * 15.0 / 3600 * 0.1 // two intervals, one node
	if math.Abs(m.Day.Spent-want) > 1e-9 || m.Hourly != 0.1 {
		t.Errorf("%+v, want %g", m, want)
	}
	// Demand of 600 of 500 millicores needs 2 replicas at 80 %, as there are.
	if math.Abs(m.HPAHourly-0.1) > 1e-9 {
		t.Errorf("HPA: %g USD/h", m.HPAHourly)
	}
}

func TestChanges(t *testing.T) {
	s := storeOf(3, "a") // 3, 4, 2 replicas
	kinds := map[string]int{}
	for _, k := range s.changeList(Viewer{All: true, Nodes: true}, Filter{Limit: 100}) {
		kinds[k.Kind]++
	}
	// Findings are told when they appear, failures when they begin.
	if kinds[record.ReplicasChanged] != 2 || kinds[record.FindingAppeared] != 5 || kinds[record.ActionFailed] != 1 || kinds[record.PolicyChanged] != 0 {
		t.Errorf("%v", kinds)
	}
	r := recordOf(4, "a")
	r.Cycle.Error, r.Cycle.Paused = "no API server", true
	s.Add(r)
	r = recordOf(5, "a")
	r.Cycle.Policy.Name = api.Performance
	s.Add(r)
	got := s.changeList(Viewer{All: true}, Filter{Limit: 100})
	counts := map[string]int{}
	for _, k := range got {
		if k.Cycle > 3 {
			counts[k.Kind]++
		}
	}
	if counts[record.CycleHeld] != 1 || counts[record.PolicyChanged] != 1 || counts[record.PausedChanged] != 0 || counts[record.ReplicasChanged] != 1 {
		t.Errorf("%v: %+v", counts, got)
	}
	if o := s.overview(Viewer{All: true}); o.Cycle != 5 || o.Error != "" || o.Policy.Name != api.Performance {
		t.Errorf("%+v", o)
	}
}

// What is kept stays bounded, whatever runs for however long.
func TestBounds(t *testing.T) {
	s := NewStore(Config{Period: 15 * time.Second})
	names := make([]string, 300)
	for i := range names {
		names[i] = string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	for id := range 400 {
		s.Add(recordOf(uint64(id+1), names...))
	}
	if n := len(s.cycles); n > mostPlans/300+1 || n < 100 {
		t.Errorf("%d cycles are kept", n)
	}
	if len(s.changes) > mostChanges || len(s.heads) > mostHeads {
		t.Errorf("%d changes, %d heads", len(s.changes), len(s.heads))
	}
	for _, r := range s.cycles {
		if len(r.Snapshot.Pods) > 0 || r.Memory != nil || r.Cycle.Plan.Workloads[0].Forecast.Quantiles != nil {
			t.Fatal("a whole record is kept")
		}
	}
	if len(s.workloads) != 300 {
		t.Errorf("%d workloads", len(s.workloads))
	}
	s.Add(recordOf(401, "aa"))
	if len(s.workloads) != 1 {
		t.Errorf("%d workloads are remembered of one", len(s.workloads))
	}
}

// BenchmarkAdd is what the page takes of a cycle of 5,000 workloads.
func BenchmarkAdd(b *testing.B) {
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprint("ns", i)
	}
	s := NewStore(Config{Period: 15 * time.Second})
	records := []api.Record{recordOf(1, names...), recordOf(2, names...), recordOf(3, names...)}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		r := records[n%3]
		r.Cycle.ID = uint64(n + 1)
		r.Cycle.Time = began.Add(time.Duration(n) * 15 * time.Second)
		s.Add(r)
	}
}

// TestTimelineHasEveryChange: who asks for a page after the other, before the time of the last
// change, misses none, although one cycle has more changes than a page.
func TestTimelineHasEveryChange(t *testing.T) {
	var namespaces []string
	for i := range 30 {
		namespaces = append(namespaces, fmt.Sprintf("n%02d", i))
	}
	s := storeOf(3, namespaces...)
	v := Viewer{All: true, Nodes: true}
	const most = 20
	var got []record.Change
	for before := (time.Time{}); ; before = got[len(got)-1].Time {
		page := s.changeList(v, Filter{Before: before, Limit: most})
		got = append(got, page...)
		if len(page) < most {
			break
		}
	}
	slices.Reverse(got)
	if len(got) < 2*len(namespaces) || !reflect.DeepEqual(got, s.changes) {
		t.Errorf("%d of %d changes can be seen", len(got), len(s.changes))
	}
	if none := s.changeList(v, Filter{}); len(none) > 0 {
		t.Errorf("%d changes without being asked for one", len(none))
	}
}
