package sizing

import (
	"slices"
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

// TestNotChosenAnyMore: a resource that is taken out of mash2's hands is what its author wrote, whatever was
// chosen before; not while sizes are held, as somebody else may set them.
func TestNotChosenAnyMore(t *testing.T) {
	in := input(known(func(u *api.ContainerUse) { u.Limits, u.MemoryKnown, u.MemoryTail = u.Requests, week, 450*mib }))
	first, m := plan(t, in, Memory{})
	small, written := first.Containers[0].Limits, in.Sizing.Containers[0].Limits
	if small.MilliCPU >= written.MilliCPU || small.Memory >= written.Memory {
		t.Fatalf("limits of %s were not lowered", small)
	}
	in.Time = now.Add(time.Minute)
	for name, c := range map[string]struct {
		change func(*Input, *api.ContainerUse)
		want   api.Amounts
	}{
		"memory, and it is killed": {func(in *Input, u *api.ContainerUse) {
			u.FixedMemory, u.OOMKilled, u.OOMLimit = true, in.Time, small.Memory
		}, api.Amounts{MilliCPU: small.MilliCPU, Memory: written.Memory}},
		"CPU": {func(_ *Input, u *api.ContainerUse) { u.FixedCPU = true }, api.Amounts{MilliCPU: written.MilliCPU, Memory: small.Memory}},
		"CPU of all, and demand is high": {func(in *Input, _ *api.ContainerUse) {
			in.FixedCPU, in.Demand = "CPU requests stay: replicas follow triggers", flat(20_000)
		}, api.Amounts{MilliCPU: written.MilliCPU, Memory: small.Memory}},
		"CPU, while the plan is taken back to when it was chosen": {func(in *Input, u *api.ContainerUse) {
			u.FixedCPU, in.Kept = true, []api.ContainerPlan{{Name: u.Name, Requests: api.Amounts{MilliCPU: 3000}, Template: u.Requests}}
		}, api.Amounts{MilliCPU: written.MilliCPU, Memory: small.Memory}},
		"CPU, in a hold": {func(in *Input, u *api.ContainerUse) {
			u.FixedCPU, in.Sizing.Hold = true, "a VerticalPodAutoscaler sets them"
		}, small},
	} {
		t.Run(name, func(t *testing.T) {
			in := in
			in.Sizing.Containers = slices.Clone(in.Sizing.Containers)
			c.change(&in, &in.Sizing.Containers[0])
			got, _ := plan(t, in, m)
			if is := got.Containers[0]; is.Requests != c.want || is.Limits != c.want {
				t.Errorf("requests %s, limits %s, want %s: %s", is.Requests, is.Limits, c.want, got.Reason)
			}
			if changed := !got.Since.Equal(now); changed != (c.want != small) {
				t.Errorf("chosen at %s", got.Since)
			}
		})
	}
}

// TestLimitsWhileTakenBack: an author who changes limits alone is heard while the plan is taken back.
func TestLimitsWhileTakenBack(t *testing.T) {
	in := input(known(func(u *api.ContainerUse) { u.Limits = api.Amounts{MilliCPU: 2000, Memory: 2048 * mib} }))
	_, m := plan(t, in, Memory{})
	in.Time = now.Add(time.Minute)
	in.Kept = in.Sizing.Authors("then")
	_, m = plan(t, in, m)
	in.Time = now.Add(2 * time.Minute)
	in.Sizing.Containers[0].Limits = api.Amounts{Memory: 8192 * mib}
	if got, _ := plan(t, in, m); got.Containers[0].Limits != in.Sizing.Containers[0].Limits {
		t.Errorf("limits %s, its author wrote %s", got.Containers[0].Limits, in.Sizing.Containers[0].Limits)
	}
}
