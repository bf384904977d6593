package sizing

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// Sizes keep within what LimitRanges let in. A container of 1 core and 1 GiB that needs 250m
// and 460 MiB, without bounds of its author's.
func TestSizesKeepToLimitRanges(t *testing.T) {
	for name, c := range map[string]struct {
		limits     api.Amounts
		mode       api.SizingLimits
		is         api.AmountRange
		stated     api.Amounts // the least that its author allows
		cpu        int64       // millicores
		memory     int64       // MiB
		told, kill bool
	}{
		"none":                             {cpu: 250, memory: 460},
		"a least that is less":             {is: api.AmountRange{Least: api.Amounts{MilliCPU: 100, Memory: 64 * mib}}, cpu: 250, memory: 460},
		"a least CPU":                      {is: api.AmountRange{Least: api.Amounts{MilliCPU: 400}}, cpu: 405, memory: 460, told: true},
		"a least memory":                   {is: api.AmountRange{Least: api.Amounts{Memory: 700 * mib}}, cpu: 250, memory: 700, told: true},
		"the author's least, and less":     {is: api.AmountRange{Least: api.Amounts{MilliCPU: 100}}, stated: api.Amounts{MilliCPU: 300}, cpu: 300, memory: 460},
		"more than its author wrote":       {is: api.AmountRange{Least: api.Amounts{MilliCPU: 2000, Memory: 4096 * mib}}, cpu: 1000, memory: 1024},
		"a ratio, of a limit that stays":   {limits: api.Amounts{MilliCPU: 1500, Memory: 1536 * mib}, is: api.AmountRange{CPURatio: 3, MemoryRatio: 2}, cpu: 500, memory: 768, told: true},
		"a ratio, of one that follows":     {limits: api.Amounts{MilliCPU: 1500, Memory: 1536 * mib}, mode: api.LimitsRatio, is: api.AmountRange{CPURatio: 3, MemoryRatio: 2}, cpu: 300, memory: 1024},
		"the same, without a LimitRange":   {limits: api.Amounts{MilliCPU: 1500, Memory: 1536 * mib}, mode: api.LimitsRatio, cpu: 300, memory: 1024},
		"Guaranteed, without a LimitRange": {limits: api.Amounts{MilliCPU: 1000, Memory: 1024 * mib}, cpu: 300, memory: 1024},
		"a ratio, of Guaranteed":           {limits: api.Amounts{MilliCPU: 1000, Memory: 1024 * mib}, is: api.AmountRange{CPURatio: 1.5, MemoryRatio: 1.5}, cpu: 300, memory: 1024},
		"a ratio, without a limit":         {is: api.AmountRange{CPURatio: 3, MemoryRatio: 2}, cpu: 250, memory: 460},
		"killed, and within a most":        {is: api.AmountRange{Most: api.Amounts{Memory: 1200 * mib}}, kill: true, cpu: 250, memory: 1200, told: true},
		"killed, and less than it has":     {is: api.AmountRange{Most: api.Amounts{Memory: 800 * mib}}, kill: true, cpu: 250, memory: 1024},
		"killed, with a limit above":       {limits: api.Amounts{Memory: 2048 * mib}, is: api.AmountRange{Most: api.Amounts{Memory: 2048 * mib}}, kill: true, cpu: 250, memory: 1229},
		"killed, with a limit that rises":  {limits: api.Amounts{Memory: 1127 * mib}, is: api.AmountRange{Most: api.Amounts{Memory: 1300 * mib}}, kill: true, cpu: 250, memory: 1181, told: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(known(func(u *api.ContainerUse) {
				u.Limits, u.Range, u.Least = c.limits, c.is, c.stated
				if c.is != (api.AmountRange{}) {
					u.Range.Names = "small"
				}
				if c.kill {
					u.OOMKilled, u.OOMLimit = now.Add(-1), 1024*mib
				}
			}))
			if c.mode != "" {
				in.Sizing.Limits = c.mode
			}
			got, _ := plan(t, in, Memory{})
			is := got.Containers[0]
			if is.Requests != (api.Amounts{MilliCPU: c.cpu, Memory: c.memory * mib}) {
				t.Errorf("requests %s, want %dm and %d MiB: %s", is.Requests, c.cpu, c.memory, is.Reason)
			}
			if told := strings.Contains(is.Reason, "as LimitRange small allows"); told != c.told {
				t.Errorf("says %q", is.Reason)
			}
		})
	}
}

