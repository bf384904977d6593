package sensing

import (
	"cmp"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// observeWorkload joins a ManagedWorkload with its target and its pods, and
// holds it when it must not be acted on: by the first of [holdChecks] that has a
// reason.
func observeWorkload(r *workloadRecord, v *view) api.Workload {
	in := gather(r, v)
	for _, c := range holdChecks {
		reason, message := c.why(in)
		if reason == HoldConflict && in.w.Mode == api.ModeCanary {
			// Until it is acted for somebody else may scale it: that is who it is compared with.
			in.w.Contested = cmp.Or(in.w.Contested, message)
			continue
		}
		if reason != "" {
			in.w.HoldReason, in.w.Hold = reason, message
			break
		}
	}
	return in.w
}

// gather what the checks look at, as far as it can be known.
func gather(r *workloadRecord, v *view) holdInput {
	in := holdInput{r: r, w: r.workload}
	if in.w.HoldReason != "" || !in.supported() {
		return in
	}
	t := v.targets[r.target]
	if t == nil {
		return in
	}
	in.t, in.first = t, v.first(r.target)
	w := &in.w
	w.Replicas, w.RollingOut, w.FirstOrdinal = t.replicas, t.rollingOut, t.firstOrdinal
	w.LastScaled, w.LastScaledBy = t.scaling.last, t.scaling.lastBy
	if v.nets[r.target] {
		w.SafetyNet = hpaManager
	}
	if in.first != r { // without pods of its own
		w.Shape = t.template
		return in
	}
	in.scalers, in.verticals = v.scalers[r.target], v.verticals[r.target]
	w.HandedOver = w.Mode == api.ModeCanary && (r.handedOver || r.takenOver != "" && r.takenOver == t.uid)
	if r.workload.Actuator != api.ActuatorKEDA {
		in.scalers = slices.Concat(in.scalers, v.byKEDA[r.target])
		in.foreign = t.foreignWriter(r.takenOver, v.nets[r.target])
	}
	members := v.members(r.target)
	w.Shape = shapeOfReplica(t, members)
	for _, vertical := range in.verticals {
		w.Shape = vertical.next(t, w.Shape)
	}
	if r.byTemplate {
		w.Basis = t.template.Requests.MilliCPU
	}
	w.ReadyReplicas, w.SpeedNow = v.readyOf(members)
	return in
}

// shapeOfReplica is the shape of the target's newest pod as it was made: it
// contains what admission adds (a LimitRange's requests, a RuntimeClass's
// overhead), and was not resized since. Without
// pods, or while they are being replaced, it is the template's.
func shapeOfReplica(t *targetRecord, members []*podRecord) *api.PodShape {
	if t.rollingOut {
		return t.template
	}
	asMade := slices.DeleteFunc(slices.Clone(members), func(p *podRecord) bool { return p.resized })
	if newest := newestOf(asMade); newest != nil {
		return newest.pod.Shape
	}
	return t.template
}

// readyOf counts the Ready pods that stay, and the mean speed of their nodes.
func (v *view) readyOf(members []*podRecord) (ready int32, speed float64) {
	for _, p := range members {
		if countsAsReady(p) {
			ready++
			speed += v.speeds[v.podAt.place[p.slot]]
		}
	}
	if ready == 0 {
		return 0, 1
	}
	return ready, speed / float64(ready)
}

// scalings remembers when replicas were seen to change, because managedFields
// don't tell the time of an apply, and for how long pods have been missing.
type scalings map[targetID]scaling

type scaling struct {
	replicas int32
	changed  time.Time // zero if no change was seen
	short    int       // readings in a row in which isShort, up to shortFor
}

// learn notes the replicas of now.
func (s scalings) learn(now time.Time, v *view) {
	for id := range s {
		if v.managed[id] == nil {
			delete(s, id)
		}
	}
	for id := range v.managed {
		t, ok := v.targets[id]
		if !ok {
			delete(s, id)
			continue
		}
		last, known := s[id]
		if known && last.replicas != t.replicas {
			last.changed = now
		}
		last.replicas = t.replicas
		if isShort(t, v.members(id)) {
			last.short = min(last.short+1, shortFor)
		} else {
			last.short = 0
		}
		s[id] = last
	}
}
