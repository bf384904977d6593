package gkesim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAllocatableIsWhatGKELeaves(t *testing.T) {
	tests := map[string]struct {
		wantCPU    int64 // millicores
		wantMemory int64 // KiB
	}{
		// Shared core: 1060 of 2000 millicores are kept. 4031108 KiB − 25 % of
		// 4 GiB − 100 MiB.
		"e2-medium": {940, 4031108 - 1124*1024},
		// 60 + 10 millicores. 8145400 KiB − (1024 + 819 + 100) MiB.
		"n2-standard-2": {1930, 8145400 - 1943*1024},
		// 60 + 10 + 5 + 5 millicores. 1024 + 819.2 + 819.2 MiB of 16 GiB.
		"n2-standard-4": {3920, 8145400*2 - 8145400 + 2*(8145400-4031108) - (2662+100)*1024},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Machines[name].Allocatable(100)
			if cpu := got.Cpu().MilliValue(); cpu != tt.wantCPU {
				t.Errorf("cpu = %dm, want %dm", cpu, tt.wantCPU)
			}
			if mem := got.Memory().Value() / 1024; mem != tt.wantMemory {
				t.Errorf("memory = %d KiB, want %d KiB", mem, tt.wantMemory)
			}
			if pods := got.Pods().Value(); pods != 110 {
				t.Errorf("pods = %d, want 110", pods)
			}
		})
	}
}

func TestAllocatableOfEveryMachineIsPositiveAndBelowCapacity(t *testing.T) {
	for name, m := range Machines {
		for _, disk := range []int64{10, 100, 2000} {
			capacity, allocatable := m.Capacity(disk), m.Allocatable(disk)
			for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
				c, a := capacity[r], allocatable[r]
				if a.Sign() <= 0 || a.Cmp(c) >= 0 {
					t.Errorf("%s with %d GiB: %s allocatable %v of %v", name, disk, r, &a, &c)
				}
			}
		}
	}
}
