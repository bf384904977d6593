package sizing

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// later is what is known some time after now, where usage and demand go on as they are.
func later(in Input, u *api.ContainerUse, after time.Duration) Input {
	in.Time, u.Until = now.Add(after), now.Add(after)
	in.Demand = flat(200)
	in.Demand.Start = in.Demand.Start.Add(after)
	in.Sizing.Containers = []api.ContainerUse{*u}
	return in
}

// TestCPULimitTooLow: once a pod with a lower CPU limit did not become Ready, CPU is what its
// author wrote, at once and for eight days, also for the next program; then it is tried again.
// Another template is another program.
func TestCPULimitTooLow(t *testing.T) {
	u := known(func(u *api.ContainerUse) { u.Limits, u.MemoryKnown, u.MemoryTail = u.Requests, week, 450*mib })
	in := input(u)
	first, m := plan(t, in, Memory{})
	if first.Containers[0].Limits.MilliCPU >= 1000 {
		t.Fatalf("a limit of %s was not lowered", first.Containers[0].Limits)
	}
	m.Acted = true
	at := func(after time.Duration) { in = later(in, &u, after) }
	asWritten := func(what string, got api.SizingPlan, want bool) {
		t.Helper()
		is := got.Containers[0]
		if (is.Requests.MilliCPU == 1000 && is.Limits.MilliCPU == 1000) != want || got.CPUAsWrittenUntil.IsZero() == want {
			t.Errorf("%s: requests %s, limits %s, until %s: %s", what, is.Requests, is.Limits, got.CPUAsWrittenUntil, got.Reason)
		}
		if is.Requests.Memory != 520*mib {
			t.Errorf("%s: memory is %s", what, is.Requests)
		}
	}
	at(time.Minute)
	in.Sizing.Slow = "container web of pod web-1 is not Ready"
	got, m := plan(t, in, m)
	asWritten("slow", got, true)
	if !strings.Contains(got.Reason, "container web of pod web-1 is not Ready") {
		t.Errorf("says %q", got.Reason)
	}
	in.Sizing.Slow = ""
	for _, after := range []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
		at(after)
		got, m = plan(t, in, m)
		asWritten(after.String(), got, true)
	}
	in.Sizing.Planned, in.Sizing.CPUAsWrittenUntil = got.Containers, got.CPUAsWrittenUntil
	next, _ := plan(t, in, Memory{})
	asWritten("the next program", next, true)

	other := in
	changed := u
	changed.Requests.MilliCPU, changed.Limits.MilliCPU = 800, 800
	other.Sizing.Containers = []api.ContainerUse{changed}
	if got, _ := plan(t, other, m); !got.CPUAsWrittenUntil.IsZero() {
		t.Errorf("another template: CPU as written until %s", got.CPUAsWrittenUntil)
	}
	at(8*24*time.Hour + 2*time.Minute)
	got, _ = plan(t, in, m)
	asWritten("eight days later", got, false)
}

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
	at := func(after time.Duration) { in = later(in, &u, after) }
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
	u.OOMKilled, u.OOMLimit = now.Add(2*time.Minute), 1024*mib
	at(3 * time.Minute)
	in.Sizing.Crowded = "node-7"
	if got, _ = plan(t, in, m); got.Containers[0].Requests.Memory != 1229*mib {
		t.Errorf("killed with 1024Mi, and requests %s", got.Containers[0].Requests)
	}
}
