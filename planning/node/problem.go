package node

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node/packing"
)

// Unlimited is the Max of a Type without a bound.
const Unlimited = api.Unlimited

// Problem is a packing problem in counts: identical pods are one Item and
// identical nodes one Type.
type Problem struct {
	Items []Item
	Types []Type
}

// Item is a number of identical pods.
type Item struct {
	Name     string
	Requests api.Resources // of one pod
	Count    int32
	// MaxPerNode bounds the copies on one node; 0 is unbounded.
	MaxPerNode int32
	// MaxPerZone bounds the copies in all nodes of one zone; 0 is unbounded. It
	// says nothing about types without a zone.
	MaxPerZone int32
	// Types are the indexes of the types the pods may run on, increasing; nil
	// for all.
	Types []int
}

// Type is a kind of node that may be added.
type Type struct {
	Name string
	// Capacity for the items: allocatable less what DaemonSets and static pods
	// take.
	Capacity api.Resources
	Price    float64 // USD per node and hour
	// Max is the largest number of nodes; Unlimited for no bound.
	Max int32
	// Zone of its nodes; empty when they may be in any.
	Zone string
}

// Packing is a solution of a Problem.
type Packing struct {
	// Loads are the nodes, those of one type with equal pods together.
	Loads []Load
	// Unplaced is, per item, how many of its pods no node holds.
	Unplaced []int32
	Cost     float64 // USD/h
	// LowerBound on the cost of any packing of the placed pods, see
	// Problem.LowerBound; USD/h.
	LowerBound float64
	// Optimal is true when no packing of these pods is cheaper.
	Optimal bool
	// Solver that found the packing: "ffd", "columns" or "ilp".
	Solver string
	// Fallback says why the solver that was asked for did not deliver; empty
	// when it did.
	Fallback string
	// Iterations of the solver's main loop, and whether it came to its end.
	Iterations int
	Complete   bool
}

// Load is what each of a number of nodes holds.
type Load struct {
	Type  int
	Nodes int32
	Pods  []Share // in order of item
}

// Share is the pods of one item on one node.
type Share struct {
	Item  int
	Count int32
}

// Nodes is the number of nodes of a type.
func (p *Packing) Nodes(typ int) int32 {
	var n int32
	for _, l := range p.Loads {
		if l.Type == typ {
			n += l.Nodes
		}
	}
	return n
}

// Validate reports what makes a problem impossible to state: negative counts
// or prices, indexes of types that do not exist.
func (p Problem) Validate() error {
	var errs []error
	for i, it := range p.Items {
		if it.Count < 0 || it.MaxPerNode < 0 || it.MaxPerZone < 0 {
			errs = append(errs, fmt.Errorf("items[%d] %s: negative count", i, it.Name))
		}
		for _, t := range it.Types {
			if t < 0 || t >= len(p.Types) {
				errs = append(errs, fmt.Errorf("items[%d] %s: type %d does not exist", i, it.Name, t))
			}
		}
	}
	for i, t := range p.Types {
		if t.Price < 0 || math.IsNaN(t.Price) || math.IsInf(t.Price, 0) {
			errs = append(errs, fmt.Errorf("types[%d] %s: price %v is not a price", i, t.Name, t.Price))
		}
		if t.Max < Unlimited {
			errs = append(errs, fmt.Errorf("types[%d] %s: negative maximum", i, t.Name))
		}
	}
	return errors.Join(errs...)
}

