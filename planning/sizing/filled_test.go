package sizing

import (
	"testing"

	"github.com/mash2-io/mash2/api"
)

// TestFilled: files that the kernel keeps are no reason to request more than the author's limit
// allows; what is no file is, and so is a kill.
func TestFilled(t *testing.T) {
	for name, c := range map[string]struct {
		limit, peak, resident, killed int64 // MiB
		limits                        api.SizingLimits
		want, wantLimit               int64
	}{
		"files up to the limit":                   {limit: 1024, peak: 1000, resident: 300, want: 1024, wantLimit: 1024},
		"no files":                                {limit: 1024, peak: 1000, resident: 990, want: 1287, wantLimit: 1287},
		"nobody knows":                            {limit: 1024, peak: 1000, want: 1300, wantLimit: 1300},
		"killed nevertheless":                     {limit: 1024, peak: 1000, resident: 300, killed: 1024, want: 1229, wantLimit: 1229},
		"files below a limit that stays":          {limit: 2048, peak: 1000, resident: 300, want: 1150, wantLimit: 2048},
		"files up to a limit that stays":          {limit: 2048, peak: 2000, resident: 300, want: 1950, wantLimit: 2048},
		"files beyond a request in proportion":    {limit: 2048, peak: 2000, resident: 300, limits: api.LimitsRatio, want: 1024, wantLimit: 2048},
		"more than a request in proportion":       {limit: 2048, peak: 2000, resident: 900, limits: api.LimitsRatio, want: 1170, wantLimit: 2340},
		"without a limit what is used is counted": {peak: 1000, resident: 300, want: 1150},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(known(func(u *api.ContainerUse) {
				u.Limits = api.Amounts{Memory: c.limit * mib}
				if c.limit == 1024 {
					u.Limits = u.Requests
				}
				u.MemoryPeak, u.MemoryResident = c.peak*mib, c.resident*mib
				if c.killed > 0 {
					u.OOMKilled, u.OOMLimit = now, c.killed*mib
				}
			}))
			in.Sizing.Limits = c.limits
			got, _ := plan(t, in, Memory{})
			is := got.Containers[0]
			if requests, limits := is.Requests.Memory/mib, is.Limits.Memory/mib; requests != c.want || limits != c.wantLimit {
				t.Errorf("%d MiB, limit %d, want %d, %d: %s", requests, limits, c.want, c.wantLimit, got.Reason)
			}
		})
	}
}
