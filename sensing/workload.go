package sensing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// observeWorkload joins a ManagedWorkload with its target and its pods, and
// holds it when it must not be acted on.
func observeWorkload(r *workloadRecord, v *view, sp *speeds) api.Workload {
	w := r.workload
	if w.HoldReason != "" {
		return w
	}
	hold := func(reason, format string, args ...any) api.Workload {
		w.HoldReason, w.Hold = reason, fmt.Sprintf(format, args...)
		return w
	}
	supported := strings.HasPrefix(w.Target.APIVersion, "apps/") &&
		(w.Target.Kind == kindDeployment || w.Target.Kind == kindStatefulSet)
	if !supported {
		return hold(HoldUnsupportedTarget, "spec.targetRef: a %s of %s can't be scaled: only Deployments and StatefulSets of apps/v1 can",
			w.Target.Kind, w.Target.APIVersion)
	}
	t, ok := v.targets[r.target]
	if !ok {
		return hold(HoldTargetMissing, "spec.targetRef.name: %s %s doesn't exist", w.Target.Kind, w.Target.Name)
	}
	w.Replicas, w.RollingOut = t.replicas, t.rollingOut
	w.LastScaled, w.LastScaledBy = t.scaling.last, t.scaling.lastBy
	if v.nets[r.target] {
		w.SafetyNet = hpaManager
	}
	first := v.byTarget[r.target]
	if first != r {
		w.Shape = t.template
		return hold(HoldDuplicateTarget, "spec.targetRef: ManagedWorkload %s has the same target and is older", first.key.Name)
	}
	members := v.members[r.target]
	w.Shape = shapeOfReplica(t, members)
	for _, vertical := range v.verticals[r.target] {
		w.Shape = vertical.next(t, w.Shape)
	}
	if r.byTemplate {
		w.Basis = t.template.Requests.MilliCPU
	}
	w.ReadyReplicas, w.SpeedNow = readyOf(members, sp)

	if names := v.scalers[r.target]; len(names) > 0 && w.Mode == api.ModeFull {
		return hold(HoldConflict, "HorizontalPodAutoscaler %s scales %s %s as well",
			strings.Join(names, ", "), w.Target.Kind, w.Target.Name)
	}
	for _, vertical := range v.verticals[r.target] {
		if why := vertical.fights(t); why != "" && w.Mode == api.ModeFull && w.Basis == 0 {
			return hold(HoldConflict, "%s", why)
		}
	}
	if by := t.foreignWriter(v.nets[r.target]); by != "" && w.Mode == api.ModeFull {
		return hold(HoldConflict, "%s has set the replicas of %s %s; remove its annotation %s to give them back to mash2",
			by, w.Target.Kind, w.Target.Name, api.AnnotationTakenOver)
	}
	switch {
	case w.MaxReplicas < 1:
		return hold(HoldInvalidBounds, "spec.maxReplicas: must be 1 or more, is %d", w.MaxReplicas)
	case w.MinReplicas < 0:
		return hold(HoldInvalidBounds, "spec.minReplicas: must be 0 or more, is %d", w.MinReplicas)
	case w.MinReplicas == 0 && !slices.ContainsFunc(r.triggers, trigger.activates):
		return hold(HoldInvalidBounds, "spec.minReplicas: 0 needs a trigger of type External, Object, Prometheus or Cron, which can ask for the first replica")
	case w.IgnoreCPU && len(r.triggers) == 0:
		return hold(HoldInvalidTrigger, "spec.metric.type: None needs triggers")
	case w.TargetUtilization < 0 || w.TargetUtilization > 1:
		return hold(HoldInvalidBounds, "spec.targetUtilizationPercent: must be from 1 to 100, is %g", 100*w.TargetUtilization)
	case w.MinReplicas > w.MaxReplicas:
		return hold(HoldInvalidBounds, "spec.minReplicas: %d is larger than maxReplicas %d", w.MinReplicas, w.MaxReplicas)
	case w.Replicas == 0 && w.MinReplicas > 0:
		return hold(HoldScaledToZero, "%s %s has 0 replicas; scale it to 1 or more to have it managed", w.Target.Kind, w.Target.Name)
	case !w.IgnoreCPU && (w.Shape.Requests.MilliCPU <= 0 || r.byTemplate && w.Basis <= 0):
		return hold(HoldNoRequests, "spec.targetRef: the pods of %s %s ask for no CPU (resources.requests.cpu of their containers): utilisation has no meaning without",
			w.Target.Kind, w.Target.Name)
	}
	return w
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
func readyOf(members []*podRecord, sp *speeds) (ready int32, speed float64) {
	for _, p := range members {
		if countsAsReady(p) {
			ready++
			speed += sp.of(p.pod.Node)
		}
	}
	if ready == 0 {
		return 0, 1
	}
	return ready, speed / float64(ready)
}

// scalings remembers when replicas were seen to change, because managedFields
// don't tell the time of an apply.
type scalings map[targetID]scaling

type scaling struct {
	replicas int32
	changed  time.Time // zero if no change was seen
}

// learn notes the replicas of now.
func (s scalings) learn(now time.Time, v *view) {
	for id := range s {
		if _, ok := v.byTarget[id]; !ok {
			delete(s, id)
		}
	}
	for id := range v.byTarget {
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
		s[id] = last
	}
}
