package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// machine is a machine type with on-demand prices like those of europe-west1,
// USD/h.
type machine struct {
	name     string
	cores    int64
	memory   int64 // GiB
	price    float64
	reserved [2]int64 // millicores and MiB that the node keeps for itself
}

// machines in the order in which a problem takes them: the first is the single
// type, the first five differ in shape and size, twenty are a whole catalogue.
var machines = []machine{
	{"n2-standard-4", 4, 16, 0.2137, [2]int64{80, 2662}},
	{"n2-standard-8", 8, 32, 0.4274, [2]int64{90, 3891}},
	{"n2-highmem-4", 4, 32, 0.2883, [2]int64{80, 3891}},
	{"n2-highcpu-8", 8, 8, 0.3155, [2]int64{90, 1843}},
	{"n2-standard-16", 16, 64, 0.8549, [2]int64{110, 5837}},
	{"e2-standard-4", 4, 16, 0.1476, [2]int64{80, 2662}},
	{"e2-standard-8", 8, 32, 0.2951, [2]int64{90, 3891}},
	{"e2-standard-16", 16, 64, 0.5903, [2]int64{110, 5837}},
	{"e2-highmem-4", 4, 32, 0.1991, [2]int64{80, 3891}},
	{"e2-highmem-8", 8, 64, 0.3982, [2]int64{90, 5837}},
	{"e2-highcpu-8", 8, 8, 0.2179, [2]int64{90, 1843}},
	{"e2-highcpu-16", 16, 16, 0.4358, [2]int64{110, 2662}},
	{"n2-highcpu-16", 16, 16, 0.6310, [2]int64{110, 2662}},
	{"n2-highmem-8", 8, 64, 0.5766, [2]int64{90, 5837}},
	{"n2-highmem-16", 16, 128, 1.1532, [2]int64{110, 9728}},
	{"n2-standard-32", 32, 128, 1.7097, [2]int64{150, 9728}},
	{"n2-highmem-32", 32, 256, 2.3064, [2]int64{150, 13107}},
	{"e2-standard-32", 32, 128, 1.1805, [2]int64{150, 9728}},
	{"c2-standard-8", 8, 32, 0.4594, [2]int64{90, 3891}},
	{"c2-standard-16", 16, 64, 0.9188, [2]int64{110, 5837}},
}

// maxPods of a node.
const maxPods = 110

// generate draws shapes log-uniformly from 50m to 3.5 cores and 64 MiB to
// 12 GiB, on a grid of 50m and 64 MiB, and replicas from an exponential
// distribution.
func generate(shapes, pods, types int, seed uint64) node.Problem {
	r := rand.New(rand.NewPCG(seed, 7))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, r.Float64()) }
	var p node.Problem
	for _, m := range machines[:types] {
		p.Types = append(p.Types, node.Type{
			Name: m.name, Price: m.price, Max: node.Unlimited,
			Capacity: api.Resources{MilliCPU: 1000*m.cores - m.reserved[0], Memory: m.memory*gib - m.reserved[1]*mib, Pods: maxPods},
		})
	}
	weights, sum := make([]float64, shapes), 0.0
	for i := range weights {
		weights[i] = r.ExpFloat64() + 0.05
		sum += weights[i]
	}
	left := pods
	for i, w := range weights {
		n := max(1, int(math.Round(w/sum*float64(pods))))
		if i == shapes-1 {
			n = max(1, left)
		}
		left -= n
		p.Items = append(p.Items, node.Item{
			Name: fmt.Sprintf("shape-%d", i), Count: int32(n),
			Requests: api.Resources{
				MilliCPU: 50 * int64(math.Ceil(between(50, 3500)/50)),
				Memory:   64 * mib * int64(math.Ceil(between(64, 12*1024)/64)),
				Pods:     1,
			},
		})
	}
	return p
}

// moved is the problem a cycle later: a fifth of the demands changed by up to a
// tenth.
func moved(p node.Problem, seed uint64) node.Problem {
	r := rand.New(rand.NewPCG(seed, 8))
	out := node.Problem{Types: p.Types, Items: append([]node.Item{}, p.Items...)}
	for i := range out.Items {
		if r.IntN(5) == 0 {
			f := 0.9 + 0.2*r.Float64()
			out.Items[i].Count = max(1, int32(math.Round(f*float64(out.Items[i].Count))))
		}
	}
	return out
}
