package execution

import (
	"math/rand/v2"
	"slices"

	"github.com/mash2-io/mash2/api"
)

const (
	// resizesAtOnce is the most pods that one cycle resizes, of all workloads: each is a
	// write.
	resizesAtOnce = 50
	// shrinkShare is which part of a workload's pods may be on the way to a smaller size
	// at a time; at least one.
	shrinkShare = 10
)

// resizePods brings running pods to the size that is planned for their containers, through
// the resize subresource: nothing is restarted, and nobody is evicted for room.
//
// Growing needs room on the node. Shrinking waits until as many pods are Ready as the
// smaller size needs, goes on for a tenth of the pods at a time, and not while pods are
// replaced or moved. What may not become smaller now becomes larger where it needs to, and
// what becomes larger comes before what becomes smaller.
//
// With InitialOnly running pods stay as they are, but for limits that admission lowered and the plan no
// longer does: a container would be killed at that of memory again and again, in the same pod.
//
// While pods are replaced those that are not Ready become larger: the rollout would wait for ever for one
// that can't start as small as it is. Of the others, which may be there for long where it gets nowhere, only
// lowered limits of memory rise, once a container was killed: what they grow by, new pods may need.
//
// Pods of a workload that is held as its demand is not known become larger, too: that none of
// them is Ready may be why it is not known, and a larger one what they need. Where it is held for
// something else nobody plans its sizes: those that mash2 made smaller and that are not Ready get what
// is planned or written, whatever is more, and the others as in a rollout.
//
// Where KEDA scales, sizes are mash2's.
//
// Where more pods are to be resized than one cycle does, workloads begin in turn: what the
// API server refuses of one is asked for again and again, and must not keep the others waiting.
func (q *sequencer) resizePods() {
	var all []resized
	wanted := 0
	for i := range q.plan.Workloads {
		wp := &q.plan.Workloads[i]
		w := q.workloads[wp.Key]
		if !q.resizing[wp.Key] && !q.growing[wp.Key] {
			continue
		}
		if w.Agents != nil {
			q.replaceKilled(w)
		}
		if w.Sizing == nil || wp.Sizing == nil {
			continue
		}
		each := resized{w: w, wp: wp, plan: wp.Sizing}
		switch {
		case w.Hold != "" && each.plan.Mode.Acts():
			if w.Agents != nil || w.Sizing.Hold != "" { // theirs, or somebody else's
				continue
			}
			each.back, each.held, each.plan = true, true, atLeastWritten(w, each.plan)
		case each.plan.Acts() && each.plan.Mode == api.SizingInPlace:
		case w.Agents != nil && !q.staying[w.Key]: // theirs
			continue
		case each.plan.Acts(): // admission made pods smaller, and nobody else looks after them
			each.back, each.limits = true, true
		case !each.plan.Mode.Acts() && (!w.Sizing.Mode.Acts() || q.staying[w.Key]): // nobody looks after what it once chose
			each.back, each.plan = true, &api.SizingPlan{Containers: w.Sizing.Authors("sizes are not mash2's any more: what its author wrote")}
		default:
			continue
		}
		all = append(all, each)
		for _, p := range q.podsOfWorkload(w.Key).stay {
			if wanted <= resizesAtOnce && p.Size != nil {
				wanted += len(each.changes(p, false))
			}
		}
	}
	if wanted > resizesAtOnce {
		turn := rand.New(rand.NewPCG(uint64(q.snapshot.Time.UnixNano()), 0)).IntN(len(all)) //nolint:gosec // a turn, no secret
		all = append(all[turn:], all[:turn]...)
	}
	left := resizesAtOnce
	room := resizeRoom{q: q, nodes: map[string]api.Resources{}, quotas: map[string]api.QuotaRoom{}}
	for _, each := range all {
		w, wp, plan := each.w, each.wp, each.plan
		ps := q.podsOfWorkload(w.Key)
		wants := wp.Replicas // of pods that are Ready, before one becomes smaller
		if w.Actuator == api.ActuatorKEDA {
			wants = max(wants, w.Replicas)
		}
		shrinks := max(1, len(ps.stay)/shrinkShare)
		for _, p := range ps.stay {
			if p.Resize == api.ResizeInProgress || p.Resize == api.ResizeError {
				shrinks--
			}
		}
		waiting, cramped, beyond := 0, 0, 0
		for _, p := range ps.stay {
			if p.Size == nil || p.Node == "" || p.Phase != "Running" || q.dying[p.Node] {
				continue
			}
			q.replace(each, p)
			changes := each.changes(p, false)
			if p.Resize == api.ResizeInfeasible {
				changes = instead(w, plan, p, changes)
			}
			if !q.resizing[w.Key] || len(ps.old) > 0 || ps.readyAll < wants || !p.Ready || p.Resize == api.ResizeInProgress || shrinks <= 0 {
				before := waiting
				for _, a := range changes {
					if a.smaller {
						waiting++
					}
				}
				if waiting > before {
					changes = each.changes(p, true)
				}
			}
			if slices.ContainsFunc(changes, resize.larger) && slices.ContainsFunc(changes, func(a resize) bool { return a.smaller }) {
				// A kubelet that can't take something away gives nothing else either.
				changes = each.changes(p, true)
			}
			for _, a := range changes {
				switch {
				case left <= 0:
				case a.smaller && shrinks <= 0: // the pod's containers are several
					waiting++
				case !room.takes(w, p.Node, a):
					if room.ofQuota(w, a) {
						beyond++
					} else {
						cramped++
					}
					// Who has too little memory is killed, and who has too little CPU is late.
					for _, less := range []resize{a.memory(), a.limits()} {
						if less.saves(p) && room.takes(w, p.Node, less) {
							left--
							q.grows = append(q.grows, less.ResizePod)
							break
						}
					}
				case a.smaller:
					left--
					shrinks--
					q.shrinks = append(q.shrinks, a.ResizePod)
				default:
					left--
					q.grows = append(q.grows, a.ResizePod)
				}
			}
		}
		if cramped > 0 {
			q.note(api.VerticalScalingAgent, "ResizeWaitsForRoom", api.WorkloadRef(w.Key),
				"%d containers need larger requests than their nodes have room for; new pods get the larger requests", cramped)
		}
		if beyond > 0 {
			q.note(api.VerticalScalingAgent, ReasonResizeWaitsForQuota, api.WorkloadRef(w.Key),
				"%d containers need more than ResourceQuota %s has room for; limits of memory that it lets be larger are raised alone", beyond, w.Sizing.Quota.Quotas)
		}
		if waiting > 0 && ps.readyAll < wants {
			q.note(api.VerticalScalingAgent, "ResizeWaitsForPods", api.WorkloadRef(w.Key),
				"requests are lowered when %d pods are Ready; now %d are", wants, ps.readyAll)
		}
		q.explainResizes(w, ps.stay)
	}
}

