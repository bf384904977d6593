package canary

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

const (
	// unlike is by which factor the sizes, or the error budgets, of a pair differ at most.
	unlike = 10
	// neighbours are compared with, of workloads in order of budget and size: pairs among
	// thousands are found in a cycle.
	neighbours = 16
	// alike is how many samples two series of demand must share for their correlation to
	// count.
	alike = 20
	// enough samples are looked at of a series, about: more say the same.
	enough = 500
)

// Member is a workload of which something is known in a cycle.
type Member struct {
	Key api.Key
	// Joined members are in mode Canary; others can be controls only.
	Joined bool
	// Bar is why mash2 can't act for it; empty if it can.
	Bar string
	// Gone is why nothing can be told of it any more; empty if it can.
	Gone string
	// Demand over time, and what its pods request now, millicores.
	Demand    api.Series
	Requested float64
	Replicas  int32
	// Objectives and their readings.
	Objectives []Objective
	// Restarted is when a person asked for another trial; zero for never.
	Restarted time.Time
}

// Objective is one with its newest readings, which don't overlap, oldest first.
type Objective struct {
	Target   float64 // the share that is to be good, in (0, 1)
	Readings []Reading
}

// Reading is of the events of a window that ended at a time.
type Reading struct {
	At         time.Time
	Window     time.Duration
	Total, Bad float64
}

// budget is the smallest error budget of a member; 0 without an objective.
func (m Member) budget() float64 {
	var least float64
	for _, o := range m.Objectives {
		if b := 1 - o.Target; b > 0 && b < 1 && (least == 0 || b < least) {
			least = b
		}
	}
	return least
}

// distance tells how unlike two members are, 0 for twins; ok is false if they are too
// unlike to be compared.
func distance(a, b Member) (d float64, ok bool) {
	ratio := func(x, y float64) float64 { return math.Abs(math.Log(x / y)) }
	budget, size := ratio(a.budget(), b.budget()), ratio(a.Requested, b.Requested)
	if !(budget <= math.Log(unlike)) || !(size <= math.Log(unlike)) {
		return 0, false
	}
	return budget + size + 1 - correlation(a.Demand, b.Demand), true
}

// correlation of two series where both are known, Pearson's; 0 where too little is.
func correlation(a, b api.Series) float64 {
	if a.Step <= 0 || a.Step != b.Step {
		return 0
	}
	shift := int(math.Round(float64(b.Start.Sub(a.Start)) / float64(a.Step)))
	var n, sa, sb, saa, sbb, sab float64
	for i := 0; i < len(b.Values); i += max(1, len(b.Values)/enough) {
		j, y := i+shift, b.Values[i]
		if j < 0 || j >= len(a.Values) {
			continue
		}
		x := a.Values[j]
		if !known(x) || !known(y) {
			continue
		}
		n, sa, sb, saa, sbb, sab = n+1, sa+x, sb+y, saa+x*x, sbb+y*y, sab+x*y
	}
	va, vb := n*saa-sa*sa, n*sbb-sb*sb
	if n < alike || !(va > 0) || !(vb > 0) {
		return 0
	}
	return min(max((n*sab-sa*sb)/math.Sqrt(va*vb), -1), 1)
}

func known(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// matched makes at most so many pairs, the most alike first, of members that are sorted by
// key. One of each is a canary, which must have joined and be able to act; where both may
// be, a coin of the seed decides.
func matched(members []Member, most int, seed string) []Pair {
	var able []Member
	for _, m := range members {
		if m.Gone == "" && m.budget() > 0 && m.Requested > 0 {
			able = append(able, m)
		}
	}
	slices.SortStableFunc(able, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.budget(), b.budget()), cmp.Compare(a.Requested, b.Requested))
	})
	type two struct {
		i, j int
		d    float64
	}
	var all []two
	for i := range able {
		for j := i + 1; j < min(len(able), i+1+neighbours); j++ {
			if !canBe(able[i]) && !canBe(able[j]) {
				continue
			}
			if d, ok := distance(able[i], able[j]); ok {
				all = append(all, two{i, j, d})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b two) int { return cmp.Compare(a.d, b.d) })
	used := make([]bool, len(able))
	var out []Pair
	for _, p := range all {
		if len(out) == most {
			break
		}
		if used[p.i] || used[p.j] {
			continue
		}
		used[p.i], used[p.j] = true, true
		a, b := able[p.i], able[p.j]
		if !canBe(a) || canBe(b) && coin(seed, a.Key, b.Key) {
			a, b = b, a
		}
		out = append(out, Pair{Canary: Arm{Key: a.Key}, Control: Arm{Key: b.Key}, Distance: p.d})
	}
	slices.SortFunc(out, func(a, b Pair) int { return cmp.Compare(a.Canary.Key.String(), b.Canary.Key.String()) })
	return out
}

// canBe reports whether mash2 may act for a member.
func canBe(m Member) bool { return m.Joined && m.Bar == "" }

// coin is as good as one that is tossed, and falls the same way in every replay.
func coin(seed string, a, b api.Key) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed + "\n" + a.String() + "\n" + b.String()))
	x := h.Sum64()
	x ^= x >> 31 // of FNV's bits the highest are the best mixed
	x *= 0x9e3779b97f4a7c15
	return x>>63 == 1
}
