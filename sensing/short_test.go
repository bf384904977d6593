package sensing

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestShortages: since when nodes of a pool are waited for, as one look after the other tells.
func TestShortages(t *testing.T) {
	const size = 3
	long, lately := epoch.Add(-72*time.Hour), epoch.Add(-time.Minute)
	at := func(look int) time.Time { return epoch.Add(time.Duration(look) * time.Minute) }
	type look struct {
		ready     int
		resizedAt time.Time
		deleting  []string
		want      time.Time
	}
	for name, looks := range map[string][]look{
		"a node is replaced":               {{3, long, nil, long}, {2, long, nil, at(1)}, {2, long, nil, at(1)}, {3, long, nil, long}, {1, long, nil, at(4)}},
		"nodes never became Ready":         {{2, long, nil, long}, {2, long, nil, long}},
		"the pool is resized meanwhile":    {{3, long, nil, long}, {2, long, nil, at(1)}, {2, lately, nil, lately}, {2, lately, nil, lately}},
		"a node that goes is missing":      {{3, long, nil, long}, {3, long, []string{"node-0"}, at(1)}},
		"no provider tells of resizes":     {{3, time.Time{}, nil, time.Time{}}, {2, time.Time{}, nil, time.Time{}}},
		"a resize is told before its size": {{3, lately, nil, lately}, {2, lately, nil, at(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShortages()
			for i, l := range looks {
				var nodes []*nodeRecord
				for j := range size {
					n := node("node-"+string(rune('0'+j)), "e2")
					if j >= l.ready {
						n.Status.Conditions = nil
					}
					nodes = append(nodes, nodeRecordOf(n, api.LabelNodePool))
				}
				pools := []api.Pool{{Name: "e2", Zones: []string{"a"}, Sizes: []int32{size}, ResizedAt: l.resizedAt, Deleting: l.deleting}}
				if s.date(at(i), pools, nodes); !pools[0].ResizedAt.Equal(l.want) {
					t.Errorf("look %d: %v, want %v", i, pools[0].ResizedAt, l.want)
				}
			}
		})
	}
}
