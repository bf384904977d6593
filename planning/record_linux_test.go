package planning_test

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// ports of a loop in which everything but deciding and recording takes no time.
type ports struct{ *logged }

func (p ports) Observe(context.Context) (api.Snapshot, error) { return p.seen, nil }
func (p ports) Apply(context.Context, api.Action) error       { return nil }
func (p ports) Report(_ context.Context, c api.Cycle)         { p.done = c }

func (p ports) Spec(context.Context) (api.PolicySpec, []api.Finding, error) {
	return api.PolicySpec{Policies: map[string]api.Policy{p.policy.Name: p.policy}, Default: p.policy.Name}, nil, nil
}

// Plan implements mash2.Planner and keeps the memory.
func (p ports) Plan(s api.Snapshot, policy api.Policy, m planning.Memory) (api.Plan, planning.Memory) {
	plan, after := p.planner.Plan(s, policy, m)
	p.memory = after
	return plan, after
}

// BenchmarkRecordCost is what recording adds to a cycle: two loops take turns with the
// same snapshots, one of them records. Neither reads metrics nor writes to a cluster,
// which take a real cycle longer. What is measured is CPU time: that of recording
// itself, and what more a cycle takes, collecting garbage included. An iteration is 16 cycles, a period of the load.
func BenchmarkRecordCost(b *testing.B) {
	for _, workloads := range []int{100, 1000} {
		b.Run(fmt.Sprintf("workloads=%d", workloads), func(b *testing.B) {
			w := newLogged(b, workloads, true)
			p := ports{w}
			loop := func(r mash2.Recorder) *mash2.Loop {
				return &mash2.Loop{
					Config:   mash2.Config{Period: w.period, ActionTimeout: time.Second},
					Observer: p, Policies: p, Planner: p, Actuator: p, Reporter: p, Recorder: r,
				}
			}
			steps := &timed{Recorder: w.log, b: b}
			loops := []*mash2.Loop{loop(nil), loop(steps)}
			var took [2]time.Duration
			cycle := 0
			one := func() {
				cycle++
				w.seen = w.snapshot()
				for k := range loops {
					k = (k + cycle) % 2
					runtime.GC() // each pays for its own garbage
					began := cpu(b, syscall.RUSAGE_SELF)
					c, err := loops[k].RunOnce(b.Context())
					took[k] += cpu(b, syscall.RUSAGE_SELF) - began
					if err != nil || len(c.Plan.Workloads) != workloads {
						b.Fatal(err, c.Findings)
					}
				}
				w.carry(w.done.Plan, w.memory)
			}
			one()
			one()
			took, steps.took = [2]time.Duration{}, 0
			for b.Loop() {
				for range 16 {
					one()
				}
			}
			cycles := float64(cycle - 2)
			b.ReportMetric(1e3*took[0].Seconds()/cycles, "ms/cycle")
			b.ReportMetric(1e3*steps.took.Seconds()/cycles, "ms/record")
			b.ReportMetric(100*steps.took.Seconds()/took[0].Seconds(), "%of-cycle")
			b.ReportMetric(100*(took[1]-took[0]).Seconds()/took[0].Seconds(), "%more-cpu")
		})
	}
}

// timed is a Recorder that notes the CPU time that it takes.
type timed struct {
	mash2.Recorder
	b    *testing.B
	took time.Duration
}

func (t *timed) Record(r api.Record) []api.Finding {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := cpu(t.b, syscall.RUSAGE_THREAD)
	notes := t.Recorder.Record(r)
	t.took += cpu(t.b, syscall.RUSAGE_THREAD) - began
	return notes
}

// cpu is the time that this process or thread has computed.
func cpu(b *testing.B, who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
