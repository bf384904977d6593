package gke

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// MachineType is what planning has to know of a Compute Engine machine type.
type MachineType struct {
	// MilliCPU is the vCPUs that a node reports, in millicores.
	MilliCPU int64
	// Memory of the machine in bytes; the node's kernel keeps a little of it.
	Memory int64
	// SharedCore machines get a share of their vCPUs and burst beyond it.
	SharedCore bool
	// Price in USD per hour, on demand, without discounts.
	Price float64
	// CPUSpeed is the work that one core does per second relative to one of an
	// n2 machine.
	CPUSpeed float64
}

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// family is a machine series whose types are vCPU and memory by the piece.
type family struct {
	vCPU, gb float64 // USD per hour in us-central1
	speed    float64
	// memory per vCPU in GiB, by the middle part of the type's name.
	memory map[string]float64
	sizes  []int64 // vCPUs that are offered
}

// families holds on-demand prices of us-central1 from
// cloud.google.com/compute/vm-instance-pricing. The speeds are rounded
// estimates for single-threaded web work; what a workload really gains differs,
// so they can be overridden (Config.MachineTypes).
var families = map[string]family{
	"e2":  {0.02181159, 0.00292353, 0.85, map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}, []int64{2, 4, 8, 16, 32}},
	"n1":  {0.031611, 0.004237, 0.8, map[string]float64{"standard": 3.75, "highmem": 6.5, "highcpu": 0.9}, []int64{1, 2, 4, 8, 16, 32, 64, 96}},
	"n2":  {0.031611, 0.004237, 1, map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}, []int64{2, 4, 8, 16, 32, 48, 64, 80, 96, 128}},
	"n2d": {0.027502, 0.003686, 1.05, map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}, []int64{2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 224}},
	"c2":  {0.03398, 0.00455, 1.15, map[string]float64{"standard": 4}, []int64{4, 8, 16, 30, 60}},
	"c3":  {0.03465, 0.003938, 1.2, map[string]float64{"standard": 4, "highmem": 8, "highcpu": 2}, []int64{4, 8, 22, 44, 88, 176}},
	"t2d": {0.027502, 0.003686, 1.3, map[string]float64{"standard": 4}, []int64{1, 2, 4, 8, 16, 32, 48, 60}},
}

// sharedCore types have two vCPUs of which they get an eighth, a quarter and a
// half: under load their cores run at that part of a core's speed.
var sharedCore = map[string]MachineType{
	"e2-micro":  {MilliCPU: 2000, Memory: 1 * gib, SharedCore: true, Price: 0.008376, CPUSpeed: 0.125},
	"e2-small":  {MilliCPU: 2000, Memory: 2 * gib, SharedCore: true, Price: 0.016751, CPUSpeed: 0.25},
	"e2-medium": {MilliCPU: 2000, Memory: 4 * gib, SharedCore: true, Price: 0.033503, CPUSpeed: 0.5},
}

