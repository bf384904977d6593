package gkesim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30

	// maxPods is GKE's default of pods per node in a Standard cluster.
	maxPods = 110
)

// Machine is a Compute Engine machine type.
type Machine struct {
	// Family is the machine series: e2, n2, …
	Family string
	// VCPU is the number of virtual CPUs that the guest sees.
	VCPU int64
	// Memory of the machine in bytes; the guest sees a little less.
	Memory int64
	// SharedCore machines have a fraction of their vCPUs sustained and burst.
	SharedCore bool
}

// Machines is the catalogue of machine types, by name.
var Machines = map[string]Machine{
	"e2-micro":       {Family: "e2", VCPU: 2, Memory: 1 * gib, SharedCore: true},
	"e2-small":       {Family: "e2", VCPU: 2, Memory: 2 * gib, SharedCore: true},
	"e2-medium":      {Family: "e2", VCPU: 2, Memory: 4 * gib, SharedCore: true},
	"e2-standard-2":  {Family: "e2", VCPU: 2, Memory: 8 * gib},
	"e2-standard-4":  {Family: "e2", VCPU: 4, Memory: 16 * gib},
	"e2-standard-8":  {Family: "e2", VCPU: 8, Memory: 32 * gib},
	"e2-highcpu-4":   {Family: "e2", VCPU: 4, Memory: 4 * gib},
	"e2-highcpu-8":   {Family: "e2", VCPU: 8, Memory: 8 * gib},
	"e2-highmem-2":   {Family: "e2", VCPU: 2, Memory: 16 * gib},
	"e2-highmem-4":   {Family: "e2", VCPU: 4, Memory: 32 * gib},
	"n2-standard-2":  {Family: "n2", VCPU: 2, Memory: 8 * gib},
	"n2-standard-4":  {Family: "n2", VCPU: 4, Memory: 16 * gib},
	"n2-standard-8":  {Family: "n2", VCPU: 8, Memory: 32 * gib},
	"n2-standard-16": {Family: "n2", VCPU: 16, Memory: 64 * gib},
	"n2-highmem-2":   {Family: "n2", VCPU: 2, Memory: 16 * gib},
	"n2-highcpu-4":   {Family: "n2", VCPU: 4, Memory: 4 * gib},
	"n2d-standard-2": {Family: "n2d", VCPU: 2, Memory: 8 * gib},
	"n2d-standard-4": {Family: "n2d", VCPU: 4, Memory: 16 * gib},
	"c3-standard-4":  {Family: "c3", VCPU: 4, Memory: 16 * gib},
}

// Capacity is what a node of machine m with a boot disk of diskGiB reports as
// capacity.
func (m Machine) Capacity(diskGiB int64) corev1.ResourceList {
	return resources(m.VCPU*1000, m.visibleMemory(), visibleDisk(diskGiB))
}

// Allocatable is what GKE leaves of the capacity to pods, by the reservations of
// "Plan GKE Standard node sizes"
// (cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes).
func (m Machine) Allocatable(diskGiB int64) corev1.ResourceList {
	disk := visibleDisk(diskGiB)
	return resources(
		m.VCPU*1000-m.reservedCPU(),
		m.visibleMemory()-m.reservedMemory()-evictionThreshold,
		disk-reservedDisk(disk))
}

func resources(milliCPU, memory, disk int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
}

// reservedCPU in millicores: 6 % of the first core, 1 % of the next, 0.5 % of
// the next two, 0.25 % of those above four. Shared-core E2 machines keep 1060 of
// their 2000.
func (m Machine) reservedCPU() int64 {
	if m.SharedCore {
		return 1060
	}
	total := int64(0) // in tenths of a millicore
	for core := range m.VCPU {
		switch {
		case core < 1:
			total += 600
		case core < 2:
			total += 100
		case core < 4:
			total += 50
		default:
			total += 25
		}
	}
	return total / 10
}

// evictionThreshold is the memory that the kubelet keeps free by eviction.
const evictionThreshold = 100 * mib

// reservedMemory in bytes: 255 MiB of machines under 1 GiB; else 25 % of the
// first 4 GiB, 20 % of the next 4, 10 % of the next 8, 6 % of the next 112, 2 %
// of those above 128 GiB; whole MiB.
func (m Machine) reservedMemory() int64 {
	if m.Memory < gib {
		return 255 * mib
	}
	tiers := []struct{ size, percent int64 }{
		{4 * gib, 25}, {4 * gib, 20}, {8 * gib, 10}, {112 * gib, 6}, {1 << 62, 2},
	}
	rest, reserved := m.Memory, int64(0)
	for _, tier := range tiers {
		part := min(rest, tier.size)
		reserved += part / 100 * tier.percent
		rest -= part
	}
	return (reserved + mib/2) / mib * mib
}

// visibleMemory is what the kernel leaves: page structures are 1/64 of memory,
// the image and firmware a constant. Fitted to nodes of GKE, which report
// 4031108 KiB of 4 GiB (e2-medium) and 8145400 KiB of 8 GiB (2 vCPU).
func (m Machine) visibleMemory() int64 {
	const atFour, atEight = 4031108 * kib, 8145400 * kib
	return atFour + (m.Memory-4*gib)/kib*(atEight-atFour)/(4*gib/kib)
}

// visibleDisk is the part of the boot disk that Container-Optimized OS gives to
// pods: 98831908 KiB of 100 GiB.
func visibleDisk(diskGiB int64) int64 {
	return diskGiB * 98831908 / 100 * kib
}

// reservedDisk is 10 % for eviction and, for the system, the least of half the
// disk, 6 GiB + 35 % and 100 GiB.
func reservedDisk(disk int64) int64 {
	return disk/10 + min(disk/2, 6*gib+disk*35/100, 100*gib)
}
