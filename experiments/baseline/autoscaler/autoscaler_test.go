package autoscaler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

const gib = 1 << 30

// A node offers 1900m and 6 GiB for 2 vCPU and 8 GiB; DaemonSets take 200m of it.
func template(group int) Node {
	return Node{
		Group:       group,
		Allocatable: api.Resources{MilliCPU: 1900, Memory: 6 * gib, Pods: 110},
		Capacity:    api.Resources{MilliCPU: 2000, Memory: 8 * gib},
		Used:        api.Resources{MilliCPU: 200, Pods: 2},
	}
}

func pods(n int, milliCPU int64) []*Pod {
	var out []*Pod
	for range n {
		out = append(out, &Pod{Requests: api.Resources{MilliCPU: milliCPU, Memory: gib / 4, Pods: 1}})
	}
	return out
}

// twoZones is a pool of 1 to 4 nodes in each of two zones, one node there each
// with the given pods.
func twoZones(on ...[]*Pod) View {
	var v View
	for i, zone := range []string{"a", "b"} {
		v.Groups = append(v.Groups, Group{Name: "pool-" + zone, Pool: "pool", Zone: zone, On: true, Balanced: true, Min: 1, Max: 4, Template: template(i)})
	}
	for i, p := range on {
		v.add(i%2, p...)
	}
	return v
}

// add a Ready node.
func (v *View) add(group int, on ...*Pod) *Node {
	n := v.Groups[group].Template
	n.Name = fmt.Sprintf("%s-%d", v.Groups[group].Name, len(v.Nodes))
	n.Registered, n.Ready, n.Booted = true, true, true
	for _, p := range on {
		n.Used = n.Used.Plus(p.Requests)
	}
	n.Pods = on
	v.Groups[group].Size++
	v.Nodes = append(v.Nodes, n)
	return &v.Nodes[len(v.Nodes)-1]
}

func newAutoscaler() *Autoscaler {
	return &Autoscaler{Rules: DefaultRules(), Src: rand.NewPCG(1, 1)}
}

// What grows, by zone.
func TestGrowth(t *testing.T) {
	full := pods(1, 1700)
	for name, tt := range map[string]struct {
		pending []*Pod
		edit    func(*View)
		want    string // zones of the new nodes
	}{
		"nothing pending":                                       {},
		"what fits on the nodes that are there":                 {pending: pods(1, 100), edit: func(v *View) { v.add(0) }},
		"one node holds one of 1000m (BinpackingNodeEstimator)": {pending: pods(3, 1000), want: "a b a"},
		"one node holds three of 500m":                          {pending: pods(3, 500), want: "a"},
		"the larger ones first (DecreasingPodOrderer)":          {pending: append(pods(2, 600), pods(2, 1100)...), want: "a b"},
		"not what no node would hold":                           {pending: pods(1, 1701)},
		"not beyond Max":                                        {pending: pods(20, 1000), want: "a b a b a b"},
		"the smaller zone first (BalanceScaleUpBetweenGroups)": {
			pending: pods(3, 1000), edit: func(v *View) { v.add(0, pods(1, 1700)...) }, want: "b a b",
		},
		"not beyond the pool's maximum": {
			pending: pods(20, 1000), want: "a",
			edit: func(v *View) {
				for i := range v.Groups {
					v.Groups[i].PoolMax = 3
				}
			},
		},
		"what is given up makes room below the pool's maximum": {
			pending: pods(4, 1000), want: "b",
			edit: func(v *View) {
				for range 3 {
					v.add(0, pods(1, 1700)...)
				}
				n := &v.Nodes[len(v.Nodes)-1]
				n.Phase, n.Registered, n.Ready, n.Booted, n.Pods = Refused, false, false, false, nil
				v.Groups[0].PoolMax, v.Groups[1].PoolMax = 5, 5
			},
		},
		"not where it is off": {pending: pods(3, 1000), want: "b b b", edit: func(v *View) { v.Groups[0].On = false }},
		"not where the pod may not go": {
			pending: pods(2, 1000), want: "b b",
			edit: func(v *View) { v.Allowed = func(_ *Pod, n *Node) bool { return n.Group == 1 } },
		},
		"each zone for itself where it isn't balanced": {
			pending: pods(4, 1000), want: "a a a", // either zone would do; it has room for three
			edit: func(v *View) { v.Groups[0].Balanced, v.Groups[1].Balanced = false, false },
		},
		"not what a coming node will hold (addUpcomingNodes)": {
			pending: pods(2, 800),
			edit: func(v *View) {
				n := v.add(0)
				n.Phase, n.Registered, n.Ready, n.Booted, n.Requested = Coming, false, false, false, time.Hour
			},
		},
		"what a coming node will not hold": {
			pending: pods(3, 800), want: "b",
			edit: func(v *View) {
				n := v.add(0)
				n.Phase, n.Registered, n.Ready, n.Booted, n.Requested = Coming, false, false, false, time.Hour
			},
		},
		"the least waste of capacity (expander/waste)": {
			// 4 CPU and 8 GiB for two pods of 1500m: 25 % and 94 % are left; two nodes
			// of 2 CPU and 8 GiB leave 25 % and 97 %.
			pending: pods(2, 1500), want: "large",
			edit: func(v *View) {
				large := template(2)
				large.Allocatable.MilliCPU, large.Capacity.MilliCPU = 3900, 4000
				v.Groups = append(v.Groups, Group{Name: "large", Pool: "large", Zone: "large", On: true, Max: 3, Template: large})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := twoZones(full, full)
			v.Pending = tt.pending
			if tt.edit != nil {
				tt.edit(&v)
			}
			var zones []string
			for _, g := range newAutoscaler().Scan(time.Hour, v).Grow {
				zones = append(zones, v.Groups[g].Zone)
			}
			if got := strings.Join(zones, " "); got != tt.want {
				t.Errorf("new nodes in %q, want %q", got, tt.want)
			}
		})
	}
}

