package sensing

import (
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// shortages is since when pools lack nodes that they have had: one that is replaced, as a
// spot machine that was taken away, is none that the newest resize still waits for.
type shortages struct {
	// resized is when a pool was last resized of which all nodes have been Ready since.
	resized map[string]time.Time
	// since is when the first of them was seen to be missing.
	since map[string]time.Time
}

func newShortages() shortages {
	return shortages{resized: map[string]time.Time{}, since: map[string]time.Time{}}
}

// date has pools that have had all their nodes since the newest resize count from when one
// was missed first. An operator that starts while one is missing doesn't know that.
func (s shortages) date(now time.Time, pools []api.Pool, nodes []*nodeRecord) {
	for i := range pools {
		p, ready := &pools[i], int32(0)
		for _, n := range nodes {
			if n.node.Pool == p.Name && n.node.Ready && !slices.Contains(p.Deleting, n.node.Name) {
				ready++
			}
		}
		resized, complete := s.resized[p.Name]
		switch {
		case ready >= p.Nodes():
			s.resized[p.Name] = p.ResizedAt
			delete(s.since, p.Name)
		case !complete || !resized.Equal(p.ResizedAt):
			delete(s.resized, p.Name)
			delete(s.since, p.Name)
		case !p.ResizedAt.IsZero():
			if s.since[p.Name].IsZero() {
				s.since[p.Name] = now
			}
			p.ResizedAt = s.since[p.Name]
		}
	}
}
