package execution_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// lowered gives all pods less than their author wrote, limits too.
func (x *sized) lowered() {
	for i := range x.s.Pods {
		x.s.Pods[i] = podSized(i, amounts(400, 460))
		x.s.Pods[i].Sized, x.s.Pods[i].Size.Containers[0].Limits = true, amounts(480, 600)
	}
}

// held lets somebody scale it by hand.
func (x *sized) held() {
	const why = "kubectl has set the replicas"
	x.s.Workloads[0].HoldReason, x.s.Workloads[0].Hold = api.ReasonConflict, why
	x.plan.Workloads[0].Held, x.plan.Workloads[0].Sizing.Hold = true, why
}

// TestResizesOfPodsThatFail: pods that can't serve as small as they are become larger, where other pods are
// left alone, or are replaced where nothing else helps.
func TestResizesOfPodsThatFail(t *testing.T) {
	larger := amounts(1500, 2048)
	for name, c := range map[string]struct {
		to     api.Amounts
		change func(*sized)
		want   []string
	}{
		"new pods only, but for limits that they were given": {
			to: amounts(500, 1536), change: func(x *sized) {
				x.limited(amounts(2000, 2048), amounts(600, 1700), nil)
				x.plan.Workloads[0].Sizing.Mode = api.SizingInitialOnly
				of := func(i int, requests, limits api.Amounts) {
					x.s.Pods[i] = podSized(i, requests)
					x.s.Pods[i].Sized, x.s.Pods[i].Size.Containers[0].Limits = true, limits
				}
				of(0, amounts(500, 460), amounts(600, 600))   // killed at it
				of(1, amounts(500, 460), amounts(600, 2048))  // its limit is its author's
				of(2, amounts(400, 1536), amounts(480, 1700)) // its CPU is limited
				of(3, amounts(500, 460), amounts(600, 600))
				x.s.Pods[3].Sized = false // its author's, or somebody else's
			}, want: []string{
				"resize container web of shop/web-0: requests cpu 500m, memory 460Mi → cpu 500m, memory 1536Mi, limits cpu 600m, memory 1700Mi: why",
				"resize container web of shop/web-2: requests cpu 400m, memory 1536Mi → cpu 500m, memory 1536Mi, limits cpu 600m, memory 1700Mi: why",
			},
		},
		"while pods are replaced, those that the rollout waits for become larger": {
			to: amounts(500, 2048), change: func(x *sized) {
				x.s.Workloads[0].RollingOut = true
				x.s.Pods[0].Ready, x.s.Pods[2].Ready = false, false
			}, want: []string{
				"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 2Gi: why",
				"resize container web of shop/web-2: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 2Gi: why",
			},
		},
		"while pods are replaced, lowered limits of others once one was killed": {
			to: amounts(500, 1536), change: func(x *sized) {
				x.limited(amounts(2000, 2048), amounts(600, 1700), nil)
				x.s.Workloads[0].RollingOut, x.s.Workloads[0].Sizing.Containers[0].OOMKilled = true, x.s.Time
				x.lowered()
				x.s.Pods[0].Sized = false
				x.s.Pods[3].Size.Containers[0].Limits = amounts(480, 2048)
			}, want: []string{
				"resize container web of shop/web-1: requests cpu 400m, memory 460Mi → cpu 400m, memory 1536Mi, limits cpu 480m, memory 1700Mi: why",
				"resize container web of shop/web-2: requests cpu 400m, memory 460Mi → cpu 400m, memory 1536Mi, limits cpu 480m, memory 1700Mi: why",
			},
		},
		"while pods are replaced, no limits of others where none was killed": {
			to: amounts(500, 1536), change: func(x *sized) {
				x.limited(amounts(2000, 2048), amounts(600, 1700), nil)
				x.s.Workloads[0].RollingOut = true
				x.lowered()
			},
		},
		"one that is killed again and again is replaced": {
			to: larger, change: func(x *sized) {
				for i := range x.s.Pods {
					x.s.Pods[i] = podSized(i, larger)
					p := &x.s.Pods[i]
					p.Ready, p.KilledAgain, p.Sized, p.Resized = false, true, true, true
				}
				x.s.Pods[0].Sized = false       // it is as its author wrote
				x.s.Pods[1].KilledAgain = false // it runs
				x.s.Pods[2].Resized = false     // another one would be as it is
			}, want: []string{"evict shop/web-3 from node-0: a container of it is killed for its memory again and again, and does not run: its replacement has more"},
		},
		"and one that is to be larger, as its container may not get it": {
			to: larger, change: func(x *sized) {
				x.alone()
				x.s.Pods[0].Ready, x.s.Pods[0].KilledAgain, x.s.Pods[0].Sized = false, true, true
			}, want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why", "evict shop/web-0 from node-0: a container of it is killed for its memory again and again, and does not run: its replacement has more"},
		},
		"one that agents resized is replaced, too, but not one that has what its template says": {
			to: larger, change: func(x *sized) {
				x.s.Workloads[0].Agents, x.s.Workloads[0].Sizing, x.plan.Workloads[0].Sizing = &api.Agents{}, nil, nil
				for i := range x.s.Pods {
					p := &x.s.Pods[i]
					p.Ready, p.KilledAgain, p.Sized, p.Resized = i == 0, i != 1, i != 3, i != 3
				}
			}, want: []string{"evict shop/web-2 from node-2: a container of it is killed for its memory again and again, and does not run: its replacement has what its template says"},
		},
		"where KEDA scales, too": {
			to: larger, change: func(x *sized) {
				x.alone()
				x.s.Workloads[0].Actuator = api.ActuatorKEDA
				x.s.Pods[0].Ready, x.s.Pods[0].KilledAgain, x.s.Pods[0].Sized = false, true, true
			}, want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why", "evict shop/web-0 from node-0: a container of it is killed for its memory again and again, and does not run: its replacement has more"},
		},
		"in a hold those that are not Ready get what is planned or written, and lowered limits of others rise once one was killed": {
			to: amounts(500, 1536), change: func(x *sized) {
				x.limited(amounts(2000, 2048), amounts(600, 1700), nil)
				x.lowered()
				x.held()
				x.s.Workloads[0].Sizing.Containers[0].OOMKilled = x.s.Time
				x.s.Pods[0].Ready, x.s.Pods[1].Ready, x.s.Pods[1].Sized = false, false, false
				x.s.Pods[0].KilledAgain = true // its replacement would have what its template says
			}, want: []string{
				"resize container web of shop/web-0: requests cpu 400m, memory 460Mi → cpu 1000m, memory 1536Mi, limits cpu 2000m, memory 2Gi: its workload is held: no less than its author wrote",
				"resize container web of shop/web-2: requests cpu 400m, memory 460Mi → cpu 400m, memory 1536Mi, limits cpu 480m, memory 2Gi: its workload is held: no less than its author wrote",
				"resize container web of shop/web-3: requests cpu 400m, memory 460Mi → cpu 400m, memory 1536Mi, limits cpu 480m, memory 2Gi: its workload is held: no less than its author wrote",
			},
		},
		"in a hold one that is killed again and again is replaced by what its template says": {
			to: amounts(250, 460), change: func(x *sized) {
				x.alone()
				x.limited(amounts(1000, 1024), amounts(250, 460), nil)
				x.lowered()
				x.held()
				x.s.Pods[0].Ready, x.s.Pods[0].KilledAgain = false, true
			}, want: []string{
				"resize container web of shop/web-0: requests cpu 400m, memory 460Mi → cpu 1000m, memory 1Gi, limits cpu 1000m, memory 1Gi: its workload is held: no less than its author wrote",
				"evict shop/web-0 from node-0: a container of it is killed for its memory again and again, and does not run: its replacement has more",
			},
		},
		"in a hold of who else sets sizes nothing changes": {
			to: larger, change: func(x *sized) {
				x.lowered()
				x.held()
				x.s.Workloads[0].Sizing.Hold = "VerticalPodAutoscaler web sets what its containers request"
				x.s.Pods[0].Ready, x.s.Pods[0].KilledAgain = false, true
			},
		},
		"but not where nobody gives new pods what they need": {
			to: larger, change: func(x *sized) {
				x.alone()
				x.s.Workloads[0].Sizing.Admits = false
				x.s.Pods[0].Ready, x.s.Pods[0].KilledAgain, x.s.Pods[0].Sized = false, true, true
			}, want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why"},
		},
		"nor where it may not be moved": {
			to: larger, change: func(x *sized) {
				x.alone()
				p := &x.s.Pods[0]
				p.Ready, p.KilledAgain, p.Sized, p.DoNotDisrupt = false, true, true, "local storage data"
			}, want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSized(4, c.to)
			c.change(x)
			got, findings := x.actions()
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("actions (-want +got):\n%s", d)
			}
			if len(findings) > 0 {
				t.Errorf("findings %v", findings)
			}
		})
	}
}

