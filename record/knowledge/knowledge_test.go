package knowledge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

var shop = api.Key{Namespace: "shop", Name: "edge-or-cloud"}

// cycle is a record of a strategy with one sensor, one rule and a choice.
func cycle(i int, latency float64, missing string, on bool, candidate string) api.Record {
	at := start.Add(time.Duration(i) * 15 * time.Second)
	since := time.Time{}
	if on || candidate != "cloud" {
		since = at
	}
	r := api.Record{Snapshot: api.Snapshot{Time: at}, Cycle: api.Cycle{ID: uint64(i + 1), Time: at}}
	r.Snapshot.Context.Strategies = []api.Strategy{{Key: shop, Readings: []api.SensorReading{{Sensor: "latency", Value: latency, At: at, Missing: missing}}}}
	r.Cycle.Policy = api.Policy{Name: api.CostSaving, Strategies: []api.StrategyState{{
		Key: shop, Rules: []api.RuleState{{Name: "crowd", On: on, Since: since, Reason: "because"}},
		Choice: &api.Choice{Candidate: candidate, Since: since, Reason: "it scores more"},
	}}}
	return r
}

func lines(entries []Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.String())
	}
	return out
}

// TestGatherer: each thing is told once, when it turns; values of sensors once a minute.
func TestGatherer(t *testing.T) {
	var g Gatherer
	var got []string
	grade := 0.4
	for i := range 12 {
		latency, missing := 0.1+float64(i)/100, ""
		if i == 6 || i == 7 {
			latency, missing = 0, "no answer"
		}
		r := cycle(i, latency, missing, i >= 5, map[bool]string{true: "edge", false: "cloud"}[i >= 9])
		if i >= 5 {
			r.Cycle.Policy.Strategies[0].Rules[0].Since = start.Add(5 * 15 * time.Second)
		}
		if i >= 10 {
			r.Cycle.Policy.Name, r.Cycle.Policy.Reason = api.Performance, "by hand"
			r.Cycle.Policy.StrategyActions = []api.StrategyAction{{Strategy: shop, Rule: "crowd", Kind: api.ActionSetPolicy, Policy: "X", NotDone: "set by hand"}}
		}
		r.Cycle.Plan.Workloads = []api.WorkloadPlan{{Key: api.Key{Namespace: "shop", Name: "web"}, Skill: &api.ForecastSkill{Model: "auto", LastValue: &grade, Trust: map[bool]api.Trust{true: api.TrustFull, false: api.TrustUp}[i >= 3]}}}
		got = append(got, lines(g.Next(r))...)
	}
	want := []string{
		"09:00:00Z  reading   strategy shop/edge-or-cloud: latency = 0.1",
		"09:00:00Z  score     workload shop/web: forecast  skillOverLastValue=0.4  model=auto  trust=up",
		"09:00:45Z  score     workload shop/web: forecast  skillOverLastValue=0.4  model=auto  trust=full",
		"09:01:00Z  reading   strategy shop/edge-or-cloud: latency = 0.14",
		"09:01:15Z  decision  strategy shop/edge-or-cloud: crowd: on: because",
		"09:01:30Z  reading   strategy shop/edge-or-cloud: latency: no answer",
		"09:02:00Z  reading   strategy shop/edge-or-cloud: latency = 0.18",
		"09:02:15Z  decision  strategy shop/edge-or-cloud: choose: edge: it scores more",
		"09:02:30Z  decision  policy PERFORMANCE: policy: by hand",
		"09:02:30Z  decision  strategy shop/edge-or-cloud: crowd: policy X: not done: set by hand",
	}
	for i := range want {
		want[i] = "2026-03-02T" + want[i]
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestGathererBeginsInTheMidst: a process that begins late doesn't tell again what an
// earlier one told.
func TestGathererBeginsInTheMidst(t *testing.T) {
	r := cycle(9, math.NaN(), "", true, "edge")
	r.Cycle.Policy.Strategies[0].Rules[0].Since = start
	r.Cycle.Policy.Strategies[0].Choice.Since = start
	var g Gatherer
	if got := lines(g.Next(r)); len(got) != 1 || !strings.HasSuffix(got[0], "latency: it is NaN") {
		t.Errorf("%v", got)
	}
}

// TestRoundsAreTold: a round that begins is a decision, one that ends a score.
func TestRoundsAreTold(t *testing.T) {
	var g Gatherer
	var got []string
	for i := range 6 {
		r := cycle(i, 1, "", false, "cloud")
		began := r.Cycle.Time
		if i%3 > 0 {
			began = began.Add(-time.Duration(i%3) * 15 * time.Second)
		}
		r.Cycle.Policy.Strategies = []api.StrategyState{{Key: shop, Learning: &api.Learning{
			Learned: i / 3, Budget: math.Inf(-1), Last: map[bool]string{true: "0.7 of PERFORMANCE"}[i >= 3], Reason: "it may earn more",
			Round: &api.LearningRound{Since: began, Baseline: "A", Recommended: "B", Expected: 0.5, Lower: 0.25, Upper: 1},
		}}}
		r.Snapshot.Context.Strategies = nil
		got = append(got, lines(g.Next(r))...)
	}
	want := []string{
		"2026-03-02T09:00:45Z  score     strategy shop/edge-or-cloud: round: 0.7 of PERFORMANCE  discarded=0  learned=1",
		"2026-03-02T09:00:45Z  decision  strategy shop/edge-or-cloud: learn: it may earn more  expected=0.5  lower=0.25  upper=1  acts=false  baseline=A  recommended=B",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func reading(i int, value float64) Entry {
	return Entry{Kind: KindReading, Time: start.Add(time.Duration(i) * time.Minute), About: About{"strategy", "shop", "edge-or-cloud"}, Name: "latency", Value: &value}
}

// TestSearch: what is kept is found as Select finds it, by any query.
func TestSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "kb")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s := Open(dir)
		var all []Entry
		for i := range rapid.IntRange(0, 40).Draw(t, "entries") {
			all = append(all, Entry{
				Kind: rapid.SampledFrom(Kinds()).Draw(t, "kind"), Time: start.Add(time.Duration(i) * time.Minute),
				About: About{"strategy", rapid.SampledFrom([]string{"shop", "bank", ""}).Draw(t, "ns"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "about")},
				Name:  rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"), Text: rapid.SampledFrom([]string{"", "A <b> & c", "none"}).Draw(t, "text"),
			})
		}
		half := len(all) / 2
		if err := errors.Join(s.Add(all[half:]...), s.Add(all[:half]...), s.Add(all...)); err != nil {
			t.Fatal(err)
		}
		at := rapid.SampledFrom([]time.Time{{}, start, start.Add(10 * time.Minute), start.Add(20*time.Minute + 1), start.Add(time.Hour)})
		q := Query{
			Kind: Kind(rapid.SampledFrom([]string{"", "score", "reading"}).Draw(t, "kind")), From: at.Draw(t, "from"), To: at.Draw(t, "to"),
			About: rapid.SampledFrom([]string{"", "a", "shop/a", "strategy bank/b", "shop"}).Draw(t, "about"), Name: rapid.SampledFrom([]string{"", "x"}).Draw(t, "name"),
			Text: rapid.SampledFrom([]string{"", "<B> &", "bank", "nothing"}).Draw(t, "text"), Limit: rapid.IntRange(0, 5).Draw(t, "limit"),
		}
		if rapid.Bool().Draw(t, "some") {
			q.Sees = func(ns string) bool { return ns == "shop" }
		}
		want, err := Select(all, q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Search(q)
		if err != nil || !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("%+v: %v\n%v\nwant\n%v", q, err, lines(got), lines(want))
		}
	})
}

