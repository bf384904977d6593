package planning_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/record"
)

// logged is a large world whose cycles are recorded.
type logged struct {
	*world
	log    *record.Writer
	cycles int
	seen   api.Snapshot // by a loop
	done   api.Cycle
}

// newLogged is a world of so many workloads, with noise or with a load that repeats
// itself to the last digit, after its keyframe and two more cycles.
func newLogged(b *testing.B, workloads int, noise bool) *logged {
	f, err := forecast.ByName(forecast.QuickName)
	if err != nil {
		b.Fatal(err)
	}
	w := large(b, workloads, 2*time.Hour, forecast.Guarded(f))
	if noise {
		for i, l := range w.loads {
			clean, of := l.demand, noisy(1, 0.05)
			l.demand = func(at time.Time) float64 {
				return float64(float32(clean(at) * of(at.Add(time.Duration(i)*time.Hour)))) // as package demand keeps it
			}
			for k := range l.Demand.Values {
				l.Demand.Values[k] = l.demand(l.Demand.Start.Add(time.Duration(k) * l.Demand.Step))
			}
		}
	}
	for range 2 {
		w.cycle()
	}
	log, err := record.NewWriter(record.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	return &logged{world: w, log: log}
}

func (w *logged) size() (n int64) {
	entries, err := os.ReadDir(w.log.Dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			w.t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// read is how long it takes to read all that was recorded.
func (w *logged) read() time.Duration {
	began, n := time.Now(), 0
	l, err := record.Open(os.DirFS(w.log.Dir))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, err := range l.Records(time.Time{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
	}
	if n != w.cycles {
		w.t.Fatalf("%d of %d records can be read", n, w.cycles)
	}
	return time.Since(began)
}

// record keeps a cycle that was planned from a snapshot and the present memory.
func (w *logged) record(s api.Snapshot, plan api.Plan) {
	w.cycles++
	notes := w.log.Record(api.Record{
		Snapshot: s, Memory: w.memory, Cycle: api.Cycle{ID: uint64(w.cycles), Time: s.Time, Policy: w.policy, Plan: plan, Findings: plan.Findings},
	})
	if len(notes) > 0 {
		w.t.Fatal(notes)
	}
}

// BenchmarkRecord is how many bytes a keyframe and each cycle after it take, and what
// recording a cycle takes relative to planning it. An iteration is 16 cycles of 15 s, a
// period of the load.
func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct {
		workloads int
		noise     bool
	}{{100, true}, {1000, false}, {1000, true}} {
		b.Run(fmt.Sprintf("workloads=%d,noise=%v", c.workloads, c.noise), func(b *testing.B) {
			w := newLogged(b, c.workloads, c.noise)
			var key, first int64
			var took, ratio []float64
			one := func() {
				s := w.snapshot()
				began := time.Now()
				plan, m := w.planner.Plan(s, w.policy, w.memory)
				planned := time.Since(began)
				began = time.Now()
				w.record(s, plan)
				recorded := time.Since(began)
				took, ratio = append(took, recorded.Seconds()), append(ratio, recorded.Seconds()/planned.Seconds())
				w.carry(plan, m)
			}
			one()
			key = w.size()
			one() // with a plan that is not brief before it
			first = w.size()
			cycles := w.cycles
			took, ratio = nil, nil
			for b.Loop() {
				for range 16 {
					one()
				}
			}
			b.ReportMetric(1e3*w.read().Seconds()/float64(w.cycles), "ms/read")
			b.ReportMetric(median(ratio), "of-planning")
			b.ReportMetric(1e3*median(took), "ms/record")
			b.ReportMetric(float64(key), "keyframe-B")
			each := float64(w.size()-first) / float64(w.cycles-cycles)
			b.ReportMetric(each, "B/record")
			// A segment has six times its keyframe's bytes, and 240 records or more.
			records := max(240, 6*float64(key)/each)
			b.ReportMetric((each+float64(key)/records)*7*24*3600/15/(1<<30), "GiB/week")
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