// history plays scans every ten seconds and returns when something was decided,
// of a view that edit makes anew each time.
func history(a *Autoscaler, until time.Duration, view func(time.Duration) View) []string {
	var out []string
	for now := time.Duration(0); now <= until; now += a.Rules.ScanInterval {
		v := view(now)
		d := a.Scan(now, v)
		for _, name := range d.GiveUp {
			out = append(out, fmt.Sprintf("%v give up %s", now, name))
		}
		if len(d.Grow) > 0 {
			out = append(out, fmt.Sprintf("%v grow by %d", now, len(d.Grow)))
		}
		for _, r := range d.Remove {
			out = append(out, fmt.Sprintf("%v remove %s, evict %d", now, r.Node, len(r.Evict)))
		}
	}
	return out
}

// When what is removed. Removals never end here unless a case says so.
func TestRemoval(t *testing.T) {
	always := func(v View) func(time.Duration) View { return func(time.Duration) View { return v } }
	full, third, empty := pods(1, 1700), pods(1, 500), []*Pod(nil)
	daemon := &Pod{Requests: api.Resources{MilliCPU: 10, Pods: 1}, Removal: Ignored}
	for name, tt := range map[string]struct {
		rules func(*Rules)
		view  func(time.Duration) View
		until time.Duration
		want  []string
	}{
		"an empty node after ten minutes (scale-down-unneeded-time)": {
			view: always(twoZones(full, full, empty)), want: []string{"10m0s remove pool-a-2, evict 0"},
		},
		"pods that go with the node keep it empty": {
			view: always(twoZones(full, full, []*Pod{daemon})), want: []string{"10m0s remove pool-a-2, evict 0"},
		},
		"not below the minimum": {view: always(twoZones(full, empty))},
		"not below the pool's minimum": {
			view: func(time.Duration) View {
				v := twoZones(full, full, empty, empty)
				for i := range v.Groups {
					v.Groups[i].PoolMax, v.Groups[i].PoolMin = 9, 3
				}
				return v
			},
			want: []string{"10m0s remove pool-a-2, evict 0"},
		},
		"all empty ones at once, up to ten (max-empty-bulk-delete)": {
			view: func(time.Duration) View {
				v := twoZones(full, full)
				for range 12 {
					v.add(0)
				}
				return v
			},
			want: func() (out []string) {
				for i := range 10 {
					out = append(out, fmt.Sprintf("10m0s remove pool-a-%d, evict 0", i+2))
				}
				return out
			}(),
		},
		"little used ones are drained one at a time (max-drain-parallelism)": {
			// 700m of 1900m. Both fit on the free half of two others.
			view: always(twoZones(pods(1, 1000), pods(1, 1000), third, third)),
			want: []string{"10m0s remove pool-a-2, evict 1"},
		},
		"half used ones stay (scale-down-utilization-threshold)": {
			view: always(twoZones(pods(1, 760), pods(1, 760), pods(1, 760), pods(1, 760))), // 960/1900 = 0.505
		},
		"by memory too": {
			view: func(time.Duration) View {
				v := twoZones(full, full, empty)
				v.Nodes[2].Used.Memory = 3 * gib
				return v
			},
		},
		"not where pods find no other place": {view: always(twoZones(full, full, third))},
		"places are taken once": {
			// 700m are free elsewhere: one of two fits, the other does not.
			view: always(twoZones(pods(1, 1000), full, third, third)), want: []string{"10m0s remove pool-a-2, evict 1"},
		},
		"what moved to a node moves on with it": {
			// The 700m of the second fit on the third, which then has 1000m to move,
			// and only 300m and 600m are free elsewhere.
			rules: func(r *Rules) { r.MaxDrainParallelism = 3 },
			view:  always(twoZones(pods(1, 1400), pods(1, 700), pods(1, 300), pods(1, 1100))),
			want:  []string{"10m0s remove pool-b-1, evict 1"},
		},
		"what can't move all leaves places free": {
			// Of 300m and 440m only the first fits on the first node, which has 400m
			// free; so the fourth's 350m may go there.
			view: func(time.Duration) View {
				v := twoZones(pods(1, 1300), full, append(pods(1, 300), pods(1, 440)...), pods(1, 350))
				v.Nodes[2].Allocatable.Pods = 4 // no more
				v.Nodes[3].Allocatable.Pods = 3
				return v
			},
			want: []string{"10m0s remove pool-b-3, evict 1"},
		},
		"several drains at once where that is allowed": {
			rules: func(r *Rules) { r.MaxDrainParallelism = 3 },
			view:  always(twoZones(pods(1, 800), pods(1, 800), pods(1, 300), pods(1, 300))),
			want:  []string{"10m0s remove pool-a-2, evict 1", "10m0s remove pool-b-3, evict 1"},
		},
		"what pending pods will take is used": {
			view: func(time.Duration) View {
				v := twoZones(full, full, empty, pods(1, 760)) // the fourth has 940m free
				v.Pending = pods(1, 900)                       // goes to the third
				return v
			},
		},
		"not kept ones": {
			view: func(time.Duration) View {
				v := twoZones(full, full, empty)
				v.Nodes[2].Kept = true
				return v
			},
		},
		"not with a pod that forbids it": {
			view: always(twoZones(full, full, []*Pod{{Requests: api.Resources{MilliCPU: 10, Pods: 1}, Removal: Forbids}})),
		},
		"not Ready ones after twenty minutes (scale-down-unready-time)": {
			until: 25 * time.Minute,
			view: func(time.Duration) View {
				v := twoZones(full, full, empty)
				v.Nodes[2].Ready = false
				v.Nodes[2].Requested = -time.Hour
				return v
			},
			want: []string{"20m0s remove pool-a-2, evict 0"},
		},
		"need in between starts the time anew": {
			until: 20 * time.Minute,
			view: func(now time.Duration) View {
				if now == 5*time.Minute {
					return twoZones(full, full, full)
				}
				return twoZones(full, full, empty)
			},
			want: []string{"15m10s remove pool-a-2, evict 0"},
		},
		"what could not be removed is looked at five minutes later (unremovable-node-recheck-timeout)": {
			until: 20 * time.Minute,
			view: func(now time.Duration) View {
				if now == 0 {
					return twoZones(full, full, third)
				}
				return twoZones(full, pods(1, 1000), third) // there is room since
			},
			want: []string{"15m0s remove pool-a-2, evict 1"},
		},
		"not for ten minutes after a growth (scale-down-delay-after-add)": {
			until: 20 * time.Minute,
			view: func(now time.Duration) View {
				v := twoZones(full, full, empty)
				if now == 9*time.Minute {
					v.Pending = pods(2, 1700) // one of them takes the empty node
				}
				return v
			},
			want: []string{"9m0s grow by 1", "19m0s remove pool-a-2, evict 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAutoscaler()
			if tt.rules != nil {
				tt.rules(&a.Rules)
			}
			if tt.until == 0 {
				tt.until = 12 * time.Minute
			}
			if diff := cmp.Diff(tt.want, history(a, tt.until, tt.view)); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
		})
	}
}

