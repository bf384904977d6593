package sizing

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

func TestKillsAreRemembered(t *testing.T) {
	in := input(known(func(u *api.ContainerUse) { u.OOMKilled, u.OOMLimit = now, 1024*mib }))
	_, m := plan(t, in, Memory{})
	in.Sizing.Containers = []api.ContainerUse{known(nil)}
	in.Time = now.Add(5 * 24 * time.Hour)
	in.Sizing.Containers[0].Until = in.Time
	if got, _ := plan(t, in, m); got.Containers[0].Requests.Memory != 1229*mib {
		t.Errorf("memory %s five days after a kill, want 1229Mi", got.Containers[0].Requests)
	}
	in.Time = now.Add(10 * 24 * time.Hour)
	in.Sizing.Containers[0].Until = in.Time
	if got, _ := plan(t, in, m); got.Containers[0].Requests.Memory != 460*mib {
		t.Errorf("memory %s ten days after a kill, want 460Mi", got.Containers[0].Requests)
	}
}

// TestKillsCountOnce: a container that was resized in place after a kill has another limit now,
// and its last end is that kill for as long as the pod lives.
func TestKillsCountOnce(t *testing.T) {
	const week = 7 * 24 * time.Hour
	type look struct {
		after   time.Duration // of the first look
		kill    time.Duration // the same; 0 for none
		limit   int64         // MiB, of the container as it is then
		resized bool          // since the kill
		want    int64         // MiB
	}
	for name, looks := range map[string][]look{
		"one kill, and the pod is resized": {
			{0, -1, 1024, false, 1229}, {time.Minute, -1, 1229, true, 1229}, {2 * time.Minute, -1, 1475, true, 1229}, {week, -1, 4096, true, 1229},
		},
		"resized, and nobody remembers the kill": {{0, -1, 1229, true, 1229}, {time.Minute, -1, 1229, true, 1229}},
		"killed again with more": {
			{0, -1, 1024, false, 1229}, {time.Minute, 30, 1229, false, 1475}, {2 * time.Minute, 30, 1475, true, 1475},
		},
		"killed again before its kubelet gives it more": {
			{0, -1, 1024, false, 1229}, {15 * time.Second, 10, 1229, false, 1229}, {30 * time.Second, 12, 1229, false, 1229}, {2 * time.Minute, 90, 1229, false, 1475},
		},
		"killed again with less": {
			{0, -1, 1024, false, 1229}, {time.Minute, 30, 900, false, 1229}, {2 * time.Minute, 30, 4096, true, 1229},
		},
		"killed at less than its author's limit": { // of 1024
			{0, -1, 400, false, 1024}, {time.Minute, -1, 1024, true, 1024}, {2 * time.Minute, 90, 1024, false, 1229},
		},
		"a second pod, killed before it was resized": {
			{0, -1, 1024, false, 1229}, {time.Minute, 2, 1229, true, 1229},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for i, l := range looks {
				u := known(func(u *api.ContainerUse) {
					u.OOMKilled, u.OOMLimit, u.OOMResized = now.Add(l.kill*time.Second), l.limit*mib, l.resized
					u.Limits = u.Requests
				})
				u.Until = now.Add(l.after)
				in := input(u)
				in.Time = u.Until
				var got api.SizingPlan
				got, m = plan(t, in, m)
				if is := got.Containers[0].Requests.Memory / mib; is != l.want {
					t.Fatalf("look %d: %d MiB, want %d: %s", i, is, l.want, got.Reason)
				}
			}
		})
	}
}

// TestLostMemory: who finds nothing but a published plan does not know why it is as it is. It was chosen after a
// new template, or after a kill, so only what has been seen since then lowers it; it is not chosen anew.
func TestLostMemory(t *testing.T) {
	guaranteed := func(u *api.ContainerUse) { u.Limits, u.MemoryKnown, u.MemoryTail = u.Requests, week, 450*mib }
	_, before := plan(t, input(known(guaranteed)), Memory{})
	for name, c := range map[string]struct {
		memory Memory
		change func(*api.ContainerUse) // at first
		want   int64                   // MiB
	}{
		"a new template": {before, func(u *api.ContainerUse) { u.Requests.Memory, u.Limits.Memory = 2048*mib, 2048*mib }, 2048},
		"a kill":         {Memory{}, func(u *api.ContainerUse) { u.OOMKilled, u.OOMLimit = now.Add(-time.Minute), 1024*mib }, 1229},
	} {
		t.Run(name, func(t *testing.T) {
			u := known(guaranteed)
			c.change(&u)
			in := input(u)
			in.Time = now.Add(time.Minute)
			first, _ := plan(t, in, c.memory)
			if is := first.Containers[0]; is.Limits.Memory != c.want*mib || !first.Since.Equal(in.Time) {
				t.Fatalf("limits %s, since %s: %s", is.Limits, first.Since, first.Reason)
			}
			u.OOMKilled, u.OOMLimit = time.Time{}, 0 // its pod is gone
			var m Memory
			for _, after := range []time.Duration{2 * time.Hour, 24 * time.Hour, 6 * 24 * time.Hour} {
				in = later(in, &u, after)
				in.Sizing.Planned, in.Sizing.PlannedSince = first.Containers, first.Since
				got, next := plan(t, in, m)
				if is := got.Containers[0]; is.Limits.Memory != c.want*mib {
					t.Errorf("after %s: limits %s: %s", after, is.Limits, got.Reason)
				}
				if after == 2*time.Hour && !got.Since.Equal(first.Since) {
					t.Errorf("chosen anew at %s", got.Since)
				}
				m = next
			}
			in = later(in, &u, 8*24*time.Hour)
			if got, _ := plan(t, in, m); got.Containers[0].Limits.Memory != 520*mib {
				t.Errorf("eight days later: limits %s: %s", got.Containers[0].Limits, got.Reason)
			}
		})
	}
}

// TestKillsWhileTakenBack: a kill raises memory while the whole plan is taken back, and usage that is less lowers none.
func TestKillsWhileTakenBack(t *testing.T) {
	u := known(func(u *api.ContainerUse) {
		u.Limits = api.Amounts{Memory: 1024 * mib}
		u.MemoryPeak = 100 * mib
	})
	in := input(u)
	ran := api.ContainerPlan{Name: "web", Requests: api.Amounts{MilliCPU: 500, Memory: 1024 * mib}, Limits: u.Limits, Template: u.Requests, TemplateLimits: u.Limits}
	in.Kept = []api.ContainerPlan{ran}
	m := Memory{Since: now.Add(-week), Looked: now, Acted: true, Containers: in.Kept}
	got, _ := plan(t, in, m)
	if is := got.Containers[0]; is.Limits.Memory != 1024*mib {
		t.Errorf("usage of 100 MiB: a limit of %d MiB, %s", is.Limits.Memory/mib, got.Reason)
	}
	in.Sizing.Containers[0].OOMKilled, in.Sizing.Containers[0].OOMLimit = now.Add(-time.Minute), 1024*mib
	got, _ = plan(t, in, m)
	if is := got.Containers[0]; is.Limits.Memory <= 1024*mib || !strings.Contains(is.Reason, "killed at") {
		t.Errorf("killed at 1024 MiB: a limit of %d MiB, %s", is.Limits.Memory/mib, got.Reason)
	}
}