// Check reports how a packing violates its problem: a node overfull or of a
// type its pods may not run on, too many nodes, pods lost or invented.
func (p Problem) Check(k Packing) error {
	if len(k.Unplaced) != len(p.Items) {
		return fmt.Errorf("%d unplaced counts for %d items", len(k.Unplaced), len(p.Items))
	}
	c := compile(p)
	seen := slices.Clone(k.Unplaced)
	nodes := make([]int32, len(p.Types))
	type spot struct {
		item int
		zone string
	}
	zones := map[spot]int32{}
	for n, l := range k.Loads {
		if l.Type < 0 || l.Type >= len(p.Types) {
			return fmt.Errorf("load %d: type %d does not exist", n, l.Type)
		}
		nodes[l.Type] += l.Nodes
		used, last := make([]int64, len(c.capacity[l.Type])), -1
		for _, s := range l.Pods {
			switch most := p.Items[s.Item].MaxPerNode; {
			case s.Item <= last:
				return fmt.Errorf("load %d: items out of order", n)
			case s.Count <= 0:
				return fmt.Errorf("load %d: %d pods of %s", n, s.Count, p.Items[s.Item].Name)
			case !c.allowed[s.Item][l.Type]:
				return fmt.Errorf("load %d: %s may not run on %s", n, p.Items[s.Item].Name, p.Types[l.Type].Name)
			case most > 0 && s.Count > most:
				return fmt.Errorf("load %d: %d pods of %s, at most %d allowed", n, s.Count, p.Items[s.Item].Name, most)
			}
			last = s.Item
			take(used, c.requests[s.Item], -int64(s.Count))
			seen[s.Item] += s.Count * l.Nodes
			if zone := p.Types[l.Type].Zone; zone != "" {
				at := spot{s.Item, zone}
				zones[at] += s.Count * l.Nodes
				if most := p.Items[s.Item].MaxPerZone; most > 0 && zones[at] > most {
					return fmt.Errorf("load %d: %d pods of %s in zone %s, at most %d allowed", n, zones[at], p.Items[s.Item].Name, zone, most)
				}
			}
		}
		if copies(used, c.capacity[l.Type]) == 0 {
			return fmt.Errorf("load %d: %s does not hold its pods", n, p.Types[l.Type].Name)
		}
	}
	for i, it := range p.Items {
		if k.Unplaced[i] < 0 {
			return fmt.Errorf("%s: %d pods unplaced", it.Name, k.Unplaced[i])
		}
		if seen[i] != it.Count {
			return fmt.Errorf("%s: %d pods accounted for, %d asked for", it.Name, seen[i], it.Count)
		}
	}
	for t, typ := range p.Types {
		if typ.Max != Unlimited && nodes[t] > typ.Max {
			return fmt.Errorf("%s: %d nodes, at most %d allowed", typ.Name, nodes[t], typ.Max)
		}
	}
	return nil
}

// LowerBound is a fluid bound on the cost of any packing of all items, USD/h:
// for each resource, every pod pays the lowest price per unit among the types
// it may run on; the largest of these sums counts. With one type in question
// its nodes are whole, and at least as many as any item takes by itself.
// Items that fit no type are left out.
func (p Problem) LowerBound() float64 { return compile(p).lowerBound(nil) }

// compiled is a problem with its resources as dense vectors: millicores, bytes
// of memory, bytes of ephemeral storage, pods, then extended resources in order
// of name.
type compiled struct {
	Problem
	requests [][]int64 // per item
	capacity [][]int64 // per type
	// allowed[i][t]: item i may run on type t, and fits there when it is empty.
	allowed [][]bool
}

func compile(p Problem) compiled {
	dims := dimensionsOf(p)
	c := compiled{Problem: p}
	for _, t := range p.Types {
		c.capacity = append(c.capacity, dims.vector(t.Capacity))
	}
	for _, it := range p.Items {
		req := dims.vector(it.Requests)
		ok := make([]bool, len(p.Types))
		for t := range p.Types {
			may := it.Types == nil || slices.Contains(it.Types, t)
			ok[t] = may && copies(req, c.capacity[t]) > 0
		}
		c.requests = append(c.requests, req)
		c.allowed = append(c.allowed, ok)
	}
	return c
}

