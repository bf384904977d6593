package serve

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	Logger *slog.Logger
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
	if c.Error != "" || len(c.Policy.Strategies)+len(wrong) == 0 {
		return
	}
	var list v1alpha1.StrategyList
	if err := s.Client.List(ctx, &list); err != nil {
		s.Logger.Error("listing Strategies", "error", err)
		return
	}
	for i := range list.Items {
		o := &list.Items[i]
		key := api.Key{Namespace: o.Namespace, Name: o.Name}
		at := slices.IndexFunc(c.Policy.Strategies, func(x api.StrategyState) bool { return x.Key == key })
		if at < 0 && len(wrong[key]) == 0 {
			continue // Off, or newer than the cycle
		}
		var state api.StrategyState
		if at >= 0 {
			state = c.Policy.Strategies[at]
		}
		want := strategyStatus(c, state, wrong[key], *o.Status.DeepCopy(), o.Generation)
		if want.Active == o.Status.Active && !beganRound(c, state) {
			want.Reason = o.Status.Reason
		}
		if equality.Semantic.DeepEqual(want, o.Status) {
			continue
		}
		patch := client.MergeFrom(o.DeepCopy())
		o.Status = want
		if err := s.Client.Status().Patch(ctx, o, patch); err != nil && !apierrors.IsNotFound(err) {
			s.Logger.Error("writing status", "strategy", key.String(), "error", err)
		}
	}
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
		if old := meta.FindStatusCondition(status.Conditions, ready.Type); old != nil && old.Reason == ready.Reason && wrong[0].Reason != "StrategyInvalid" {
			ready.Message = old.Message // its figures move with every sample
		}
	}
	status.ObservedGeneration = generation
	status.Active, status.Reason = strings.Join(active, ", "), cut(strings.Join(reasons, "; "), 32768)
	meta.SetStatusCondition(&status.Conditions, ready)
	return status
}