// TestBounds: the oldest go, of the kind that takes most; decisions outlast readings.
func TestBounds(t *testing.T) {
	s := Open(t.TempDir())
	s.MaxBytes, s.MaxAge = 40_000, 48*time.Hour
	decision := reading(0, 1)
	decision.Kind, decision.Value, decision.Text = KindDecision, nil, "moved"
	if err := s.Add(decision); err != nil {
		t.Fatal(err)
	}
	for day := range 2 {
		var some []Entry
		for i := range 1000 {
			some = append(some, reading(day*1000+i, float64(i)))
		}
		if err := s.Add(some...); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Search(Query{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(all); n < 100 || n > 400 || all[0].Kind != KindDecision || *all[n-1].Value != 999 {
		t.Errorf("%d entries, from %v to %v", n, all[0], all[n-1])
	}
	size := 0
	for _, e := range all {
		size += len(fmt.Sprint(e))
	}
	if size > 40_000 {
		t.Errorf("%d bytes", size)
	}
	if err := s.Add(reading(60*48+1, 7)); err != nil {
		t.Fatal(err)
	}
	all, _ = s.Search(Query{})
	if all[0].Kind == KindDecision {
		t.Errorf("what is older than two days is there still: %v", all[0])
	}
}

// TestSameTime: a rule that turns and what its actions came to are two entries, however
// alike; the same one told twice is one.
func TestSameTime(t *testing.T) {
	var g Gatherer
	r := cycle(0, 1, "", true, "cloud")
	r.Cycle.Policy.StrategyActions = []api.StrategyAction{
		{Strategy: shop, Rule: "crowd", Kind: api.ActionSetPolicy, Policy: "X", NotDone: "mode is Shadow"},
		{Strategy: shop, Rule: "crowd", Kind: api.ActionMove, Pools: []string{"a"}, NotDone: "mode is Shadow"},
	}
	entries := g.Next(r)
	s := Open(t.TempDir())
	if err := errors.Join(s.Add(entries...), s.Add(entries...)); err != nil {
		t.Fatal(err)
	}
	found, err := s.Search(Query{Kind: KindDecision})
	if err != nil || len(found) != 4 { // the rule, its two actions, and the choice
		t.Errorf("%v, %v", lines(found), err)
	}
	keys := map[string]bool{}
	for _, run := range MLflowRuns(found) {
		keys[run.Create.Tags[0].Value] = true
	}
	if len(keys) != 4 {
		t.Errorf("as runs: %v", keys)
	}
}

// TestClockThatWasWrong: an entry of a far future doesn't make what follows it old.
func TestClockThatWasWrong(t *testing.T) {
	s := Open(t.TempDir())
	s.Now = func() time.Time { return start }
	future := reading(0, 1)
	future.Time = start.AddDate(1, 0, 0)
	if err := errors.Join(s.Add(future), s.Add(reading(1, 2))); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Search(Query{To: start.Add(time.Hour)}); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", lines(found), err)
	}
}

// TestHostileFiles: what is no knowledge base is an error and nothing worse.
func TestHostileFiles(t *testing.T) {
	s := Open(t.TempDir())
	if err := os.WriteFile(s.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Search(Query{}); err != nil || found != nil {
		t.Errorf("without a file: %v, %v", found, err)
	}
	if _, err := s.Search(Query{Kind: "rumour"}); !errors.Is(err, ErrEntry) {
		t.Errorf("a kind that there is not: %v", err)
	}
	nan, long := reading(0, math.NaN()), reading(0, 1)
	long.Name = strings.Repeat("x", 300)
	for _, e := range []Entry{{}, nan, long, {Kind: "rumour"}} {
		if err := s.Add(e); !errors.Is(err, ErrEntry) {
			t.Errorf("%v: %v", e, err)
		}
	}
	if err := os.WriteFile(s.Path, []byte(strings.Repeat("no database ", 5000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(reading(0, 1)); err == nil || !strings.Contains(err.Error(), s.Path) {
		t.Errorf("another file: %v", err)
	}
	// A whole one, some pages of which were overwritten.
	for seed := range 30 {
		s := Open(t.TempDir())
		var some []Entry
		for i := range 500 {
			some = append(some, reading(i, 1))
		}
		if err := s.Add(some...); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		for i := seed * 997 % len(data); i < len(data); i += 4099 {
			data[i] ^= 0x5a
		}
		if err := os.WriteFile(s.Path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = s.Search(Query{}) // no panic
	}
}

type brokenRecorder struct{ n int }

func (b *brokenRecorder) Record(api.Record) []api.Finding {
	b.n++
	return []api.Finding{{Reason: "RecordsStopped"}}
}

// TestKeeper: nothing is written in a cycle's time; what a process could not write is said,
// and written later; what it didn't write before it died comes from the records.
func TestKeeper(t *testing.T) {
	dir := t.TempDir()
	records, err := record.NewWriter(record.Config{Dir: dir, Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		records.Record(cycle(i, float64(i), "", i >= 20, "cloud"))
	}
	if err := records.Close(); err != nil {
		t.Fatal(err)
	}
	past, err := record.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(start)
	next := &brokenRecorder{}
	store := Open(filepath.Join(dir, "in", "between"))
	k := &Keeper{Store: store, Next: next, Clock: clock}
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		k.Run(ctx, past, Entry{Kind: KindRun, Time: start, About: About{Kind: "operator"}, Name: "operator", Params: map[string]string{"version": "test"}})
	})
	await := func(what string, is func() bool) {
		t.Helper()
		for range 2000 {
			if is() {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Fatalf("never: %s", what)
	}
	await("it waits", clock.HasWaiters)
	if is, err := store.Claimed(); err != nil || !is {
		t.Errorf("the file doesn't say that it has what records tell: %v", err)
	}
	if found, err := store.Search(Query{Kind: KindDecision}); err != nil || len(found) != 1 || found[0].Name != "crowd" {
		t.Errorf("of the records: %v, %v", lines(found), err)
	}
	notes := k.Record(cycle(100, 7, "", false, "edge"))
	if next.n != 1 || len(notes) != 1 {
		t.Errorf("the next recorder: %d, %v", next.n, notes)
	}
	clock.Step(between)
	await("it is written", func() bool {
		found, err := store.Search(Query{Text: "edge:"})
		return err == nil && len(found) == 1
	})
	// The folder can't be written.
	if err := os.RemoveAll(filepath.Dir(store.Path)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Dir(store.Path), []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.Record(cycle(200, 8, "", false, "cloud"))
	await("it waits", clock.HasWaiters)
	clock.Step(between)
	await("it is said", func() bool {
		notes := k.Record(cycle(201, 8, "", false, "cloud"))
		return len(notes) == 2 && notes[1].Reason == ReasonNotKept && strings.Contains(notes[1].Message, "goes on without")
	})
	if err := os.Remove(filepath.Dir(store.Path)); err != nil {
		t.Fatal(err)
	}
	stop()
	done.Wait()
	found, err := store.Search(Query{Kind: KindReading})
	if err != nil || len(found) != 1 || *found[0].Value != 8 {
		t.Errorf("what waited was not written at the end: %v, %v", lines(found), err)
	}
}
