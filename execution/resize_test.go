package execution_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
)

var resizeSequences = flag.Int("resize-sequences", 5000, "random sequences of TestResizesUnderFaults")

const mib = 1 << 20

// sized is a workload whose one container requests 1 core and 1 GiB and is to request less.
type sized struct {
	s    api.Snapshot
	plan api.Plan
}

func amounts(cpu, memory int64) api.Amounts { return api.Amounts{MilliCPU: cpu, Memory: memory * mib} }

func newSized(replicas int32, to api.Amounts) *sized {
	author := amounts(1000, 1024)
	w := api.Workload{
		Key: key("web"), Target: api.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, Mode: api.ModeFull,
		MinReplicas: 1, MaxReplicas: 20, Replicas: replicas, Shape: podShape(author),
		Sizing: &api.Sizing{Mode: api.SizingInPlace, Containers: []api.ContainerUse{{Name: "web", Requests: author}}, Admits: true},
	}
	x := &sized{s: api.Snapshot{Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Workloads: []api.Workload{w}}}
	for i := range 3 {
		x.s.Nodes = append(x.s.Nodes, api.Node{Name: fmt.Sprintf("node-%d", i), Ready: true, Allocatable: api.Resources{MilliCPU: 4000, Memory: 8192 * mib, Pods: 110}})
	}
	for i := range replicas {
		x.s.Pods = append(x.s.Pods, podSized(int(i), author))
	}
	x.plan = api.Plan{Workloads: []api.WorkloadPlan{{
		Key: w.Key, Scale: api.Scale{Replicas: replicas}, NodeReplicas: replicas, Current: replicas,
		Sizing: &api.SizingPlan{Mode: api.SizingInPlace, Containers: []api.ContainerPlan{{Name: "web", Requests: to, Template: author, Reason: "why"}}},
	}}}
	return x
}

// alone leaves it one pod.
func (x *sized) alone() {
	x.s.Pods, x.s.Workloads[0].Replicas, x.plan.Workloads[0].Replicas = x.s.Pods[:1], 1, 1
}

func podShape(a api.Amounts) *api.PodShape {
	return &api.PodShape{ID: a.String(), Requests: api.Resources{MilliCPU: a.MilliCPU, Memory: a.Memory, Pods: 1}}
}

func podSized(i int, a api.Amounts) api.Pod {
	return api.Pod{
		Key: key(fmt.Sprintf("web-%d", i)), UID: fmt.Sprintf("uid-%d", i), Workload: key("web"), Node: fmt.Sprintf("node-%d", i%3),
		Phase: "Running", Ready: true, ControllerKind: "ReplicaSet", ControllerName: "web-1", Shape: podShape(a),
		Size: &api.PodSize{ID: a.String(), Containers: []api.ContainerSize{{Name: "web", Requests: a}}},
	}
}

// limited gives pods limits, and has them get others, within what quotas have room for.
func (x *sized) limited(has, wants api.Amounts, room *api.QuotaRoom) {
	x.s.Workloads[0].Sizing.Containers[0].Limits, x.s.Workloads[0].Sizing.Quota = has, room
	x.plan.Workloads[0].Sizing.Containers[0].Limits = wants
	for i := range x.s.Pods {
		x.s.Pods[i].Size.Containers[0].Limits = has
	}
}

// roomOf is a quota's room for requests and limits, millicores and MiB.
func roomOf(cpu, memory, limitCPU, limitMemory int64) *api.QuotaRoom {
	return &api.QuotaRoom{Quotas: "tight", Requests: amounts(cpu, memory), Limits: amounts(limitCPU, limitMemory)}
}

func (x *sized) actions() (texts []string, findings []string) {
	actions, found := execution.Sequence(x.s, x.plan, api.Policy{})
	for _, a := range actions {
		texts = append(texts, fmt.Sprint(a))
	}
	for _, f := range found {
		findings = append(findings, f.Reason)
	}
	return texts, findings
}