// resized is a workload whose running pods are brought to a plan.
type resized struct {
	w    *api.Workload
	wp   *api.WorkloadPlan
	plan *api.SizingPlan
	// back: pods that mash2 made smaller get back what they need, and nothing else changes. With limits
	// that is what limits keep them from. held: nobody plans, and those that are Ready get as little as in a
	// rollout.
	back, limits, held bool
}

// atLeastWritten is a plan of what is planned or written for containers, whatever is more.
func atLeastWritten(w *api.Workload, plan *api.SizingPlan) *api.SizingPlan {
	out := &api.SizingPlan{Containers: w.Sizing.Authors("its workload is held: no less than its author wrote")}
	for i := range out.Containers {
		if i >= len(plan.Containers) {
			break
		}
		is, planned := &out.Containers[i], plan.Containers[i]
		is.Requests.MilliCPU, is.Requests.Memory = max(is.Requests.MilliCPU, planned.Requests.MilliCPU), max(is.Requests.Memory, planned.Requests.Memory)
		is.Limits.MilliCPU, is.Limits.Memory = max(is.Limits.MilliCPU, planned.Limits.MilliCPU), max(is.Limits.Memory, planned.Limits.Memory)
	}
	return out
}

// changes bring a pod to the plan; with larger only those of what becomes larger.
func (r resized) changes(p *api.Pod, larger bool) []resize {
	old := (r.w.RollingOut || r.held) && p.Ready
	if (r.back || old) && !p.Sized {
		return nil
	}
	out := resizes(r.w, r.plan, p, larger || r.back || r.w.RollingOut)
	if !r.limits && !old {
		return out
	}
	var lifted []resize
	for _, a := range out {
		i := slices.IndexFunc(r.w.Sizing.Containers, func(u api.ContainerUse) bool { return u.Name == a.Container })
		u := &r.w.Sizing.Containers[i]
		written := u.Limits
		if old && u.OOMKilled.IsZero() {
			continue
		}
		if old {
			a = a.memory()
		}
		if a.had.Memory >= written.Memory || a.Limits.Memory <= a.had.Memory {
			a = a.cpu()
		}
		if a.had.MilliCPU >= written.MilliCPU || a.Limits.MilliCPU <= a.had.MilliCPU {
			a = a.memory()
		}
		if a.Limits != a.had {
			lifted = append(lifted, a)
		}
	}
	return lifted
}

// replaceKilled evicts pods whose containers are killed again and again, and that agents resized: they get
// more in place only, and their replacements what the template says.
func (q *sequencer) replaceKilled(w *api.Workload) {
	for _, p := range q.podsOfWorkload(w.Key).stay {
		if p.Resized {
			q.evictKilled(p, "its replacement has what its template says")
		}
	}
}

// replace evicts a pod whose containers are killed again and again, where its replacement has more, by the
// plan. It is resized all the same: an eviction may be refused, and a container may run by then.
func (q *sequencer) replace(r resized, p *api.Pod) {
	if !p.Resized && len(r.changes(p, true)) == 0 { // others would be as it is
		return
	}
	for i, u := range r.w.Sizing.Containers {
		if (!r.w.Sizing.Admits || r.held) && i < len(r.plan.Containers) && r.plan.Containers[i].Requests.Memory > u.Requests.Memory {
			return // nobody gives it to new pods
		}
	}
	q.evictKilled(p, "its replacement has more")
}