// TestResizesWhereKEDAScales: sizes are mash2's there, too; less is requested when as many pods are Ready as KEDA and
// the plan want.
func TestResizesWhereKEDAScales(t *testing.T) {
	smaller, larger := amounts(250, 460), amounts(1500, 2048)
	back := []string{"resize container web of shop/web-0: requests cpu 250m, memory 460Mi → cpu 1000m, memory 1Gi: sizes are not mash2's any more: what its author wrote"}
	for name, c := range map[string]struct {
		to     api.Amounts
		change func(*sized)
		want   []string
	}{
		"larger":  {to: larger, want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why"}},
		"smaller": {to: smaller, want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 250m, memory 460Mi: why"}},
		"not smaller before as many are Ready as KEDA wants":  {to: smaller, change: func(x *sized) { x.s.Workloads[0].Replicas = 2 }},
		"not smaller before as many are Ready as are planned": {to: smaller, change: func(x *sized) { x.plan.Workloads[0].Replicas = 2 }},
		"not smaller while its demand is not known":           {to: smaller, change: func(x *sized) { x.plan.Workloads[0].Held = true }},
		"nothing in Shadow": {to: larger, change: func(x *sized) { x.s.Workloads[0].Mode = api.ModeShadow }},
		"turned off, they get back what their author wrote": {to: smaller, want: back, change: func(x *sized) {
			x.s.Workloads[0].Sizing.Mode, x.plan.Workloads[0].Sizing.Mode = api.SizingOff, api.SizingOff
			x.s.Pods[0] = podSized(0, smaller)
			x.s.Pods[0].Sized = true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSized(1, c.to)
			x.s.Workloads[0].Actuator = api.ActuatorKEDA
			if c.change != nil {
				c.change(x)
			}
			got, findings := x.actions()
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("actions, findings %v (-want +got):\n%s", findings, d)
			}
		})
	}
}

// TestNotChosenAnyMore: what a pod was given of a resource that is not chosen any more goes back to what is
// written where that is more, and stays where it is less; a pod that mash2 gave nothing is left alone.
func TestNotChosenAnyMore(t *testing.T) {
	x := newSized(3, amounts(250, 1024))
	x.s.Workloads[0].Sizing.Containers[0].FixedMemory = true
	for i, memory := range []int64{460, 2048, 460} {
		x.s.Pods[i] = podSized(i, amounts(250, memory))
		x.s.Pods[i].Sized = i < 2
	}
	got, findings := x.actions()
	want := []string{"resize container web of shop/web-0: requests cpu 250m, memory 460Mi → cpu 250m, memory 1Gi: why"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("actions, findings %v (-want +got):\n%s", findings, d)
	}
}