func TestResizePods(t *testing.T) {
	smaller, larger := amounts(250, 460), amounts(1500, 2048)
	for name, c := range map[string]struct {
		to           api.Amounts
		change       func(*sized)
		want         []string
		wantFindings []string
	}{
		"one at a time becomes smaller": {
			to: smaller, want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 250m, memory 460Mi: why"},
		},
		"all that have room become larger at once": {
			to: larger, want: []string{
				"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why",
				"resize container web of shop/web-1: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why",
				"resize container web of shop/web-2: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why",
				"resize container web of shop/web-3: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why",
			},
		},
		"no larger than the node has room for, in memory where CPU has none": {
			to: larger, change: func(x *sized) { x.s.Nodes[0].Allocatable.MilliCPU = 2600 }, want: []string{
				"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why",
				"resize container web of shop/web-1: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why",
				"resize container web of shop/web-2: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why",
				"resize container web of shop/web-3: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 2Gi: why",
			}, wantFindings: []string{"ResizeWaitsForRoom"},
		},
		"where a quota has no room, limits of memory alone": {
			to: larger, change: func(x *sized) { x.limited(amounts(2000, 2048), amounts(3000, 4096), roomOf(0, 500, 100000, 4096)) }, want: []string{
				"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 1Gi, limits cpu 2000m, memory 4Gi: why",
				"resize container web of shop/web-1: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 1Gi, limits cpu 2000m, memory 4Gi: why",
			}, wantFindings: []string{execution.ReasonResizeWaitsForQuota},
		},
		"memory alone where a quota has no room for CPU": {
			to: larger, change: func(x *sized) { x.limited(amounts(2000, 2048), amounts(3000, 4096), roomOf(0, 1024, 100000, 100000)) }, want: []string{
				"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 2Gi, limits cpu 2000m, memory 4Gi: why",
				"resize container web of shop/web-1: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 1Gi, limits cpu 2000m, memory 4Gi: why",
				"resize container web of shop/web-2: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 1Gi, limits cpu 2000m, memory 4Gi: why",
				"resize container web of shop/web-3: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 1Gi, limits cpu 2000m, memory 4Gi: why",
			}, wantFindings: []string{execution.ReasonResizeWaitsForQuota},
		},
		"limits of memory alone on a full node": {
			to: larger, change: func(x *sized) {
				x.limited(amounts(2000, 2048), amounts(3000, 4096), nil)
				for i := range x.s.Nodes {
					x.s.Nodes[i].Allocatable = api.Resources{MilliCPU: 2000, Memory: 2048 * mib, Pods: 110}
				}
			}, want: []string{
				"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 1Gi, limits cpu 2000m, memory 4Gi: why",
				"resize container web of shop/web-1: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi, limits cpu 3000m, memory 4Gi: why",
				"resize container web of shop/web-2: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi, limits cpu 3000m, memory 4Gi: why",
				"resize container web of shop/web-3: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 1Gi, limits cpu 2000m, memory 4Gi: why",
			}, wantFindings: []string{"ResizeWaitsForRoom"},
		},
		"a Guaranteed pod stays Guaranteed": {
			to: larger, change: func(x *sized) { x.limited(amounts(1000, 1024), larger, roomOf(0, 0, 100000, 100000)) }, wantFindings: []string{execution.ReasonResizeWaitsForQuota},
		},
		"a full quota keeps nobody from becoming smaller": {
			to: smaller, change: func(x *sized) { x.s.Workloads[0].Sizing.Quota = roomOf(0, 0, 0, 0) },
			want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 250m, memory 460Mi: why"},
		},
		"turned off, pods that mash2 made smaller get back what their author wrote": {
			to: smaller, change: func(x *sized) {
				x.s.Workloads[0].Sizing.Mode, x.plan.Workloads[0].Sizing.Mode = api.SizingOff, api.SizingOff
				for i := range x.s.Pods {
					x.s.Pods[i] = podSized(i, smaller)
					x.s.Pods[i].Sized = i != 1
				}
				x.s.Pods[2] = podSized(2, larger)
				x.s.Pods[2].Sized = true
			}, want: []string{
				"resize container web of shop/web-0: requests cpu 250m, memory 460Mi → cpu 1000m, memory 1Gi: sizes are not mash2's any more: what its author wrote",
				"resize container web of shop/web-3: requests cpu 250m, memory 460Mi → cpu 1000m, memory 1Gi: sizes are not mash2's any more: what its author wrote",
			},
		},
		"not those that agents made smaller": {
			to: smaller, change: func(x *sized) {
				x.s.Workloads[0].Sizing.Mode, x.plan.Workloads[0].Sizing.Mode = api.SizingRecommendOnly, api.SizingRecommendOnly
				x.s.Workloads[0].Agents = &api.Agents{}
				for i := range x.s.Pods {
					x.s.Pods[i] = podSized(i, smaller)
					x.s.Pods[i].Sized = true
				}
			},
		},
		"but those of agents whose trial was stopped": {
			to: smaller, change: func(x *sized) {
				x.s.Workloads[0].Mode, x.s.Workloads[0].Sizing.Mode = api.ModeCanary, api.SizingOff
				x.s.Workloads[0].Agents = &api.Agents{}
				x.plan.Workloads[0].Sizing.Mode, x.plan.Workloads[0].Canary = api.SizingOff, &api.CanaryPlan{Phase: api.CanaryStopped}
				x.s.Pods[1] = podSized(1, smaller)
				x.s.Pods[1].Sized = true
			}, want: []string{
				"resize container web of shop/web-1: requests cpu 250m, memory 460Mi → cpu 1000m, memory 1Gi: sizes are not mash2's any more: what its author wrote",
			},
		},
		"what a trial allows no plan of its own gets back what its author wrote": {
			to: smaller, change: func(x *sized) {
				x.s.Workloads[0].Mode = api.ModeCanary
				x.plan.Workloads[0].Sizing.Mode, x.plan.Workloads[0].Canary = api.SizingRecommendOnly, &api.CanaryPlan{Phase: api.CanaryStopped}
				x.s.Pods[1] = podSized(1, smaller)
				x.s.Pods[1].Sized = true
			}, want: []string{
				"resize container web of shop/web-1: requests cpu 250m, memory 460Mi → cpu 1000m, memory 1Gi: sizes are not mash2's any more: what its author wrote",
			},
		},
		"not those of a workload that mash2 only would have sized": {
			to: smaller, change: func(x *sized) {
				x.plan.Workloads[0].Sizing.Mode = api.SizingRecommendOnly // a canary
				for i := range x.s.Pods {
					x.s.Pods[i] = podSized(i, smaller)
					x.s.Pods[i].Sized = true
				}
			},
		},
		"not smaller before as many are Ready as the smaller size needs": {
			to: smaller, change: func(x *sized) { x.plan.Workloads[0].Replicas = 6 },
			want: []string{"scale shop/web 4 → 6: "}, wantFindings: []string{"ResizeWaitsForPods"},
		},
		"not smaller while one is on its way": {
			to: smaller, change: func(x *sized) { x.s.Pods[3].Resize = api.ResizeInProgress },
		},
		"larger first, and smaller with another write": {
			to: amounts(1500, 460), want: []string{
				"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 1Gi: why",
				"resize container web of shop/web-1: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 1Gi: why",
				"resize container web of shop/web-2: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 1Gi: why",
				"resize container web of shop/web-3: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 1Gi: why",
			},
		},
		"larger, as it needs more than what it is on its way to": {
			to: larger, change: func(x *sized) {
				x.s.Pods[0] = podSized(0, smaller)
				x.s.Pods[0].Resize = api.ResizeInProgress
				for i := range x.s.Pods[1:] {
					x.s.Pods[1+i] = podSized(1+i, larger)
				}
			},
			want: []string{"resize container web of shop/web-0: requests cpu 250m, memory 460Mi → cpu 1500m, memory 2Gi: why"},
		},
		"not smaller on stale eyes": {
			to: smaller, change: func(x *sized) { x.s.Unproven = "pods may be old" }, wantFindings: []string{"NotCurrent"},
		},
		"larger though it is held, as no pod is Ready and nothing is known of its demand": {
			to: larger, change: func(x *sized) {
				x.plan.Workloads[0].Held, x.plan.Workloads[0].Reason = true, "no demand is known"
				x.s.Pods, x.s.Workloads[0].Replicas, x.plan.Workloads[0].Replicas = x.s.Pods[:1], 1, 1
				x.s.Pods[0].Ready = false
			},
			want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 2Gi: why"},
		},
		"not smaller while it is held": {
			to: smaller, change: func(x *sized) { x.plan.Workloads[0].Held, x.plan.Workloads[0].Reason = true, "no demand is known" },
		},
		"not while somebody else writes to it": {
			to: larger, change: func(x *sized) { x.s.Workloads[0].Hold, x.plan.Workloads[0].Held = "an HPA scales it", true },
		},
		"only larger while it may not become smaller": {
			to: amounts(1500, 460), change: func(x *sized) {
				x.s.Pods, x.s.Workloads[0].Replicas, x.plan.Workloads[0].Replicas = x.s.Pods[:1], 1, 1
				x.s.Pods[0].Ready = false
			},
			want:         []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1500m, memory 1Gi: why"},
			wantFindings: []string{"ResizeWaitsForPods"},
		},
		"a lower limit waits as a lower request does": {
			to: amounts(1000, 1024), change: func(x *sized) {
				for i := range x.s.Pods {
					x.s.Pods[i].Ready = false
					x.s.Pods[i].Size = &api.PodSize{Containers: []api.ContainerSize{{Name: "web", Requests: amounts(1000, 1024), Limits: amounts(2000, 2048)}}}
				}
				x.plan.Workloads[0].Sizing.Containers[0].Limits = amounts(1500, 1536)
			}, wantFindings: []string{"ResizeWaitsForPods"},
		},
		"a recommendation changes nothing": {
			to: smaller, change: func(x *sized) { x.plan.Workloads[0].Sizing.Mode = api.SizingRecommendOnly },
		},
		"new pods only changes none that runs": {
			to: smaller, change: func(x *sized) { x.plan.Workloads[0].Sizing.Mode = api.SizingInitialOnly },
		},
		"not while pods are replaced": {to: smaller, change: func(x *sized) { x.s.Workloads[0].RollingOut = true }},
		"not in Shadow":               {to: smaller, change: func(x *sized) { x.s.Workloads[0].Mode = api.ModeShadow }},
		"what would restart is left": {
			to: smaller, change: func(x *sized) { x.s.Workloads[0].Sizing.Containers[0].RestartMemory = true },
			want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 250m, memory 1Gi: why"},
		},
		"who was resized by somebody else is left": {
			to: smaller, change: func(x *sized) { x.s.Pods[0].Size = nil },
			want: []string{"resize container web of shop/web-1: requests cpu 1000m, memory 1Gi → cpu 250m, memory 460Mi: why"},
		},
		"who has it is left": {
			to: smaller, change: func(x *sized) {
				for i := range x.s.Pods {
					x.s.Pods[i] = podSized(i, smaller)
				}
				x.s.Pods[1].Resize, x.s.Pods[1].ResizeMessage = api.ResizeInfeasible, "Node didn't have enough capacity"
			}, wantFindings: []string{"ResizeInfeasible"},
		},
		"limits of Guaranteed pods go with it": {
			to: smaller, change: func(x *sized) {
				for i := range x.s.Pods {
					x.s.Pods[i].Size = &api.PodSize{Containers: []api.ContainerSize{{Name: "web", Requests: amounts(1000, 1024), Limits: amounts(1000, 1024)}}}
				}
				x.plan.Workloads[0].Sizing.Containers[0].Limits = smaller
			},
			want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 250m, memory 460Mi, limits cpu 250m, memory 460Mi: why"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSized(4, c.to)
			if c.change != nil {
				c.change(x)
			}
			got, findings := x.actions()
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("actions (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.wantFindings, findings); d != "" {
				t.Errorf("findings (-want +got):\n%s", d)
			}
		})
	}
}

