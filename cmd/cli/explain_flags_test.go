package cli

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/record"
)

// lastCycle is of the records that recordsOf writes.
var lastCycle = time.Date(2026, 3, 9, 0, 30, 0, 0, time.UTC)

// recordsOf are two cycles a minute apart, with these workloads in the last one.
func recordsOf(t *testing.T, names ...api.Key) *record.Log {
	t.Helper()
	l, err := record.Open(os.DirFS(writtenRecords(t, names...)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// writtenRecords is the folder of recordsOf.
func writtenRecords(t *testing.T, names ...api.Key) string {
	t.Helper()
	dir := t.TempDir()
	w, err := record.NewWriter(record.Config{Dir: dir, Program: "test", KeyEvery: 7})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		c := api.Cycle{ID: uint64(i + 1), Time: lastCycle.Add(time.Duration(i-1) * time.Minute)}
		for _, k := range names {
			c.Plan.Workloads = append(c.Plan.Workloads, api.WorkloadPlan{Key: k})
		}
		if notes := w.Record(api.Record{Cycle: c, Snapshot: api.Snapshot{Time: c.Time}, Memory: planning.Memory{}}); len(notes) > 0 {
			t.Fatal(notes)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRecordedTime(t *testing.T) {
	l := recordsOf(t)
	for text, want := range map[string]string{
		"":                          "0001-01-01T00:00:00Z",
		"2026-03-08T12:00:00Z":      "2026-03-08T12:00:00Z",
		"2026-03-08T12:00:00+01:00": "2026-03-08T11:00:00Z",
		"00:20":                     "2026-03-09T00:20:00Z",
		"00:20:05":                  "2026-03-09T00:20:05Z",
		"00:30":                     "2026-03-09T00:30:00Z",
		"23:50":                     "2026-03-09T23:50:00Z", // the day before was not recorded so early
		"10m":                       "2026-03-09T00:20:00Z",
		"1h30m":                     "2026-03-08T23:00:00Z",
		"0s":                        "2026-03-09T00:30:00Z",
		"-10m":                      "",
		"noon":                      "",
		"25:00":                     "",
		"2026-03-08":                "",
	} {
		got, err := recordedTime(l, "at", text)
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), "--at must be a time such as")):
			t.Errorf("%q: %v, %v", text, got, err)
		case want != "" && (err != nil || got.UTC().Format(time.RFC3339) != want):
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}

// TestUntil: a time as it was printed, without its fraction, has the cycle that it was
// printed of; one with a fraction is what it says.
func TestUntil(t *testing.T) {
	l := recordsOf(t)
	for text, want := range map[string]time.Duration{"00:30": endOfSecond, "2026-03-09T00:30:00Z": endOfSecond, "2026-03-09T00:30:00.5Z": time.Second / 2} {
		if got, err := until(l, "at", text); err != nil || !got.Equal(lastCycle.Add(want)) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if got, err := until(l, "at", ""); err != nil || !got.IsZero() {
		t.Errorf("%v, %v", got, err)
	}
}

// TestTimesOfReplay: replay takes the times that explain takes.
func TestTimesOfReplay(t *testing.T) {
	dir := writtenRecords(t)
	for text, known := range map[string]bool{"": true, "00:20": true, "10m": true, "2026-03-08T12:00:00Z": true, "noon": false} {
		for name, o := range map[string]replayFlags{"from": {records: dir, from: text}, "to": {records: dir, to: text}} {
			_, _, err := o.run(t.Context(), io.Discard) // these records have no planners to go on with
			if refused := err != nil && strings.Contains(err.Error(), "--"+name+" must be a time such as"); refused == known {
				t.Errorf("--%s %q: %v", name, text, err)
			}
		}
	}
}

func TestOnlyWorkload(t *testing.T) {
	key := func(name string) api.Key { return api.Key{Namespace: "a", Name: name} }
	for want, l := range map[string]*record.Log{"a/web": recordsOf(t, key("web")), "": recordsOf(t, key("web"), key("db"))} {
		if got, err := onlyWorkload(l); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

func TestWorkloadFlag(t *testing.T) {
	key := func(ns, name string) api.Key { return api.Key{Namespace: ns, Name: name} }
	l := recordsOf(t, key("a", "web"), key("b", "web"), key("b", "db"))
	for name, want := range map[string]string{"": "", "b/none": "b/none", "db": "b/db", "none": "none", "web": "a/web, b/web"} {
		got, err := workloadFlag(l, name)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) || (err != nil) != (name == "web") {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestPodsText(t *testing.T) {
	var b strings.Builder
	podsText(&b, nil)
	podsText(&b, []record.PodsOn{{Pool: "new", Pods: 22, Ready: 20}, {Pool: "old", Pods: 18, Ready: 18, Leaving: 18}, {Pods: 1}})
	want := "Pods now: 41, 38 Ready: 22 on new, 18 on old (18 on nodes that are being left), 1 on no pool yet\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