// Whatever is planned, a LimitRange that lets a container in as its author wrote it lets it in
// as planned.
func TestWhatIsPlannedIsLetIn(t *testing.T) {
	// The rules of the API server: plugin/pkg/admission/limitranger.
	letsIn := func(request, limit, least, most int64, ratio float64) bool {
		switch {
		case request < least || limit > 0 && limit < least:
			return false
		case most > 0 && (request > most || limit > most):
			return false
		}
		return ratio == 0 || limit == 0 || float64(limit) <= ratio*float64(request)+1e-6
	}
	rapid.Check(t, func(t *rapid.T) {
		amount := func(what string, least, most int64) int64 { return rapid.Int64Range(least, most).Draw(t, what) }
		u := known(func(u *api.ContainerUse) {
			u.Requests = api.Amounts{MilliCPU: amount("cpu", 20, 2000), Memory: mib * amount("memory", 32, 2048)}
			switch rapid.IntRange(0, 2).Draw(t, "limits") {
			case 1:
				u.Limits = u.Requests
			case 2:
				u.Limits = api.Amounts{MilliCPU: u.Requests.MilliCPU + amount("more cpu", 100, 3000), Memory: u.Requests.Memory + mib*amount("more memory", 128, 3000)}
			}
			u.MemoryPeak = mib * amount("peak", 8, 4096)
			if rapid.Bool().Draw(t, "killed") {
				u.OOMKilled, u.OOMLimit = now.Add(-1), mib*amount("killed at", 32, 4096)
			}
			u.Range = api.AmountRange{
				Names: "r", Least: api.Amounts{MilliCPU: amount("least cpu", 0, 1000), Memory: mib * amount("least memory", 0, 1000)},
				CPURatio: float64(amount("cpu ratio", 0, 8)) / 2, MemoryRatio: float64(amount("memory ratio", 0, 8)) / 2,
			}
			if rapid.Bool().Draw(t, "most") {
				u.Range.Most = api.Amounts{MilliCPU: amount("most cpu", 100, 6000), Memory: mib * amount("most memory", 128, 6000)}
			}
		})
		r := u.Range
		cpu := letsIn(u.Requests.MilliCPU, u.Limits.MilliCPU, r.Least.MilliCPU, r.Most.MilliCPU, r.CPURatio)
		memory := letsIn(u.Requests.Memory, u.Limits.Memory, r.Least.Memory, r.Most.Memory, r.MemoryRatio)
		in := input(u)
		in.Demand = flat(float64(amount("demand", 10, 60_000)))
		got, _ := Planner{DefaultConfig()}.Plan(in, Memory{})
		is := got.Containers[0]
		if cpu && !letsIn(is.Requests.MilliCPU, is.Limits.MilliCPU, r.Least.MilliCPU, r.Most.MilliCPU, r.CPURatio) {
			t.Fatalf("CPU: %s and limits %s of %s and %s, range %+v: %s", is.Requests, is.Limits, u.Requests, u.Limits, r, is.Reason)
		}
		if memory && !letsIn(is.Requests.Memory, is.Limits.Memory, r.Least.Memory, r.Most.Memory, r.MemoryRatio) {
			t.Fatalf("memory: %s and limits %s of %s and %s, range %+v: %s", is.Requests, is.Limits, u.Requests, u.Limits, r, is.Reason)
		}
	})
}

// TestWhatNoMachineHolds: what does not fit on a machine grows as far as it has room, and keeps nothing else from growing.
func TestWhatNoMachineHolds(t *testing.T) {
	killed := known(func(u *api.ContainerUse) {
		u.Requests = api.Amounts{MilliCPU: 1500, Memory: 1024 * mib}
		u.Limits = api.Amounts{Memory: 1024 * mib}
		u.OOMKilled, u.OOMLimit = now.Add(-time.Minute), 1024*mib
	})
	in := input(killed)
	in.Most, in.Demand = 2, flat(8000) // 6.3 cores each; machines have 4
	in.Sizing.Beside.MilliCPU = 100
	got, m := plan(t, in, Memory{})
	if want := (api.Amounts{MilliCPU: 3900, Memory: 1229 * mib}); got.Containers[0].Requests != want || !strings.Contains(got.Reason, "no machine has more than") {
		t.Errorf("requests %s, want %s: %s", got.Containers[0].Requests, want, got.Reason)
	}
	in.Machines[0].Room.MilliCPU = 3000 // the others are gone
	if got, _ = plan(t, in, m); got.Containers[0].Requests.MilliCPU != 3900 {
		t.Errorf("of what it had %s is left", got.Containers[0].Requests)
	}

	side := killed
	side.Name = "side"
	in.Machines[0].Room.MilliCPU, in.Sizing.Containers, in.Sizing.Beside = 4000, []api.ContainerUse{killed, side}, api.Amounts{}
	got, _ = plan(t, in, Memory{})
	for _, is := range got.Containers { // 8 cores are wanted
		if is.Requests.MilliCPU != 2000 || is.Requests.Memory != 1229*mib {
			t.Errorf("%s requests %s", is.Name, is.Requests)
		}
	}
}

