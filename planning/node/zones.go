package node

import (
	"fmt"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// spreads tells whether a shape's copies must be spread over zones. How many go
// into each is decided before they are packed: level, which keeps any skew that is
// allowed and puts no more into a zone than must be. Each zone's copies are an item
// of its own, which runs in that zone.
func spreads(shape *api.PodShape) bool { return shape.MaxPerZone > 0 || shape.ZoneSkew > 0 }

// spreadItems are the items of a workload's copies by zone, and the zones; none
// where copies need not be spread, or zones aren't known.
func (v *view) spreadItems(shape *api.PodShape, owner api.Key, item int) (items []int, zones []string) {
	if !spreads(shape) {
		return nil, nil
	}
	for _, t := range v.items[item].types {
		zone := v.types[t].site.zone
		if zone == "" {
			return nil, nil
		}
		zones = append(zones, zone)
	}
	slices.Sort(zones)
	zones = slices.Compact(zones)
	for _, zone := range zones {
		items = append(items, v.item(shape, owner, owner, zone))
	}
	return items, zones
}

// levelled adds so many copies to those of each zone, the fewest first, at most to
// the shape's bound, and returns what is added and how many that leaves over.
func (v *view) levelled(w workload, have []int32, more int32) (add []int32, over int32) {
	most := v.items[w.item].shape.MaxPerZone
	add = make([]int32, len(have))
	for ; more > 0; more-- {
		least := -1
		for z, n := range have {
			if n += add[z]; (most == 0 || n < most) && (least < 0 || n < have[least]+add[least]) {
				least = z
			}
		}
		if least < 0 {
			return add, more
		}
		add[least]++
	}
	return add, 0
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
