package autoscaler

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// growth is one way to make room: n nodes like those of group, spread over
// peers, the zones of its pool that hold the same pods.
type growth struct {
	peers []int
	n     int32
	waste float64
}

// scaleUp grows one pool if pods wait for nodes that would hold them, and tells
// whether it did.
func (s *scan) scaleUp() bool {
	if len(s.Pending) == 0 {
		return false
	}
	waiting := s.withoutRoom()
	if len(waiting) == 0 {
		return false
	}
	var best []growth // those of the least waste
	for first := 0; first < len(s.Groups); {
		last := first + 1
		for last < len(s.Groups) && s.Groups[last].Pool == s.Groups[first].Pool {
			last++
		}
		for _, option := range s.options(first, last, waiting) {
			switch {
			case len(best) > 0 && option.waste > best[0].waste:
			case len(best) > 0 && option.waste == best[0].waste:
				best = append(best, option)
			default:
				best = []growth{option}
			}
		}
		first = last
	}
	if len(best) == 0 {
		return false
	}
	choice := 0
	if len(best) > 1 {
		choice = rand.New(s.Src).IntN(len(best))
	}
	return s.grow(best[choice])
}

// withoutRoom returns the pending pods that fit on no node, those to come
// included, after those before them have taken their places. They keep them for
// the rest of the scan (filter_out_schedulable.go).
func (s *scan) withoutRoom() []*Pod {
	var out []*Pod
	nodes := rowOf(s.slots)
	for _, p := range s.Pending {
		if s.place(nodes, p) == nil {
			out = append(out, p)
		}
	}
	return out
}

// options are the ways in which the pool of groups first to last can hold
// waiting pods.
func (s *scan) options(first, last int, waiting []*Pod) []growth {
	type fit struct {
		group int
		pods  []*Pod
	}
	var fits []fit
	for g := first; g < last; g++ {
		if !s.Groups[g].On || s.room(g) == 0 || s.now < s.backoffs[s.Groups[g].Name].until {
			continue
		}
		f := fit{group: g}
		empty := &slot{Node: &s.Groups[g].Template, used: s.Groups[g].Template.Used}
		for _, p := range waiting {
			if s.fits(p, empty) {
				f.pods = append(f.pods, p)
			}
		}
		if len(f.pods) > 0 {
			fits = append(fits, f)
		}
	}
	var out []growth
	for _, f := range fits {
		option := growth{peers: []int{f.group}}
		room := s.room(f.group)
		if s.Groups[f.group].Balanced {
			for _, other := range fits {
				if other.group == f.group || !containsAll(other.pods, f.pods) {
					continue
				}
				option.peers = append(option.peers, other.group)
				if s.Groups[f.group].PoolMax == 0 { // else room is the pool's
					room = sum(room, s.room(other.group))
				}
			}
		}
		option.n, option.waste = s.estimate(&s.Groups[f.group].Template, f.pods, min(room, s.Rules.MaxNodesPerScaleUp))
		out = append(out, option)
	}
	return out
}

// containsAll tells whether pods has all of wanted, which is in the same order.
func containsAll(pods, wanted []*Pod) bool {
	i := 0
	for _, p := range wanted {
		for i < len(pods) && pods[i] != p {
			i++
		}
		if i == len(pods) {
			return false
		}
	}
	return true
}

// sum is a + b, as large as it may be: groups without a maximum have the largest.
func sum(a, b int32) int32 {
	if s := a + b; s >= a {
		return s
	}
	return max(a, b)
}

// grow adds the nodes of option one by one, each to the smallest of its zones
// that has room (BalanceScaleUpBetweenGroups), and tells whether it added any.
func (s *scan) grow(option growth) bool {
	for range option.n {
		peers := slices.DeleteFunc(slices.Clone(option.peers), func(g int) bool { return s.room(g) == 0 })
		if len(peers) == 0 {
			break
		}
		g := slices.MinFunc(peers, func(a, b int) int {
			return cmp.Or(cmp.Compare(s.sizes[a], s.sizes[b]), cmp.Compare(s.Groups[a].Zone, s.Groups[b].Zone), cmp.Compare(a, b))
		})
		s.sizes[g]++
		s.Grow = append(s.Grow, g)
	}
	return len(s.Grow) > 0
}

// estimate is the binpacking estimator: pods in the order of falling size, first
// fit, on at most limit new nodes like template. Its waste is that of the
// least-waste expander: the mean of the shares of CPU and memory of the nodes'
// capacity that the pods leave.
func (s *scan) estimate(template *Node, pods []*Pod, limit int32) (n int32, waste float64) {
	share := func(of, all int64) float64 {
		if all <= 0 {
			return 0
		}
		return float64(of) / float64(all)
	}
	score := func(p *Pod) float64 {
		return share(p.Requests.MilliCPU, template.Allocatable.MilliCPU) + share(p.Requests.Memory, template.Allocatable.Memory)
	}
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b *Pod) int { return cmp.Compare(score(b), score(a)) })
	nodes := rowOf(nil)
	var held api.Resources
	for _, p := range sorted {
		if s.place(nodes, p) == nil {
			fresh := &slot{Node: template, used: template.Used, coming: true, at: len(nodes.slots)}
			if int32(len(nodes.slots)) >= limit || !s.fits(p, fresh) {
				continue
			}
			nodes.slots = append(nodes.slots, fresh)
			s.place(nodes, p)
		}
		held = held.Plus(p.Requests)
	}
	count := len(nodes.slots)
	if count == 0 {
		return 0, 0
	}
	free := func(all, held int64) float64 {
		if all *= int64(count); all <= 0 {
			return 0
		}
		return float64(all-held) / float64(all)
	}
	return int32(count), (free(template.Capacity.MilliCPU, held.MilliCPU) + free(template.Capacity.Memory, held.Memory)) / 2
}