// LookupMachineType finds a machine type in the catalogue: e2 (with its shared
// cores), n1, n2, n2d, c2, c3 and t2d, standard, highmem and highcpu.
func LookupMachineType(name string) (MachineType, bool) {
	if m, ok := sharedCore[name]; ok {
		return m, true
	}
	series, rest, _ := strings.Cut(name, "-")
	kind, size, _ := strings.Cut(rest, "-")
	f, ok := families[series]
	if !ok {
		return MachineType{}, false
	}
	perCPU, ok := f.memory[kind]
	if !ok {
		return MachineType{}, false
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || !contains(f.sizes, n) {
		return MachineType{}, false
	}
	gb := float64(n) * perCPU
	return MachineType{
		MilliCPU: n * 1000,
		Memory:   int64(gb * float64(gib)),
		// Prices are published with six digits.
		Price:    math.Round((float64(n)*f.vCPU+gb*f.gb)*1e6) / 1e6,
		CPUSpeed: f.speed,
	}, true
}

func contains(sizes []int64, n int64) bool {
	for _, s := range sizes {
		if s == n {
			return true
		}
	}
	return false
}

// validate reports the first field that can't be.
func (m MachineType) validate() error {
	switch {
	case m.MilliCPU <= 0:
		return fmt.Errorf("field MilliCPU must be positive, is %d", m.MilliCPU)
	case m.Memory <= 0:
		return fmt.Errorf("field Memory must be positive, is %d", m.Memory)
	case !(m.Price >= 0) || math.IsInf(m.Price, 0):
		return fmt.Errorf("field Price must not be negative, is %v", m.Price)
	case !(m.CPUSpeed > 0) || math.IsInf(m.CPUSpeed, 0):
		return fmt.Errorf("field CPUSpeed must be positive, is %v", m.CPUSpeed)
	}
	return nil
}

// allocatable is what GKE leaves of a node to pods, by the reservations of
// "Plan GKE Standard node sizes"
// (cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes). It serves
// for pools that have no node to look at. Extended resources are not told.
func (m MachineType) allocatable(diskGB, maxPods int64) api.Resources {
	disk := visibleDisk(cmp.Or(diskGB, 100))
	return api.Resources{
		MilliCPU:         m.MilliCPU - m.reservedCPU(),
		Memory:           max(0, m.visibleMemory()-m.reservedMemory()-evictionThreshold),
		EphemeralStorage: disk - reservedDisk(disk),
		Pods:             cmp.Or(maxPods, 110),
	}
}

// evictionThreshold is the memory at which the kubelet evicts.
const evictionThreshold = 100 * mib

// reservedCPU: 6 % of the first core, 1 % of the next, 0.5 % of the next two
// and 0.25 % of all beyond; shared-core E2 machines keep 1060m.
func (m MachineType) reservedCPU() int64 {
	if m.SharedCore {
		return 1060
	}
	return int64(tiered(float64(m.MilliCPU), []tier{{1000, 0.06}, {1000, 0.01}, {2000, 0.005}, {math.Inf(1), 0.0025}}))
}

// reservedMemory: 255 MiB of less than 1 GiB; else 25 % of the first 4 GiB,
// 20 % of the next 4, 10 % of the next 8, 6 % of the next 112 and 2 % beyond.
func (m MachineType) reservedMemory() int64 {
	if m.Memory < gib {
		return 255 * mib
	}
	g := float64(gib)
	bytes := tiered(float64(m.Memory), []tier{{4 * g, 0.25}, {4 * g, 0.20}, {8 * g, 0.10}, {112 * g, 0.06}, {math.Inf(1), 0.02}})
	return (int64(bytes) + mib - 1) / mib * mib
}

type tier struct{ size, share float64 }

func tiered(amount float64, tiers []tier) float64 {
	var sum float64
	for _, t := range tiers {
		part := min(amount, t.size)
		sum += part * t.share
		amount -= part
	}
	return sum
}

// visibleMemory is what a node reports as capacity: the straight line through
// what nodes of 4 and 8 GiB report (4031108 and 8145400 KiB).
func (m MachineType) visibleMemory() int64 {
	const (
		at4, at8 = 4031108, 8145400 // KiB
		slope    = float64(at8-at4) / float64(4*gib/kib)
	)
	return int64(at4+slope*float64(m.Memory/kib-4*gib/kib)) * kib
}

// visibleDisk is what Container-Optimized OS leaves of its boot disk:
// 98831908 KiB of 100 GB.
func visibleDisk(gb int64) int64 { return gb * 98831908 / 100 * kib }

// reservedDisk is the eviction threshold of 10 % and, for the system, the least
// of half the disk, 6 GiB + 35 % and 100 GiB.
func reservedDisk(disk int64) int64 {
	return disk/10 + min(disk/2, 6*gib+disk*35/100, 100*gib)
}