// TestResizesTakeTurns: a workload whose resizes the API server refuses, all that one cycle
// does and more, does not keep the others from theirs.
func TestResizesTakeTurns(t *testing.T) {
	x := newSized(60, amounts(1001, 1024))
	for i := range x.s.Nodes {
		x.s.Nodes[i].Allocatable = api.Resources{MilliCPU: 100_000, Memory: 200_000 * mib, Pods: 110}
	}
	w, wp := x.s.Workloads[0], x.plan.Workloads[0]
	w.Key, wp.Key = key("zoo"), key("zoo")
	w.Target.Name, w.Replicas, wp.Replicas, wp.NodeReplicas, wp.Current = "zoo", 1, 1, 1, 1
	x.s.Workloads, x.plan.Workloads = append(x.s.Workloads, w), append(x.plan.Workloads, wp)
	pod := podSized(60, amounts(1000, 1024))
	pod.Key, pod.Workload = key("zoo-0"), key("zoo")
	x.s.Pods = append(x.s.Pods, pod)
	turns := 0
	for range 40 {
		actions, _ := x.actions()
		if len(actions) != 50 {
			t.Fatalf("%d actions", len(actions))
		}
		if slices.ContainsFunc(actions, func(a string) bool { return strings.Contains(a, "zoo-0") }) {
			turns++
		}
		x.s.Time = x.s.Time.Add(15 * time.Second)
	}
	if turns < 10 || turns > 30 {
		t.Errorf("the other workload had %d of 40 turns", turns)
	}
}

