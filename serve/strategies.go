package serve

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// Strategies writes the status of users' strategies. It is a Reporter.
type Strategies struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	// Period is that of Status.
	Period time.Duration
	Logger *slog.Logger
	// Now is the time that cycles are measured by; nil is the real one.
	Now func() time.Time

	turns turns
	known bool // there has been one, so the API server knows the kind
}

// Report writes what changed of each Strategy's status. A reason's figures alone are not
// worth a write.
func (s *Strategies) Report(ctx context.Context, c api.Cycle) {
	wrong := map[api.Key][]api.Finding{}
	for _, f := range c.Findings {
		if f.Object.Kind == api.KindStrategy {
			wrong[f.Object.Key] = append(wrong[f.Object.Key], f)
		}
	}
	s.known = s.known || len(c.Policy.Strategies)+len(wrong) > 0
	if c.Error != "" || !s.known {
		return
	}
	var list v1alpha1.StrategyList
	if err := s.Client.List(ctx, &list); err != nil {
		s.Logger.Error("listing Strategies", "error", err)
		return
	}
	var all []write
	for i := range list.Items {
		o := &list.Items[i]
		key := api.Key{Namespace: o.Namespace, Name: o.Name}
		at := slices.IndexFunc(c.Policy.Strategies, func(x api.StrategyState) bool { return x.Key == key })
		var want v1alpha1.StrategyStatus
		switch off := o.Spec.Mode == v1alpha1.ModeOff && len(wrong[key]) == 0; {
		case off:
			want = strategyOff(c, *o.Status.DeepCopy(), o.Generation)
		case at < 0 && len(wrong[key]) == 0:
			continue // newer than the cycle
		default:
			var state api.StrategyState
			if at >= 0 {
				state = c.Policy.Strategies[at]
			}
			want = strategyStatus(c, state, wrong[key], *o.Status.DeepCopy(), o.Generation)
			if want.Active == o.Status.Active && !beganRound(c, state) && (state.Learning != nil || sameWords(want.Reason, o.Status.Reason)) {
				want.Reason = o.Status.Reason
			}
		}
		if equality.Semantic.DeepEqual(want, o.Status) {
			continue
		}
		patch := client.MergeFrom(o.DeepCopy())
		o.Status = want
		all = append(all, write{key.String(), o, patch})
	}
	s.turns.put(ctx, writing{s.Client, s.Logger, s.Period, s.Now}, c.Time, all)
}

// beganRound is whether a strategy that learns began a round in a cycle: once a round its
// figures are worth a write.
func beganRound(c api.Cycle, state api.StrategyState) bool {
	l := state.Learning
	return l != nil && l.Round != nil && l.Round.Since.Equal(c.Time)
}

// learned is what a strategy would choose by what it learned, if anything, and why.
func learned(l *api.Learning) (what, why string) {
	why = l.Reason
	if l.Last != "" {
		why += "; " + l.Last
	}
	r := l.Round
	switch {
	case r == nil:
		return "", why
	case r.Done:
		return r.Recommended, r.Recommended + ": " + why
	}
	return "recommends " + r.Recommended, "recommends " + r.Recommended + ": " + why
}

// strategyStatus is the status after a cycle, from the one before.
func strategyStatus(c api.Cycle, state api.StrategyState, wrong []api.Finding, status v1alpha1.StrategyStatus, generation int64) v1alpha1.StrategyStatus {
	var active, reasons []string
	for _, r := range state.Rules {
		if r.On {
			active = append(active, r.Name)
			reasons = append(reasons, r.Name+": "+r.Reason)
		}
	}
	if ch := state.Choice; ch != nil {
		active = append(active, ch.Candidate)
		reasons = append(reasons, ch.Candidate+": "+ch.Reason)
	}
	if l := state.Learning; l != nil {
		what, why := learned(l)
		if what != "" {
			active = append(active, what)
		}
		reasons = append(reasons, why)
	}
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: "Decided", Message: "it was decided on", LastTransitionTime: metav1.NewTime(c.Time),
	}
	if len(wrong) > 0 {
		ready.Status, ready.Reason = metav1.ConditionFalse, camel(wrong[0].Reason)
		ready.Message = cut(wrong[0].Message, 32768)
		if n := len(wrong) - 1; n > 0 {
			ready.Message = cut(fmt.Sprintf("%s; and %d more", wrong[0].Message, n), 32768)
		}
		if old := meta.FindStatusCondition(status.Conditions, ready.Type); old != nil && old.Reason == ready.Reason && wrong[0].Reason != "StrategyInvalid" && sameWords(old.Message, ready.Message) {
			ready.Message = old.Message // its figures move with every sample
		}
	}
	status.ObservedGeneration = generation
	status.Active, status.Reason = strings.Join(active, ", "), cut(strings.Join(reasons, "; "), 32768)
	meta.SetStatusCondition(&status.Conditions, ready)
	return status
}

// strategyOff is the status of one that is switched off. What it has learned is kept.
func strategyOff(c api.Cycle, status v1alpha1.StrategyStatus, generation int64) v1alpha1.StrategyStatus {
	status.ObservedGeneration = generation
	status.Active, status.Reason = "", "spec.mode is Off: it is not decided on"
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: generation,
		Reason: string(api.ModeOff), Message: status.Reason, LastTransitionTime: metav1.NewTime(c.Time),
	})
	return status
}
