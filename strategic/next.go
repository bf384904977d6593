package strategic

import (
	"time"

	"github.com/mash2-io/mash2/api"
)

// Next returns the schedule entry that fires next after a time, and when. It reports
// false where a policy is set by hand, which has precedence, and where no entry that
// names a known policy fires again. A signal that is on then has precedence too.
func Next(spec api.PolicySpec, now time.Time) (entry api.ScheduleEntry, at time.Time, ok bool) {
	if _, manual := spec.Policies[spec.Manual]; manual {
		return entry, at, false
	}
	for _, e := range spec.Schedule {
		if _, known := spec.Policies[e.Policy]; !known {
			continue
		}
		schedule, zone, err := parse(e)
		if err != nil {
			continue // Validate refuses it
		}
		fires := schedule.Next(now.In(zone))
		// Of entries that fire together the later one in the list wins, as in Decide.
		if !fires.IsZero() && (!ok || !fires.After(at)) {
			entry, at, ok = e, fires, true
		}
	}
	return entry, at, ok
}
