package node

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mash2-io/mash2/planning/node/packing"
)

// classes is a problem with what is alike put together: items with the same
// requests that may run on the same types, and types that differ in nothing but
// their name. Fewer rows and columns, and no symmetry between equals.
type classes struct {
	compiled
	packing.Problem
	items [][]int // members of each item class
	types [][]int // members of each type class
}

// classes of the items, which must be placed whole: none is of no type.
func (c compiled) classes(unplaceable []int32) classes {
	out := classes{compiled: c}
	zoned := slices.ContainsFunc(c.Items, func(it Item) bool { return it.MaxPerZone > 0 })
	zones := map[string]int{}
	byKey := map[string]int{}
	typeClass := make([]int, len(c.Types))
	for t, typ := range c.Types {
		zone := -1
		if zoned && typ.Zone != "" {
			if _, ok := zones[typ.Zone]; !ok {
				zones[typ.Zone] = len(zones)
			}
			zone = zones[typ.Zone]
		}
		var key strings.Builder
		fmt.Fprint(&key, c.capacity[t], c.price(t), zone)
		for i := range c.Items {
			if c.allowed[i][t] {
				fmt.Fprint(&key, " ", i)
			}
		}
		n, ok := byKey[key.String()]
		if !ok {
			n = len(out.types)
			byKey[key.String()] = n
			out.types = append(out.types, nil)
			out.Bins = append(out.Bins, packing.Bin{Capacity: c.capacity[t], Cost: c.price(t), Zone: zone})
		}
		switch b := &out.Bins[n]; {
		case typ.Max == Unlimited || b.Max == packing.Unlimited:
			b.Max = packing.Unlimited
		default:
			b.Max += typ.Max
		}
		out.types[n] = append(out.types[n], t)
		typeClass[t] = n
	}
	clear(byKey)
	var alike []byte
	for i, it := range c.Items {
		if it.Count == 0 || unplaceable[i] > 0 {
			continue
		}
		bins := make([]bool, len(out.Bins))
		for t, ok := range c.allowed[i] {
			bins[typeClass[t]] = bins[typeClass[t]] || ok
		}
		n, merged := -1, false
		if it.MaxPerNode == 0 && it.MaxPerZone == 0 {
			alike = alike[:0]
			for _, want := range c.requests[i] {
				alike = binary.LittleEndian.AppendUint64(alike, uint64(want))
			}
			for _, ok := range bins {
				alike = strconv.AppendBool(alike, ok)
			}
			if n, merged = byKey[string(alike)]; !merged {
				byKey[string(alike)] = len(out.items)
			}
		}
		if !merged {
			n = len(out.items)
			out.items = append(out.items, nil)
			out.Problem.Items = append(out.Problem.Items, packing.Item{
				Size: c.requests[i], PerBin: it.MaxPerNode, PerZone: it.MaxPerZone, Bins: bins,
			})
		}
		out.Problem.Items[n].Count += it.Count
		out.items[n] = append(out.items[n], i)
	}
	return out
}

// members turns a packing of classes into one of their members: types of one
// class take turns, so that zones stay level, and items go in their order. It does
// not fill in for a packing that holds more than there is: Check finds that.
func (c classes) members(k *packing.Packing) (nodes []open, unplaced []int32) {
	opened := make([]int32, len(c.Types))
	left := make([]int32, len(c.compiled.Items))
	for i, it := range c.compiled.Items {
		left[i] = it.Count
	}
	at := make([]int, len(c.items)) // member in hand
	for _, l := range k.Loads {
		for range l.Bins {
			typ := -1
			for _, t := range c.types[l.Bin] {
				if !c.full(t, opened) && (typ < 0 || opened[t] < opened[typ]) {
					typ = t
				}
			}
			opened[typ]++
			n := open{typ: typ}
			for _, s := range l.Shares {
				for want := s.Count; want > 0; {
					i, last := c.items[s.Item][at[s.Item]], at[s.Item]+1 == len(c.items[s.Item])
					got := min(want, left[i])
					if last {
						got = want
					}
					if left[i] -= got; left[i] <= 0 && !last {
						at[s.Item]++
					}
					if want -= got; got > 0 {
						n.pods = append(n.pods, Share{Item: i, Count: got})
					}
				}
			}
			nodes = append(nodes, n)
		}
	}
	return nodes, left
}

// known turns patterns by name into those of the classes: those that were used so
// often, the rest, and what items are worth; nil when that is not known of any. Two
// names may be of one class by now: its shares are in no order.
func (c classes) known(from Patterns) (used []packing.Load, rest []packing.Pattern, worth []float64) {
	if len(from.list) == 0 {
		return nil, nil, nil
	}
	items, types := map[string]int{}, map[string]int{}
	worth = make([]float64, len(c.items))
	for n, members := range c.items {
		for _, i := range members {
			items[c.compiled.Items[i].Name] = n
		}
		worth[n] = from.worth[c.compiled.Items[members[0]].Name]
	}
	for n, members := range c.types {
		types[c.Types[members[0]].Name] = n
	}
	for _, np := range from.list {
		bin, ok := types[np.typ]
		if !ok {
			continue
		}
		pt := packing.Pattern{Bin: bin}
		for name, count := range np.pods {
			if i, ok := items[name]; ok {
				pt.Shares = append(pt.Shares, packing.Share{Item: i, Count: count})
			}
		}
		if np.nodes > 0 {
			used = append(used, packing.Load{Pattern: pt, Bins: np.nodes})
		} else {
			rest = append(rest, pt)
		}
	}
	return used, rest, worth
}

// named keeps what is worth keeping of a solution.
func (c classes) named(k *packing.Packing) Patterns {
	out := Patterns{worth: map[string]float64{}}
	for n, members := range c.items {
		if n < len(k.Worth) {
			out.worth[c.compiled.Items[members[0]].Name] = k.Worth[n]
		}
	}
	keep := func(pt packing.Pattern, nodes int32) {
		np := namedPattern{typ: c.Types[c.types[pt.Bin][0]].Name, pods: map[string]int32{}, nodes: nodes}
		for _, s := range pt.Shares {
			np.pods[c.compiled.Items[c.items[s.Item][0]].Name] = s.Count
		}
		out.list = append(out.list, np)
	}
	for _, l := range k.Loads {
		keep(l.Pattern, l.Bins)
	}
	for _, pt := range k.Patterns {
		keep(pt, 0)
	}
	return out
}
