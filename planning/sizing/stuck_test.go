package sizing

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestStuck: where a kubelet does not lower a memory limit for as long as patience is, memory is
// what it was for eight days, so that CPU can change.
func TestStuck(t *testing.T) {
	const day, small = 24 * time.Hour, 520 // a peak of 400 MiB and 30 %
	type look struct {
		after time.Duration // the first one
		stuck int64         // MiB
		want  int64         // the same
	}
	guaranteed := func(u *api.ContainerUse) { u.Limits = u.Requests }
	for name, c := range map[string]struct {
		change func(*api.ContainerUse)
		limits api.SizingLimits
		looks  []look
	}{
		"for good": {guaranteed, api.LimitsKeep, []look{
			{0, 0, small}, {time.Minute, 1024, small}, {2 * time.Minute, 1024, small}, {3 * time.Minute, 1024, 1024}, {4 * time.Minute, 0, 1024}, {7 * day, 0, 1024}, {9 * day, 0, small},
		}},
		"for a moment": {guaranteed, api.LimitsKeep, []look{
			{0, 0, small}, {time.Minute, 1024, small}, {2 * time.Minute, 0, small}, {3 * time.Minute, 1024, small}, {4 * time.Minute, 0, small}, {9 * time.Minute, 0, small},
		}},
		"at less than it was":    {guaranteed, api.LimitsKeep, []look{{0, 700, small}, {2 * time.Minute, 700, 700}, {3 * time.Minute, 0, 700}}},
		"at more of another pod": {guaranteed, api.LimitsKeep, []look{{0, 700, small}, {2 * time.Minute, 700, 700}, {3 * time.Minute, 800, 800}}},
		"in proportion": {func(u *api.ContainerUse) { u.Limits.Memory = 2 * u.Requests.Memory }, api.LimitsRatio, []look{
			{0, 2048, small}, {2 * time.Minute, 2048, 1024},
		}},
		"of another's limit, which stays": {func(u *api.ContainerUse) { u.Limits.Memory = 2 * u.Requests.Memory }, api.LimitsKeep, []look{{0, 2048, 460}, {2 * time.Minute, 2048, 460}}},
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for i, l := range c.looks {
				u := known(c.change)
				u.Until, u.MemoryStuck, u.MemoryKnown, u.MemoryTail = now.Add(l.after), l.stuck*mib, 8*day, u.MemoryPeak
				in := input(u)
				in.Time, in.Sizing.Limits = u.Until, c.limits
				var got api.SizingPlan
				got, m = plan(t, in, m)
				if is := got.Containers[0].Requests.Memory / mib; is != l.want {
					t.Fatalf("look %d: %d MiB, want %d: %s", i, is, l.want, got.Reason)
				}
			}
		})
	}
}
