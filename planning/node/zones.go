package node

import (
	"fmt"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// How many copies of a shape that must be spread go into each zone is decided before
// they are packed (placement.Level). Each zone's copies are an item of its own, which
// runs in that zone.

// spreadItems are the items of a workload's copies by zone, and the zones; none
// where copies need not be spread, or zones aren't known.
func (v *view) spreadItems(shape *api.PodShape, owner api.Key, item int, pools []string) (items []int, zones []string) {
	if !placement.Spreads(shape) {
		return nil, nil
	}
	for _, t := range v.items[item].types {
		zone := v.types[t].site.Zone
		if zone == "" {
			return nil, nil
		}
		zones = append(zones, zone)
	}
	slices.Sort(zones)
	zones = slices.Compact(zones)
	for _, zone := range zones {
		items = append(items, v.item(shape, owner, api.WorkloadRef(owner), zone, nil, pools))
	}
	return items, zones
}

// levelled adds so many copies to those of each zone, the fewest first, at most to
// the shape's bound, and returns what is added and how many that leaves over.
func (v *view) levelled(w workload, have []int32, more int32) (add []int32, over int32) {
	return placement.Level(have, more, v.items[w.item].shape.MaxPerZone)
}

// byZone counts the pods of a spread workload, the index of which is given, on
// nodes by zone.
func (w workload) byZone(index int, nodes []*resident) []int32 {
	have := make([]int32, len(w.zones))
	for _, r := range nodes {
		z := slices.Index(w.zones, r.node.Zone)
		if z < 0 || r.removed {
			continue
		}
		for _, t := range r.pods {
			if t.workload == index {
				have[z]++
			}
		}
	}
	return have
}

// whyNotSpread is why copies are left over by levelled.
func (v *view) whyNotSpread(w workload) string {
	return fmt.Sprintf("at most %d of it may run in each of %d zones", v.items[w.item].shape.MaxPerZone, len(w.zones))
}
