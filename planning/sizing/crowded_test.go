package sizing

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestCrowdedNodes: where a node of its pods was short of memory, memory is what its author wrote, at once
// and for eight days, also for the next program; then it is tried again. CPU stays small, and what is more
// than written stays, too.
func TestCrowdedNodes(t *testing.T) {
	u := known(func(u *api.ContainerUse) { u.Limits, u.MemoryKnown, u.MemoryTail = u.Requests, week, 450*mib })
	in := input(u)
	first, m := plan(t, in, Memory{})
	small := first.Containers[0]
	if small.Limits.Memory >= 1024*mib {
		t.Fatalf("a limit of %s was not lowered", small.Limits)
	}
	begin := in.Time
	at := func(after time.Duration) {
		in.Time = begin.Add(after)
		u.Until = in.Time
		in.Demand = flat(200)
		in.Demand.Start = in.Demand.Start.Add(after)
		in.Sizing.Containers = []api.ContainerUse{u}
	}
	asWritten := func(what string, got api.SizingPlan, want bool) {
		t.Helper()
		is := got.Containers[0]
		if (is.Requests.Memory == 1024*mib && is.Limits.Memory == 1024*mib) != want || got.MemoryAsWrittenUntil.IsZero() == want {
			t.Errorf("%s: requests %s, limits %s, until %s: %s", what, is.Requests, is.Limits, got.MemoryAsWrittenUntil, got.Reason)
		}
		if is.Requests.MilliCPU != small.Requests.MilliCPU {
			t.Errorf("%s: CPU is %s", what, is.Requests)
		}
	}
	at(time.Minute)
	in.Sizing.Crowded = "node-7"
	got, m := plan(t, in, m)
	asWritten("short of memory", got, true)
	if !strings.Contains(got.Reason, "node node-7 was short of it") {
		t.Errorf("says %q", got.Reason)
	}
	in.Sizing.Crowded = ""
	for _, after := range []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
		at(after)
		got, m = plan(t, in, m)
		asWritten(after.String(), got, true)
	}
	next := in
	next.Sizing.Planned, next.Sizing.MemoryAsWrittenUntil = got.Containers, got.MemoryAsWrittenUntil
	got, _ = plan(t, next, Memory{})
	asWritten("the next program", got, true)
	at(8*24*time.Hour + 2*time.Minute)
	got, _ = plan(t, in, m)
	asWritten("eight days later", got, false)

	// It was killed with more than its author wrote: that stays.
	u.OOMKilled, u.OOMLimit = begin.Add(2*time.Minute), 1024*mib
	at(3 * time.Minute)
	in.Sizing.Crowded = "node-7"
	if got, _ = plan(t, in, m); got.Containers[0].Requests.Memory != 1229*mib {
		t.Errorf("killed with 1024Mi, and requests %s", got.Containers[0].Requests)
	}
}
