package planning

import (
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// Kept is what of a Memory history doesn't give back, without what makes a Memory large:
// some hundred bytes a workload, to be kept where there is little room.
type Kept struct {
	// Memory without forecasts and packings.
	Memory Memory
	// Trust in forecasts, in order of key.
	Trust []KeptTrust
}

// KeptTrust is what forecasts of a series are worth.
type KeptTrust struct {
	Key   api.Key
	Trust forecast.Trust
}

// Kept returns what must be kept of m for the next process.
func (m Memory) Kept() Kept {
	var k Kept
	for key, s := range m.forecasts {
		k.Trust = append(k.Trust, KeptTrust{key, s.Trust()})
	}
	slices.SortFunc(k.Trust, func(a, b KeptTrust) int {
		if c := strings.Compare(a.Key.Namespace, b.Key.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Key.Name, b.Key.Name)
	})
	m.forecasts, m.packings = nil, nil
	m.Workloads = slices.Clone(m.Workloads)
	for i := range m.Workloads {
		m.Workloads[i].keepLittle()
	}
	k.Memory = m
	return k
}

// keptPast is how many states of a workload are kept.
const keptPast = 8

// keepLittle leaves out readings of SLOs, of which there are new ones in minutes, and most of
// what ran long ago.
func (w *WorkloadMemory) keepLittle() {
	w.Past = thinned(w.Past, keptPast)
	w.SLOs = slices.Clone(w.SLOs)
	for i := range w.SLOs {
		w.SLOs[i].Counts = nil
	}
}

// thinned are so many states at most. The oldest two of the same pool and sizes become one with
// the replicas of the larger, so that nobody is taken back to fewer; where there are none the
// oldest goes.
func thinned(past []PastScale, most int) []PastScale {
	past = slices.Clone(past)
	for len(past) > most {
		i := 0
		for i+1 < len(past) && (past[i].Pool != past[i+1].Pool || !slices.Equal(past[i].Containers, past[i+1].Containers)) {
			i++
		}
		if i+1 == len(past) {
			past = past[1:]
			continue
		}
		past[i].Replicas = max(past[i].Replicas, past[i+1].Replicas)
		past = slices.Delete(past, i+1, i+2)
	}
	return past
}

// Restored is a memory of what was kept. Forecasts begin with a refit; trust that no
// forecaster ever came to is left out.
func (k Kept) Restored() Memory {
	m := k.Memory
	m.forecasts = make(map[api.Key]forecast.State, len(k.Trust))
	for _, t := range k.Trust {
		if s, err := forecast.NewState(t.Key.String()).WithTrust(t.Trust); err == nil {
			m.forecasts[t.Key] = s
		}
	}
	return m
}
