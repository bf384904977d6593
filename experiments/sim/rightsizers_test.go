package sim

import (
	"math"
	"testing"
)

// TestRightsizers: pods that request far too much are resized to what they use and a margin, new ones
// arrive so, and with an HPA on CPU only memory is. Limits of memory follow in their ratio. In its first hours VPA leaves pods alone: its
// upper bound is far up.
func TestRightsizers(t *testing.T) {
	s := loadScenario(t, "heartbeat")
	s.Workload.CPU.Request.SetMilli(700)
	s.Workload.Memory.Request.Set(1 << 30)
	s.Workload.Memory.Base.Set(300 << 20)
	s.Workload.Memory.Limit.Set(3 << 29)
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
		var limits []float64
		resized := 0
		simulate(t, Options{Scenario: s, Scaler: scaler, Seed: 1, Passes: 110, inspect: func(c *Cluster) {
			resized = len(c.resizes)
			for _, p := range c.workloads[0].pods {
				cpu, memory = append(cpu, p.shape.Requests.MilliCPU), append(memory, p.shape.Requests.Memory>>20)
				limits = append(limits, p.memoryLimit/float64(p.shape.Requests.Memory))
			}
		}})
		if resized == 0 || len(memory) == 0 {
			t.Errorf("%s: %d resizes, %d pods", scaler, resized, len(memory))
		}
		for i, m := range memory {
			if m < want.least || m > want.most || (cpu[i] < 700) != want.cpu {
				t.Errorf("%s: a pod requests %dm and %d MiB", scaler, cpu[i], m)
			}
			if math.Abs(limits[i]-1.5) > 1e-6 {
				t.Errorf("%s: a pod's limit of memory is %g of its request, want 1.5", scaler, limits[i])
			}
		}
	}
	if _, err := Run(t.Context(), Options{Scenario: s, Scaler: "hpa-vpa:x", Passes: 1}); err == nil {
		t.Error("hpa-vpa:x is accepted")
	}
}

// TestLimitsFollowRequests: who raises what pods request after they were killed for their memory
// raises what they may use as well, so that they are not killed again and again.
func TestLimitsFollowRequests(t *testing.T) {
	s := loadScenario(t, "heartbeat")
	s.Workload.Memory.Request.Set(200 << 20)
	s.Workload.Memory.Limit.Set(300 << 20)
	s.Workload.Memory.Base.Set(260 << 20)
	s.Workload.Memory.Spread = 0.2
	kills := map[string]int{}
	for _, scaler := range []string{"karpenter", "karpenter-vpa", "attune", "autopilot"} {
		simulate(t, Options{Scenario: s, Scaler: scaler, Seed: 1, WarmupPasses: 30, Passes: 30, inspect: func(c *Cluster) {
			for _, at := range c.oomKills {
				if at > c.now/2 {
					kills[scaler]++
				}
			}
		}})
	}
	for scaler, n := range kills {
		if scaler != "karpenter" && n > kills["karpenter"]/10 {
			t.Errorf("%s: %d kills, with requests left alone %d", scaler, n, kills["karpenter"])
		}
	}
	if kills["karpenter"] < 20 {
		t.Errorf("%d kills with requests left alone: too few to show anything", kills["karpenter"])
	}
}
