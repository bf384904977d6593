package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/baseline/autoscaler"
	"github.com/mash2-io/mash2/experiments/baseline/karpenter"
	"github.com/mash2-io/mash2/planning/node"
)

// peer is what another scaler would buy for all pods of a problem at once.
type peer struct {
	cost, seconds float64
	unplaced      int
}

// byKarpenter is what Karpenter's provisioner launches for the pods, all pending in
// an empty cluster: sorted by CPU and memory, each to the machine to come with the
// fewest pods that a type still holds, else to a new one; each machine then becomes
// the cheapest type that holds its pods (kubernetes-sigs/karpenter
// pkg/controllers/provisioning/scheduling, as package karpenter follows it).
func byKarpenter(p node.Problem) peer {
	var v karpenter.View
	for _, t := range p.Types {
		v.Types = append(v.Types, karpenter.Type{Name: t.Name, Price: t.Price, Allocatable: t.Capacity, Room: math.MaxInt32 / 2})
	}
	for _, it := range p.Items {
		for range it.Count {
			v.Pending = append(v.Pending, &karpenter.Pod{Requests: it.Requests})
		}
	}
	start := cpu()
	var out peer
	for _, t := range karpenter.Provision(v) {
		out.cost += v.Types[t].Price
	}
	out.seconds = (cpu() - start).Seconds()
	return out
}

// byAutoscaler is what Cluster Autoscaler grows for the same pods with the
// least-waste expander, scan by scan: each scan one group, as many nodes as its
// estimator packs the pods onto that the group's nodes hold. Pods then go to the new
// nodes as they were packed.
func byAutoscaler(p node.Problem) peer {
	var v autoscaler.View
	for i, t := range p.Types {
		v.Groups = append(v.Groups, autoscaler.Group{Name: t.Name, Pool: t.Name, On: true, Max: math.MaxInt32,
			Template: autoscaler.Node{Group: i, Registered: true, Ready: true, Allocatable: t.Capacity, Capacity: t.Capacity}})
	}
	for _, it := range p.Items {
		for range it.Count {
			v.Pending = append(v.Pending, &autoscaler.Pod{Requests: it.Requests})
		}
	}
	a := &autoscaler.Autoscaler{Rules: autoscaler.DefaultRules(), Src: rand.NewPCG(1, 1)}
	start := cpu()
	var out peer
	for now := time.Duration(0); len(v.Pending) > 0; now += a.Rules.ScanInterval {
		grown := a.Scan(now, v).Grow
		if len(grown) == 0 {
			break
		}
		for _, g := range grown {
			out.cost += p.Types[g].Price
			v.Groups[g].Size++
		}
		v.Pending = rest(v.Pending, p.Types[grown[0]].Capacity, len(grown))
	}
	out.seconds = (cpu() - start).Seconds()
	out.unplaced = len(v.Pending)
	return out
}

// rest are the pods that so many equal nodes don't hold, filled in the order of the
// estimator.
func rest(pods []*autoscaler.Pod, capacity api.Resources, nodes int) []*autoscaler.Pod {
	score := func(p *autoscaler.Pod) float64 {
		return float64(p.Requests.MilliCPU)/float64(capacity.MilliCPU) + float64(p.Requests.Memory)/float64(capacity.Memory)
	}
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b *autoscaler.Pod) int { return cmp.Compare(score(b), score(a)) })
	used := make([]api.Resources, nodes)
	var out []*autoscaler.Pod
	for _, p := range sorted {
		i := slices.IndexFunc(used, func(u api.Resources) bool { return autoscaler.Room(capacity, u, p.Requests) })
		if i < 0 {
			out = append(out, p)
			continue
		}
		used[i] = used[i].Plus(p.Requests)
	}
	return out
}