// kubelet is what one does with the size of a pod: what runs may differ from what is asked.
type kubelet struct {
	runs  api.Amounts
	usage int64 // bytes; it refuses less than that
}

// TestResizeErrorsAreOne: what a kubelet says of bytes that are used now is no news each time.
func TestResizeErrorsAreOne(t *testing.T) {
	said := map[string]bool{}
	for _, used := range []int{70320128, 70582272} {
		x := newSized(1, amounts(250, 32))
		x.s.Pods[0] = podSized(0, amounts(250, 32))
		x.s.Pods[0].Resize = api.ResizeError
		x.s.Pods[0].ResizeMessage = fmt.Sprintf("cannot decrease memory limits: attempting to set pod memory limit (33554432) below current usage (%d)", used)
		_, found := execution.Sequence(x.s, x.plan, api.Policy{})
		for _, f := range found {
			if f.Reason == execution.ReasonResizeError {
				said[f.Message] = true
			}
		}
	}
	if len(said) != 1 {
		t.Errorf("said %v", said)
	}
}

// TestInfeasible: a pod whose node refuses a resize for its CPU gets the memory that it lacks,
// with the CPU that it has, and is asked for nothing else.
func TestInfeasible(t *testing.T) {
	to := amounts(250, 2048)
	for name, c := range map[string]struct {
		asks, has  api.Amounts
		infeasible bool
		want       []string
	}{
		"as it was":                {asks: amounts(1000, 1024), want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 1Gi → cpu 1000m, memory 2Gi: why"}},
		"smaller with that":        {asks: amounts(1000, 2048), want: []string{"resize container web of shop/web-0: requests cpu 1000m, memory 2Gi → cpu 250m, memory 2Gi: why"}},
		"refused as a whole":       {asks: to, has: amounts(1000, 1024), infeasible: true, want: []string{"resize container web of shop/web-0: requests cpu 250m, memory 2Gi → cpu 1000m, memory 2Gi: why"}},
		"of memory alone, too":     {asks: amounts(1000, 2048), has: amounts(1000, 1024), infeasible: true},
		"with all of the memory":   {asks: to, has: amounts(1000, 2048), infeasible: true},
		"with more of it":          {asks: to, has: amounts(1000, 4096), infeasible: true},
		"for CPU that it has":      {asks: to, has: amounts(250, 1024), infeasible: true},
		"of a plan that is old":    {asks: amounts(300, 1024), has: amounts(1000, 1024), infeasible: true, want: []string{"resize container web of shop/web-0: requests cpu 300m, memory 1Gi → cpu 300m, memory 2Gi: why"}},
		"and nobody says what for": {asks: to, infeasible: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSized(1, to)
			x.s.Pods[0] = podSized(0, c.asks)
			if c.infeasible {
				x.s.Pods[0].Resize, x.s.Pods[0].ResizeMessage = api.ResizeInfeasible, "static CPUs"
			}
			if c.has != (api.Amounts{}) {
				x.s.Pods[0].Held, x.s.Pods[0].Shape = podSized(0, c.has).Size, podShape(c.has)
			}
			if got, _ := x.actions(); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestResizesUnderFaults: whatever API server and kubelets do (writes that fail, resizes
// that are deferred, infeasible, refused for a time, or lost with a restart of the
// kubelet), a workload gets its size, nothing is evicted, what is infeasible is not asked
// for again, what failed is within two cycles, nodes are not overfilled, and the Ready pods
// request no less than what is wanted of the smaller size.
func TestResizesUnderFaults(t *testing.T) {
	sequences := *resizeSequences
	if testing.Short() {
		sequences /= 10
	}
	for seed := range sequences {
		faults(t, rand.New(rand.NewPCG(uint64(seed), 7)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func faults(t *testing.T, r *rand.Rand) {
	to := amounts(100+r.Int64N(4000), 100+r.Int64N(6000))
	x := newSized(1+r.Int32N(8), to)
	kubelets := make([]kubelet, len(x.s.Pods))
	for i := range kubelets {
		kubelets[i] = kubelet{amounts(1000, 1024), r.Int64N(1024) * mib}
	}
	infeasible := map[string]bool{}
	failed := map[api.Key]int{} // cycles since a write to a pod failed
	var least int64
	for range x.s.Workloads[0].Replicas {
		least += min(1000, to.MilliCPU)
	}
	for cycle := range 40 {
		calm := cycle >= 20 // faults end, and then all must be well
		actions, _ := execution.Sequence(x.s, x.plan, api.Policy{})
		asked := map[api.Key]bool{}
		for _, a := range actions {
			resize, ok := a.(api.ResizePod)
			if !ok {
				t.Fatalf("cycle %d: %v", cycle, a)
			}
			i := slices.IndexFunc(x.s.Pods, func(p api.Pod) bool { return p.Key == resize.Pod })
			id := fmt.Sprint(resize.Pod, resize.To)
			if asked[resize.Pod] = true; infeasible[id] {
				t.Fatalf("cycle %d: infeasible and asked for again: %v", cycle, a)
			}
			if !calm && r.IntN(4) == 0 {
				failed[resize.Pod] = 0 // the API server refuses for a moment
				continue
			}
			delete(failed, resize.Pod)
			pod := &x.s.Pods[i]
			resized := podSized(i, resize.To)
			pod.Size, pod.Shape = resized.Size, resized.Shape
		}
		// One that becomes smaller waits for others that do.
		waits := len(actions) > 0 || slices.ContainsFunc(x.s.Pods, func(p api.Pod) bool { return p.Resize == api.ResizeInProgress || p.Resize == api.ResizeError })
		for pod := range failed {
			if failed[pod]++; waits && !asked[pod] {
				failed[pod] = 0
			}
			if failed[pod] > 2 {
				t.Fatalf("cycle %d: %s failed and was not tried again", cycle, pod)
			}
		}
		used := map[string]api.Amounts{}
		var ready int64
		for i := range x.s.Pods {
			pod, k := &x.s.Pods[i], &kubelets[i]
			wants := pod.Size.Containers[0].Requests
			u := used[pod.Node]
			used[pod.Node] = api.Amounts{MilliCPU: u.MilliCPU + wants.MilliCPU, Memory: u.Memory + wants.Memory}
			ready += k.runs.MilliCPU
			pod.Resize, pod.ResizeMessage = "", ""
			switch {
			case wants == k.runs:
			case infeasible[fmt.Sprint(pod.Key, wants)], !calm && r.IntN(10) == 0: // static CPUs, say
				pod.Resize = api.ResizeInfeasible
				infeasible[fmt.Sprint(pod.Key, wants)] = true
			case wants.Memory < k.usage && !calm:
				pod.Resize = api.ResizeError
				k.usage = r.Int64N(1024) * mib
			case !calm && r.IntN(3) == 0:
				pod.Resize = []api.ResizeState{api.ResizeInProgress, api.ResizeDeferred}[r.IntN(2)] // InProgress, too: its kubelet is down
			default:
				k.runs = wants
			}
		}
		for node, u := range used {
			if u.MilliCPU > 4000 || u.Memory > 8192*mib {
				t.Fatalf("cycle %d: %s is asked for %s", cycle, node, u)
			}
		}
		if ready < least {
			t.Fatalf("cycle %d: Ready pods request %dm, %dm are wanted", cycle, ready, least)
		}
	}
	for i, p := range x.s.Pods {
		is, room := p.Size.Containers[0].Requests, kubelets[i].runs == to
		grows := to.MilliCPU > 1000 || to.Memory > 1024*mib
		if !room && !grows && !infeasible[fmt.Sprint(p.Key, to)] {
			t.Fatalf("%s requests %s in the end, want %s", p.Key, is, to)
		}
	}
}
