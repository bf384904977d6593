package planning

import (
	"time"

	"github.com/mash2-io/mash2/api"
)

// How old a memory may be for what is left of it to be of use.
const (
	// resumeReadings: readings of metrics.k8s.io tell a ramp only where they follow
	// one another.
	resumeReadings = time.Minute
	// resumeWorkloads: what workloads needed, how they were scaled and from when on
	// they were idle. The longest usual window of stabilisation is an hour.
	resumeWorkloads = time.Hour
	// resumeForecasts: trust, probation and weights of experts, of which the longest
	// history that is usually read is as old.
	resumeForecasts = 48 * time.Hour
)

// Resumed is a memory that was kept at a time, for a process that starts now: without
// what is too old to be of use. What is younger but beyond a window is forgotten by the
// next Plan as ever. A memory of the future is of a clock that was wrong, and of no use.
//
// What containers were chosen to request and why, kills and refusals, has times of its own, by
// which it is forgotten.
//
// A rollback lasts as long as it was to last, whoever was killed meanwhile, and a trial
// until it is decided. What strategies have learned of policies is of use at any age.
func (m Memory) Resumed(kept, now time.Time) Memory {
	back := m.Rollback
	if back != nil && (now.Before(back.At) || !now.Before(back.Until)) {
		back = nil
	}
	m.Rollback = back
	switch age := now.Sub(kept); {
	case age < -time.Minute:
		return Memory{Rollback: back, Trials: m.Trials, Strategies: learned(m.Strategies)}
	case age > resumeForecasts:
		return Memory{Workloads: sizes(m.Workloads), Rollback: back, Trials: m.Trials, Strategies: learned(m.Strategies)}
	case age > resumeWorkloads:
		return Memory{Workloads: sizes(m.Workloads), forecasts: m.forecasts, Rollback: back, Trials: m.Trials, Strategies: learned(m.Strategies)}
	case age > resumeReadings:
		workloads := make([]WorkloadMemory, len(m.Workloads))
		for i, w := range m.Workloads {
			w.Readings = nil
			workloads[i] = w
		}
		m.Workloads = workloads
		if age > askedFor {
			// Who led meanwhile may have asked for other sizes.
			pools := make([]PoolMemory, len(m.Pools))
			for i, p := range m.Pools {
				p.Sizes, p.Asked = nil, nil
				pools[i] = p
			}
			m.Pools = pools
		}
	}
	return m
}

// resumed returns w after a time in which nothing was planned, as the operator was away or could
// not see the cluster: nobody knows what was asked for then. After longer than
// Config.Stabilization nothing that was recommended tells of late, and what runs, on machines of
// a speed, counts as recommended, as at a start. For a cooldown the time doesn't count.
func (w WorkloadMemory) resumed(now time.Time, replicas int32, speed float64, c Config) WorkloadMemory {
	n := len(w.Recommendations)
	if n == 0 {
		return w
	}
	away := now.Sub(w.Recommendations[n-1].To)
	usual := 4 * c.CyclePeriod
	if away > usual && !w.IdleSince.IsZero() {
		w.IdleSince = w.IdleSince.Add(away - usual)
	}
	if away > max(c.Stabilization, usual) {
		w = w.recommend(now, float64(replicas)*speed)
	}
	return w
}

// sizes are what is left of workloads: those of their containers.
func sizes(workloads []WorkloadMemory) []WorkloadMemory {
	var out []WorkloadMemory
	for _, w := range workloads {
		if w.Sizing != nil {
			out = append(out, WorkloadMemory{Key: w.Key, Sizing: w.Sizing, SizesOnly: true})
		}
	}
	return out
}

// learned is what is left of strategies, with the spec of one that can't be used as it is in the
// cluster: whether rules were on is of no use by now.
func learned(strategies []api.StrategyState) []api.StrategyState {
	var out []api.StrategyState
	for _, s := range strategies {
		left := api.StrategyState{Key: s.Key, Learning: s.Learning}
		if s.Stays {
			left.Spec, left.Stays = s.Spec, true
		}
		if left.Learning != nil || left.Stays {
			out = append(out, left)
		}
	}
	return out
}