// TestMachinesOfTwoShapes: the cores of one machine and the memory of another are no machine. A pod stays
// one that holds it, and grows as far as one does that held it before.
func TestMachinesOfTwoShapes(t *testing.T) {
	cores, memory := api.Amounts{MilliCPU: 4000, Memory: 2800 * mib}, api.Amounts{MilliCPU: 1900, Memory: 13000 * mib}
	for name, c := range map[string]struct {
		wrote, killed int64 // memory, MiB
		demand        float64
		on            api.Amounts
	}{
		"more cores and memory than one has": {2000, 4000, 6000, cores},
		"memory that only one has":           {5000, 10000, 6000, memory},
		"what one has":                       {2000, 2000, 3000, cores},
	} {
		in := input(known(func(u *api.ContainerUse) {
			u.Requests = api.Amounts{MilliCPU: 1500, Memory: c.wrote * mib}
			u.Limits = api.Amounts{Memory: c.wrote * mib}
			u.OOMKilled, u.OOMLimit = now.Add(-time.Minute), c.killed*mib
		}))
		in.Most, in.Demand, in.Machines = 2, flat(c.demand), []Machine{{Room: cores}, {Room: memory}}
		got, _ := plan(t, in, Memory{})
		if is := got.Containers[0].Requests; is.MilliCPU > c.on.MilliCPU || is.Memory > c.on.Memory || is.MilliCPU <= 1500 {
			t.Errorf("%s: requests %s, where a machine has %s: %s", name, is, c.on, got.Reason)
		}
	}
}

// TestWhatNoMachineHoldsBesideSidecars: what a sidecar requests is room that containers do not have.
func TestWhatNoMachineHoldsBesideSidecars(t *testing.T) {
	killed := input(known(func(u *api.ContainerUse) {
		u.Requests = api.Amounts{MilliCPU: 1500, Memory: 6000 * mib}
		u.Limits = api.Amounts{Memory: 6000 * mib}
		u.OOMKilled, u.OOMLimit = now.Add(-time.Minute), 6000*mib
	}))
	killed.Machines[0].Room, killed.Sizing.Beside = api.Amounts{MilliCPU: 4000, Memory: 7500 * mib}, api.Amounts{Memory: 1000 * mib}
	busy := input(known(func(u *api.ContainerUse) { u.Requests = api.Amounts{MilliCPU: 1500, Memory: 1024 * mib} }))
	busy.Most, busy.Demand, busy.Sizing.Beside = 2, flat(4900), api.Amounts{MilliCPU: 500} // 3.85 cores each
	for name, in := range map[string]Input{"memory": killed, "cpu": busy} {
		got, _ := plan(t, in, Memory{})
		pod, most := in.Sizing.Pod(got.Containers[0].Requests), in.Machines[0].Room
		if pod.Memory > most.Memory || pod.MilliCPU > most.MilliCPU || got.Containers[0].Requests == in.Sizing.Containers[0].Requests {
			t.Errorf("%s: a pod of %dm and %d MiB where the largest machine has %s: %s", name, pod.MilliCPU, pod.Memory/mib, most, got.Reason)
		}
	}
}

// TestLargerThanAnyMachine: what its author wrote runs somewhere, whatever machines are known.
func TestLargerThanAnyMachine(t *testing.T) {
	in := input(known(func(u *api.ContainerUse) {
		u.Requests.Memory = 20480 * mib // machines have 16 GiB
		u.Limits = u.Requests
		u.MemoryPeak, u.MemoryTail, u.MemoryKnown = 8000*mib, 8000*mib, week
	}))
	small, m := plan(t, in, Memory{})
	if small.Containers[0].Limits.Memory >= 20480*mib {
		t.Fatalf("a limit of %s was not lowered", small.Containers[0].Limits)
	}
	in.Time = now.Add(time.Minute)
	u := &in.Sizing.Containers[0]
	u.OOMKilled, u.OOMLimit, u.Until = in.Time, small.Containers[0].Limits.Memory, in.Time
	if got, _ := plan(t, in, m); got.Containers[0].Limits.Memory != 20480*mib {
		t.Errorf("killed at a limit that was lowered to %s: %s, %s", small.Containers[0].Limits, got.Containers[0].Limits, got.Reason)
	}
}
