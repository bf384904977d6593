package packing_test

import (
	"fmt"

	"github.com/mash2-io/mash2/planning/node/packing"
)

func ExampleSolve() {
	p := &packing.Problem{
		Items: []packing.Item{ // CPU in millicores, memory in MiB
			{Name: "web", Size: []int64{600, 300}, Count: 4, Bins: []bool{true, true}},
			{Name: "cache", Size: []int64{300, 1200}, Count: 2, Bins: []bool{true, true}},
		},
		Bins: []packing.Bin{
			{Capacity: []int64{900, 1600}, Cost: 1, Max: packing.Unlimited, Zone: -1},
			{Capacity: []int64{1900, 3200}, Cost: 1.8, Max: packing.Unlimited, Zone: -1},
		},
	}
	s := packing.Solve(p, packing.Settings{Work: 1e8})
	fmt.Printf("cost %.1f, and no packing costs less than %.1f\n", s.Cost, s.Bound)
	// Output:
	// cost 3.6, and no packing costs less than 3.0
}