// A drain that failed gives the node back and stops removals for three minutes;
// the node's time begins anew.
func TestFailedDrain(t *testing.T) {
	a := newAutoscaler()
	v := twoZones(pods(1, 1000), pods(1, 1000), pods(1, 500), nil)
	got := history(a, 25*time.Minute, func(now time.Duration) View {
		if now == 11*time.Minute {
			a.RemovalEnded(now, "pool-a-2", false)
		}
		return v
	})
	want := []string{
		"10m0s remove pool-b-3, evict 0", "10m0s remove pool-a-2, evict 1", // both at once: one is empty
		"21m0s remove pool-a-2, evict 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// Instances that don't come are given up after fifteen minutes, refused ones at
// once; their group is left alone for five minutes, ten after the next failure.
func TestGivingUp(t *testing.T) {
	a := newAutoscaler()
	got := history(a, 40*time.Minute, func(now time.Duration) View {
		v := twoZones(pods(1, 1700))
		v.Groups[1].On = false
		v.Pending = pods(1, 1700)
		n := v.add(0)
		n.Name, n.Registered, n.Ready, n.Booted = "late", false, false, false
		switch {
		case now <= 15*time.Minute+10*time.Second: // a coming node would hold the pod
		case now == 21*time.Minute:
			n.Name, n.Phase = "refused", Refused
		default:
			v.Nodes = v.Nodes[:1]
		}
		return v
	})
	var first []string // of each kind
	for i, line := range got {
		kind := strings.Fields(line)[1]
		if i == 0 || strings.Fields(got[i-1])[1] != kind {
			first = append(first, line)
		}
	}
	want := []string{"15m10s give up late", "20m10s grow by 1", "21m0s give up refused", "31m0s grow by 1"}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestBackoff(t *testing.T) {
	a := newAutoscaler()
	pause := func(now time.Duration) time.Duration {
		a.GrowthFailed(now, "g")
		return a.backoffs["g"].until - now
	}
	now := time.Duration(0)
	for _, want := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		if got := pause(now); got != want {
			t.Errorf("at %v paused for %v, want %v", now, got, want)
		}
		now += want + time.Second
	}
	if got := pause(now + 4*time.Hour); got != 5*time.Minute {
		t.Errorf("after four hours paused for %v", got)
	}
}

func TestRules(t *testing.T) {
	if got := (Rules{}).WithDefaults(); got != DefaultRules() {
		t.Errorf("defaults are %+v", got)
	}
	if err := DefaultRules().Validate(); err != nil {
		t.Error(err)
	}
	fast := DefaultRules().Faster(10)
	if fast.ScanInterval != time.Second || fast.NodeGroupBackoffReset != 18*time.Minute || fast.MaxDrainParallelism != 1 {
		t.Errorf("ten times faster: %+v", fast)
	}
	for name, edit := range map[string]func(*Rules){
		"ScanInterval":                  func(r *Rules) { r.ScanInterval = -1 },
		"ScaleDownUtilizationThreshold": func(r *Rules) { r.ScaleDownUtilizationThreshold = -0.1 },
		"MaxDrainParallelism":           func(r *Rules) { r.MaxDrainParallelism = -1 },
	} {
		r := DefaultRules()
		edit(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// names of what is removed.
func names(d Decision) []string {
	var out []string
	for _, r := range d.Remove {
		out = append(out, r.Node)
	}
	slices.Sort(out)
	return out
}
