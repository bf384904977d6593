package planning_test

import (
	"os"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/record"
)

// BenchmarkRecord is what recording a cycle of a thousand workloads takes, relative to
// planning it, and how many bytes: of a keyframe, and of each cycle after it.
func BenchmarkRecord(b *testing.B) {
	f, err := forecast.ByName(forecast.QuickName)
	if err != nil {
		b.Fatal(err)
	}
	w := large(b, 1000, 2*time.Hour, forecast.Guarded(f))
	for range 2 {
		w.cycle()
	}
	log, err := record.NewWriter(record.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	size := func() (n int64) {
		entries, err := os.ReadDir(log.Dir)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				b.Fatal(err)
			}
			n += info.Size()
		}
		return n
	}
	var planning, recording time.Duration
	var key int64
	cycles := 0
	one := func(timed bool) {
		cycles++
		w.cycle()
		s := w.snapshot()
		began := time.Now()
		plan, _ := w.planner.Plan(s, w.policy, w.memory)
		planned := time.Since(began)
		began = time.Now()
		notes := log.Record(api.Record{
			Snapshot: s, Memory: w.memory, Cycle: api.Cycle{ID: uint64(cycles), Time: s.Time, Policy: w.policy, Plan: plan, Findings: plan.Findings},
		})
		if len(notes) > 0 {
			b.Fatal(notes)
		}
		if timed {
			planning, recording = planning+planned, recording+time.Since(began)
		}
	}
	one(false)
	key = size()
	for b.Loop() {
		one(true)
	}
	b.ReportMetric(float64(recording)/float64(planning), "of-planning")
	b.ReportMetric(float64(recording.Milliseconds())/float64(cycles-1), "ms/record")
	b.ReportMetric(float64(key), "keyframe-B")
	b.ReportMetric(float64(size()-key)/float64(cycles-1), "B/record")
}
