package sizing

import (
	"math"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
)

// TestSizesFillMachines: where a workload is alone, what its pods leave of a machine is of no use to
// anybody, and whole machines are paid; where others are, they use it. A choice costs no more than any other
// request would, by whole machines counted here.
func TestSizesFillMachines(t *testing.T) {
	small, large := Machine{Room: api.Amounts{MilliCPU: 717, Memory: 2400 * mib}, Price: 0.0335, Speed: 1}, Machine{Room: api.Amounts{MilliCPU: 1707, Memory: 5600 * mib}, Price: 0.097, Speed: 1.1}
	wave := func(i int) float64 { return 2000 + 1500*math.Sin(2*math.Pi*float64(i)/1440) }
	for name, c := range map[string]struct {
		machines []Machine
		alone    float64
		beside   int64
		least    float64 // millicores of a machine that pods may leave, at most, of the cheapest
	}{
		"alone on small machines":            {[]Machine{small}, 1, 0, 10},
		"alone, and large ones are dear":     {[]Machine{small, large}, 1, 0, 10},
		"beside a sidecar":                   {[]Machine{small}, 1, 50, 20},
		"among others":                       {[]Machine{small, large}, 0, 0, 717},
		"alone, and prices aren't known":     {[]Machine{{Room: small.Room}}, 1, 0, 717},
		"alone, and no machine holds a pod":  {[]Machine{{Room: api.Amounts{MilliCPU: 50, Memory: mib}, Price: 1, Speed: 1}}, 1, 0, 717},
		"alone where machines aren't known":  {nil, 1, 0, 717},
		"half of what is there":              {[]Machine{small}, 0.5, 0, 40},
		"alone on machines without a memory": {[]Machine{{Room: api.Amounts{MilliCPU: 717}, Price: 1, Speed: 1}}, 1, 0, 717},
	} {
		in := input(known(func(u *api.ContainerUse) {
			u.Requests = api.Amounts{MilliCPU: 500, Memory: 256 * mib}
			u.MemoryPeak = 100 * mib
		}))
		in.Demand, in.Most, in.Machines, in.Alone, in.Sizing.Beside.MilliCPU = shaped(wave), 40, c.machines, c.alone, c.beside
		got, _ := plan(t, in, Memory{})
		pod := in.Sizing.Pod(got.Containers[0].Requests).MilliCPU
		if len(c.machines) > 0 && c.machines[0].Room.MilliCPU >= pod {
			if left := c.machines[0].Room.MilliCPU % pod; float64(left) > c.least {
				t.Errorf("%s: pods of %dm leave %dm: %s", name, pod, left, got.Reason)
			}
		}
		if pod <= 0 || pod > 4*500 {
			t.Errorf("%s: %dm", name, pod)
		}
		if says := strings.Contains(got.Reason, "by whole machines"); says != (got.Containers[0].Requests.MilliCPU != 500 && c.alone > 0 && len(c.machines) > 0 && c.machines[0].Price > 0) {
			t.Errorf("%s: %s", name, got.Reason)
		}
		if c.alone < 1 || len(c.machines) == 0 || c.machines[0].Price == 0 || c.machines[0].Room.Memory < 1000*mib {
			continue
		}
		pays := func(request int64) float64 {
			least := math.Inf(1)
			for _, m := range c.machines {
				each := m.Room.MilliCPU / (request + c.beside)
				if each == 0 {
					continue
				}
				sum := 0.0
				for i := range 2 * 1440 {
					replicas := math.Max(math.Ceil(wave(i)*in.Headroom/(m.Speed*float64(request))), 2)
					sum += math.Ceil(replicas / float64(each))
				}
				least = math.Min(least, m.Price*sum/(2*1440))
			}
			return least
		}
		for other := int64(130); other <= 500; other += 5 {
			if chosen := pays(got.Containers[0].Requests.MilliCPU); chosen > 1.05*pays(other) {
				t.Errorf("%s: %dm cost %.4f, and %dm %.4f", name, pod, chosen, other, pays(other))
				break
			}
		}
	}
}

// TestNoMoreThanEver: replicas are not planned for more than demand ever was and a little, however much it
// once grew by. So a request is not either: else one burst of a restless load would make pods as large as they may be.
func TestNoMoreThanEver(t *testing.T) {
	burst := shaped(func(i int) float64 {
		if i%720 > 700 {
			return 3000
		}
		return 300
	})
	for name, c := range map[string]struct {
		ceiling, least float64
		most           int32
		grows          bool
	}{
		"as replicas are planned":                     {ceiling: 3300 / 0.9, least: 1.1 / 0.9, most: 8},
		"without a ceiling ten times the burst":       {most: 8, grows: true},
		"where the burst itself does not fit":         {ceiling: 3300 / 0.9, least: 1.1 / 0.9, most: 2, grows: true},
		"where demand is more than ever, a little of": {ceiling: 1000, least: 1.1 / 0.9, most: 3, grows: true},
	} {
		in := input(known(func(u *api.ContainerUse) {
			u.Requests = api.Amounts{MilliCPU: 1000, Memory: 256 * mib}
			u.Limits, u.MemoryPeak = api.Amounts{}, 100*mib
		}))
		in.Demand, in.Headroom, in.Ceiling, in.LeastHeadroom, in.Most = burst, 10, c.ceiling, c.least, c.most
		in.Demand.Values = in.Demand.Values[:720*4] // the burst is now
		got, _ := plan(t, in, Memory{})
		if is := got.Containers[0].Requests.MilliCPU; (is > 1000) != c.grows {
			t.Errorf("%s: requests %dm: %s", name, is, got.Reason)
		}
	}
}

// TestWhatCostsNothingLessLeavesRoom: where the machines that pods fill cost the same, a request that is
// a good deal smaller is chosen all the same: what comes later has room.
func TestWhatCostsNothingLessLeavesRoom(t *testing.T) {
	in := input(known(func(u *api.ContainerUse) {
		u.Requests, u.MemoryPeak = api.Amounts{MilliCPU: 200, Memory: 256 * mib}, 100*mib
	}))
	in.Demand, in.Alone = flat(20), 1
	in.Machines = []Machine{{Room: api.Amounts{MilliCPU: 717, Memory: 2400 * mib}, Price: 0.0335, Speed: 1}}
	got, _ := plan(t, in, Memory{})
	if is := got.Containers[0].Requests.MilliCPU; is > 100 {
		t.Errorf("two pods on one machine request %dm each: %s", is, got.Reason)
	}
}
