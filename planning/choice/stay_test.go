package choice

import (
	"slices"
	"testing"

	"github.com/mash2-io/mash2/api"
)

// TestStaysByItself: a workload that gains little by leaving its replicas keeps them,
// whatever others gain by leaving theirs.
func TestStaysByItself(t *testing.T) {
	// One pool with nodes enough: only what replicas cost and are worth decides.
	problem := func(stays ...int32) Problem {
		p := Problem{
			Terms: Terms{
				Weights: api.Weights{Performance: 1, Cost: 0.05, Resilience: 0},
				Places:  []Place{{SpeedRatio: 1, Price: 1, Zones: 1}}, Reference: 1,
			},
			MaxNodes: []int32{-1}, Limit: []string{""},
			Pack: func([]int32) (Packing, error) { return Packing{Nodes: []int32{4}}, nil },
		}
		for i, stay := range stays {
			p.Items = append(p.Items, Item{
				Key: api.Key{Name: string(rune('a' + i))}, Lo: 1, Hi: 20, NodeMin: 20, Load: 1, Weight: 1 / float64(len(stays)),
				Share: 0.1, Stay: stay, Inertia: 1.21,
			})
		}
		return p
	}
	free, err := problem(0, 0).Solve(200, 8)
	if err != nil {
		t.Fatal(err)
	}
	best := free.Best.Replicas[0]
	if best < 4 || best > 18 || free.Best.Replicas[1] != best {
		t.Fatalf("the best is %v: nothing to be learnt here", free.Best.Replicas)
	}
	for name, c := range map[string]struct{ stays, want []int32 }{
		"both near":              {[]int32{best - 1, best + 1}, []int32{best - 1, best + 1}},
		"one near and one far":   {[]int32{best - 1, 1}, []int32{best - 1, best}},
		"one far and one near":   {[]int32{20, best + 1}, []int32{best, best + 1}},
		"both far":               {[]int32{1, 20}, []int32{best, best}},
		"where they are already": {[]int32{best, best}, []int32{best, best}},
	} {
		got, err := problem(c.stays...).Solve(200, 8)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Best.Replicas, c.want) {
			t.Errorf("%s: from %v to %v, want %v", name, c.stays, got.Best.Replicas, c.want)
		}
	}
}