// lowerBound of the items less those unplaced; nil for none unplaced.
func (c compiled) lowerBound(unplaced []int32) float64 {
	if len(c.Types) == 0 {
		return 0
	}
	single, whole := -1, true // the only type in question, if there is only one
	var nodes float64         // of the single type
	bound := make([]float64, len(c.capacity[0]))
	roomy := make([][]int64, len(c.Types)) // capacity and what items make room for in a node at most
	for t := range c.Types {
		roomy[t] = slices.Clone(c.capacity[t])
		for i, it := range c.Items {
			for d, want := range c.requests[i] {
				if want < 0 {
					roomy[t][d] -= want * int64(it.Count)
				}
			}
		}
	}
	for i, it := range c.Items {
		count := it.Count
		if unplaced != nil {
			count -= unplaced[i]
		}
		if count <= 0 || !slices.Contains(c.allowed[i], true) {
			continue
		}
		for t, ok := range c.allowed[i] {
			if ok && single < 0 {
				single = t
			}
			whole = whole && (!ok || t == single)
		}
		perNode := copies(c.requests[i], roomy[slices.Index(c.allowed[i], true)])
		if it.MaxPerNode > 0 {
			perNode = min(perNode, int64(it.MaxPerNode))
		}
		nodes = max(nodes, math.Ceil(float64(count)/float64(perNode)))
		for d, want := range c.requests[i] {
			if want == 0 {
				continue
			}
			unit := math.Inf(1) // lowest price of one unit; highest of what is made room for
			if want < 0 {
				unit = 0
			}
			for t, ok := range c.allowed[i] {
				switch {
				case !ok:
				case want > 0:
					unit = min(unit, c.Types[t].Price/float64(c.capacity[t][d]))
				default:
					unit = max(unit, c.Types[t].Price/float64(max(c.capacity[t][d], 1)))
				}
			}
			bound[d] += unit * float64(want) * float64(count)
		}
	}
	best := max(slices.Max(bound), 0)
	if single >= 0 && whole && c.Types[single].Price > 0 {
		price := c.Types[single].Price
		nodes = max(nodes, math.Ceil(best/price-1e-9)) // forgive the rounding of the sums
		return nodes * price
	}
	return best
}

// price is what a choice between types goes by: the price, or 1 where all
// types are free, so that fewer nodes still win.
func (c compiled) price(t int) float64 {
	if c.free() {
		return 1
	}
	return c.Types[t].Price
}

// dimensions maps resources to vectors; it lists the extended resources.
type dimensions []string

func dimensionsOf(p Problem) dimensions {
	names := map[string]bool{}
	for _, it := range p.Items {
		for k := range it.Requests.Extended {
			names[k] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (d dimensions) vector(r api.Resources) []int64 {
	v := make([]int64, 0, 4+len(d))
	v = append(v, r.MilliCPU, r.Memory, r.EphemeralStorage, r.Pods)
	for _, k := range d {
		v = append(v, r.Extended[k])
	}
	return v
}

// copies is how many times req fits into free; math.MaxInt64 when it asks for
// nothing. As for the scheduler, what is not asked for may be negative.
func copies(req, free []int64) int64 {
	n := int64(math.MaxInt64)
	for d, want := range req {
		switch {
		case want <= 0:
		case free[d] < want:
			return 0
		default:
			n = min(n, free[d]/want)
		}
	}
	return n
}

// take takes req n times out of free; a negative n gives back.
func take(free, req []int64, n int64) {
	for d, want := range req {
		free[d] -= n * want
	}
}

// runs reports whether some type may hold an item.
func (c compiled) runs(i int) bool { return slices.Contains(c.allowed[i], true) }

// free reports whether no type has a price, so that nodes are counted instead.
func (c compiled) free() bool {
	return !slices.ContainsFunc(c.Types, func(t Type) bool { return t.Price > 0 })
}

// vectors is the problem for package packing, item by item and type by type.
func (c compiled) vectors() *packing.Problem {
	p := &packing.Problem{}
	zones := map[string]int{"": -1}
	for t, typ := range c.Types {
		if _, ok := zones[typ.Zone]; !ok {
			zones[typ.Zone] = len(zones) - 1
		}
		p.Bins = append(p.Bins, packing.Bin{Capacity: c.capacity[t], Cost: c.price(t), Max: typ.Max, Zone: zones[typ.Zone]})
	}
	for i, it := range c.Items {
		p.Items = append(p.Items, packing.Item{
			Size: c.requests[i], Count: it.Count, PerBin: it.MaxPerNode, PerZone: it.MaxPerZone, Bins: c.allowed[i], Name: it.Name,
		})
	}
	return p
}