// evictKilled evicts a pod whose container is killed for its memory again and again, after mash2 made it
// smaller. A kubelet that is asked for more while no container of the pod runs gives it to the next
// container, and leaves the pod's cgroup as it was (https://github.com/kubernetes/kubernetes/issues/138760).
// Such a pod serves nobody.
func (q *sequencer) evictKilled(p *api.Pod, replacement string) {
	// That its workload is held, or scaled by KEDA, is no reason: it has as many pods afterwards.
	if !p.KilledAgain || !p.Sized || p.Ready || q.evicted >= int(q.disruption.MaxEvictions) || q.blockerOf(p, "") != "" || !q.allowed(p) {
		return
	}
	q.evicted++
	q.evictions = append(q.evictions, api.EvictPod{
		Pod: p.Key, UID: p.UID, Node: p.Node, Unready: true,
		Reason: "a container of it is killed for its memory again and again, and does not run: " + replacement,
	})
}

// resize is a change of a container.
type resize struct {
	api.ResizePod
	// grows is what it adds on the node.
	grows api.Resources
	// smaller tells whether it takes something away, of a request or of a limit.
	smaller bool
	// had are the limits that it has.
	had api.Amounts
}

func (a resize) larger() bool { return a.grows.MilliCPU > 0 || a.grows.Memory > 0 }

// memory is what a change makes of the container's memory, alone.
func (a resize) memory() resize {
	a.To.MilliCPU, a.Limits.MilliCPU, a.grows.MilliCPU = a.From.MilliCPU, a.had.MilliCPU, 0
	return a
}

// cpu is what a change makes of the container's CPU, alone.
func (a resize) cpu() resize {
	a.To.Memory, a.Limits.Memory, a.grows.Memory = a.From.Memory, a.had.Memory, 0
	return a
}

// limits are what a change makes of the container's limit of memory, alone: beyond it the container is
// killed, while what it requests keeps room for it.
func (a resize) limits() resize {
	a = a.memory()
	a.To, a.grows = a.From, api.Resources{}
	return a
}

// saves reports whether a part of a change is one that raises memory, and that a pod may have: it
// must not lose its quality of service.
func (a resize) saves(p *api.Pod) bool {
	if a.To.Memory <= a.From.Memory && a.Limits.Memory <= a.had.Memory {
		return false
	}
	return a.To.Memory > a.From.Memory || !guaranteed(p.Size)
}

// guaranteed reports whether all containers of a size are limited to what they request.
func guaranteed(size *api.PodSize) bool {
	return !slices.ContainsFunc(size.Containers, func(c api.ContainerSize) bool {
		return c.Requests != c.Limits || c.Requests.MilliCPU == 0 || c.Requests.Memory == 0
	})
}

// resizes are the changes that bring a pod's containers to the plan, without those that
// would restart one; with larger only what becomes larger. Of what is not chosen for it a pod that mash2 made
// smaller, when it was, gets back what is planned, which is what is written.
func resizes(w *api.Workload, plan *api.SizingPlan, p *api.Pod, larger bool) (out []resize) {
	for i, u := range w.Sizing.Containers {
		if i >= len(plan.Containers) {
			break
		}
		want := plan.Containers[i]
		is, ok := p.Size.Container(u.Name)
		if !ok {
			continue
		}
		a := api.ResizePod{Pod: p.Key, UID: p.UID, Container: u.Name, From: is.Requests, To: is.Requests, Limits: is.Limits, Reason: want.Reason}
		// What isn't there can't be added without another quality of service.
		set := func(to, limit *int64, request, has, wanted, wantedLimit int64, restarts, fixed bool) {
			larger := larger || fixed
			if restarts || fixed && !p.Sized || request == 0 || wanted == 0 || larger && wanted < request {
				return
			}
			*to = wanted
			if has > 0 && wantedLimit > 0 && (!larger || wantedLimit > has) {
				*limit = wantedLimit
			}
			if has > 0 {
				*limit = max(*limit, wanted)
			}
		}
		set(&a.To.MilliCPU, &a.Limits.MilliCPU, is.Requests.MilliCPU, is.Limits.MilliCPU, want.Requests.MilliCPU, want.Limits.MilliCPU, u.RestartCPU, u.FixedCPU)
		set(&a.To.Memory, &a.Limits.Memory, is.Requests.Memory, is.Limits.Memory, want.Requests.Memory, want.Limits.Memory, u.RestartMemory, u.FixedMemory)
		if a.To == a.From && a.Limits == is.Limits {
			continue
		}
		cpu, memory := a.To.MilliCPU-a.From.MilliCPU, a.To.Memory-a.From.Memory
		out = append(out, resize{
			ResizePod: a, had: is.Limits, grows: api.Resources{MilliCPU: max(cpu, 0), Memory: max(memory, 0)},
			smaller: min(cpu, memory, a.Limits.MilliCPU-is.Limits.MilliCPU, a.Limits.Memory-is.Limits.Memory) < 0,
		})
	}
	return out
}
