// Package learned plans the replicas of one workload by a model that was trained by
// reinforcement learning. There are two kinds of models.
//
// A model of margins says what part of the margins that keep the policy's objective a
// workload needs now, by what its demand did in the last day. All else is planned as
// without it, and there is no margin below the least. One comes with the program ([Shipped]).
//
// A model of replicas chooses one replica fewer, none, or one more, by what a replica uses, how many
// requests there are and how many replicas. It only asks: the least it may ask for is the
// reactive floor, which the planner around which it stands gives, and the Guard narrows the
// rest. What the model can't see, stale demand for example, is planned without it.
package learned

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/rl"
)

// Name of the planner in a ManagedWorkload.
const Name = "rl"

// Names of the inputs that a model may have.
const (
	InputCPU      = "cpu"      // mean usage of a replica, millicores
	InputRequests = "requests" // a second, in all: the trigger of this name, or as much as the CPU tells
	InputReplicas = "replicas" // whose scale is the most that the model was trained with
)

// Planner asks models. Its methods may be called at the same time.
type Planner struct {
	// Floor plans without a model, and its floor is kept with one.
	Floor planning.WorkloadPlanner
	// Models by name.
	Models map[string]rl.Model
}

var _ planning.WorkloadPlanner = Planner{}

// Check returns an error for a model that can't plan replicas.
func Check(m rl.Model) error {
	if m.Environment == MarginEnvironment {
		return checkMargins(m)
	}
	if m.Policy.Actions.N != 3 {
		return fmt.Errorf("it chooses among %d actions: a model for replicas has three, one fewer, none and one more", m.Policy.Actions.N)
	}
	if len(m.Inputs) == 0 {
		return fmt.Errorf("it was trained in %s and does not say what its inputs are", m.Environment)
	}
	for _, in := range m.Inputs {
		if !slices.Contains([]string{InputCPU, InputRequests, InputReplicas}, in.Name) {
			return fmt.Errorf("its input %q is none of %s, %s and %s", in.Name, InputCPU, InputRequests, InputReplicas)
		}
	}
	return nil
}

// PlanWorkload proposes what the model of the workload asks for. It is Held where there is
// no such model.
func (p Planner) PlanWorkload(in planning.Input) (planning.Proposal, error) {
	base, err := p.Floor.PlanWorkload(in)
	if err != nil || base.Held {
		return base, err
	}
	m, ok := p.Models[in.Workload.Model]
	if !ok {
		base.Held, base.Binding = true, api.BindingHold
		base.Replicas, base.NodeReplicas = in.Workload.Replicas, in.Workload.Replicas
		base.Floor, base.FloorSource = min(base.Floor, in.Workload.Replicas), "none"
		base.Reason = fmt.Sprintf("held at %d: spec.model: the operator has no model %q, only %s", in.Workload.Replicas, in.Workload.Model, names(p.Models))
		return base, nil
	}
	if m.Environment == MarginEnvironment {
		return p.takeMargins(in, base, m)
	}
	observation, saw, missing := Observe(m.Inputs, in, base)
	if missing != "" {
		base.Reason += "; planned without the model: " + missing
		return base, nil
	}
	actor := m.Policy.NewActor()
	action := actor.Act(observation).Discrete - 1
	if !actor.Known() {
		base.Reason += "; planned without the model: what it says is no number"
		return base, nil
	}
	return Ask(in, base, m.Inputs, action, "model "+in.Workload.Model, saw), nil
}

// Ask is the proposal of who asks for so many replicas more than there are, by what it saw,
// around what is planned without.
func Ask(in planning.Input, base planning.Proposal, inputs []rl.Input, action int, who, saw string) planning.Proposal {
	w := in.Workload
	asked := max(w.Replicas+int32(action), 0)
	for _, input := range inputs {
		if input.Name == InputReplicas {
			asked = int32(math.Min(float64(asked), input.Scale)) // beyond, it knows nothing
		}
	}
	out := base
	out.Replicas = max(asked, base.Floor)
	out.NodeReplicas = out.Replicas
	out.Path = []api.PathStep{{At: in.Time, Scale: api.Scale{Replicas: out.Replicas, Containers: base.Containers}, Need: base.Need}}
	out.Ramp, out.Forecast = 0, nil
	out.Binding = api.BindingLearned
	out.Reason = fmt.Sprintf("%s asks for %+d to %d (%s)", who, action, w.Replicas, saw)
	if base.Floor > asked {
		out.Binding = api.BindingFloor
		out.Reason += fmt.Sprintf("; usage now needs at least %d", base.Floor)
	}
	return out
}

// names of the models there are.
func names(models map[string]rl.Model) string {
	if len(models) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(models)), ", ")
}

// Observe makes the observation that a model was trained on, and says it in words; missing
// says what of it isn't known.
func Observe(inputs []rl.Input, in planning.Input, base planning.Proposal) (out []float32, saw, missing string) {
	w := in.Workload
	switch {
	case w.Replicas < 1:
		return nil, "", "there are no replicas"
	case !(base.Demand >= 0) || w.DemandStale || !in.Metrics.Reachable:
		return nil, "", "its CPU usage is not known"
	}
	speed := w.SpeedNow
	if !(speed > 0) || math.IsInf(speed, 0) {
		speed = 1
	}
	used := base.Demand / speed // where it happens
	var words []string
	for _, input := range inputs {
		var v float64
		switch input.Name {
		case InputCPU:
			v = used / float64(w.Replicas)
			words = append(words, fmt.Sprintf("%.0fm a replica", v))
		case InputReplicas:
			v = float64(w.Replicas)
			if v > input.Scale {
				return nil, "", fmt.Sprintf("there are %d replicas, and it was trained with up to %.0f", w.Replicas, input.Scale)
			}
		case InputRequests:
			i := slices.IndexFunc(w.Triggers, func(t api.Trigger) bool { return t.Name == InputRequests })
			switch {
			case i >= 0 && w.Triggers[i].Missing != "":
				return nil, "", "trigger " + InputRequests + ": " + w.Triggers[i].Missing
			case i >= 0:
				v = w.Triggers[i].Value
			case input.Millicores > 0:
				v = used / input.Millicores
			default:
				return nil, "", "there is no trigger " + InputRequests
			}
			words = append(words, fmt.Sprintf("%.4g requests a second", v))
		}
		v /= input.Scale
		if math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 {
			return nil, "", fmt.Sprintf("its %s is %g of what is usual", input.Name, v)
		}
		out = append(out, float32(v))
	}
	return out, strings.Join(words, ", "), ""
}
