package sim

import "testing"

// TestRightsizers: pods that request far too much are resized to what they use and a margin, new ones
// arrive so, and with an HPA on CPU only memory is. In its first hours VPA leaves pods alone: its
// upper bound is far up.
func TestRightsizers(t *testing.T) {
	s := loadScenario(t, "heartbeat")
	s.Workload.CPU.Request.SetMilli(700)
	s.Workload.Memory.Request.Set(1 << 30)
	s.Workload.Memory.Base.Set(300 << 20)
	s.Workload.Memory.Limit.Set(0) // which VPA leaves alone, and no request is above
	for scaler, want := range map[string]struct {
		cpu         bool
		least, most int64 // MiB
	}{
		"hpa-vpa":       {false, 345, 380}, // 300 MiB and 15 %, in buckets of 5 %
		"karpenter-vpa": {false, 345, 380},
		"keda-vpa":      {true, 345, 380},
		"attune":        {true, 1024, 1024}, // which lowers no memory by default
		"autopilot":     {true, 345, 385},
	} {
		var cpu, memory []int64
		resized := 0
		simulate(t, Options{Scenario: s, Scaler: scaler, Seed: 1, Passes: 110, inspect: func(c *Cluster) {
			resized = len(c.resizes)
			for _, p := range c.workloads[0].pods {
				cpu, memory = append(cpu, p.shape.Requests.MilliCPU), append(memory, p.shape.Requests.Memory>>20)
			}
		}})
		if resized == 0 || len(memory) == 0 {
			t.Errorf("%s: %d resizes, %d pods", scaler, resized, len(memory))
		}
		for i, m := range memory {
			if m < want.least || m > want.most || (cpu[i] < 700) != want.cpu {
				t.Errorf("%s: a pod requests %dm and %d MiB", scaler, cpu[i], m)
			}
		}
	}
	if _, err := Run(t.Context(), Options{Scenario: s, Scaler: "hpa-vpa:x", Passes: 1}); err == nil {
		t.Error("hpa-vpa:x is accepted")
	}
}
