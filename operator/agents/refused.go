package agents

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/vertical"
)

// Refused is a pod that does not take part, and why.
type Refused struct {
	Pod api.Key
	Why string
	// CPU, millicores, and Memory, bytes, are the limits that it runs with: the others have the
	// budget without them.
	CPU, Memory int64
	// Ending tells that it is being deleted: its part becomes free soon.
	Ending bool
	// Infeasible is the pod if its node refuses its last resize.
	Infeasible *Pod
}

// errInfeasible is the error of Takes for a pod whose node refuses its last resize. The pod that
// comes with it is whole.
var errInfeasible = errors.New("its node refuses the last resize")

// refusal of a pod by what Takes says of it.
func refusal(pod *corev1.Pod, container string, p Pod, why error) Refused {
	out := Refused{Pod: p.Key, Why: why.Error(), Ending: pod.DeletionTimestamp != nil}
	if errors.Is(why, errInfeasible) {
		out.Infeasible, out.CPU, out.Memory = &p, p.Held, p.Memory.Held
		return out
	}
	if pod.Status.Phase != corev1.PodRunning {
		return out // it has nothing yet
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if container != "" && c.Name != container {
			continue
		}
		cpu, memory := c.Resources.Limits.Cpu().MilliValue(), c.Resources.Limits.Memory().Value()
		out.CPU += max(cpu, held(pod, c.Name, corev1.ResourceCPU, cpu))
		out.Memory += max(memory, held(pod, c.Name, corev1.ResourceMemory, memory))
	}
	return out
}

// refusedFor is how long a pod whose node refused a resize takes no part: a node with the static
// CPU manager refuses each, and every try is two writes.
const refusedFor = 10 * time.Minute

// apart takes the pods away whose nodes refused a resize a while ago, and remembers those that
// refuse one now. It belongs to the goroutine of Run.
func (l *Loop) apart(pods []Pod, refused []Refused, now time.Time) ([]Pod, []Refused) {
	next := map[string]time.Time{}
	for _, r := range refused {
		if r.Infeasible != nil {
			next[r.Infeasible.ID] = now.Add(refusedFor)
		}
	}
	var out []Pod
	for _, p := range pods {
		until := l.refused[p.ID]
		if !now.Before(until) {
			out = append(out, p)
			continue
		}
		next[p.ID] = until
		refused = append(slices.Clip(refused), Refused{
			Pod: p.Key, Why: "its node refused a resize: it is asked again at " + until.UTC().Format(time.TimeOnly),
			CPU: max(p.Limit, p.Held), Memory: max(p.Memory.Limit, p.Memory.Held),
		})
	}
	l.refused = next
	return out, refused
}

// infeasible is what bound a limit that is taken back.
const infeasible vertical.Binding = "infeasible"

// back are the writes that give pods whose node refuses a resize the limits again that they run
// with. A resize that nobody asks for any more is not refused.
func back(refused []Refused) (out []api.Action) {
	for _, r := range refused {
		p := r.Infeasible
		if p == nil {
			continue
		}
		if p.Limit != p.Held {
			out = append(out, p.action(vertical.Decision{ID: p.ID, From: p.Limit, To: p.Held, Binding: infeasible}))
		}
		if m := &p.Memory; p.MemoryStays == "" && m.Limit != m.Held {
			out = append(out, p.memoryAction(vertical.Decision{ID: p.ID, From: m.Limit, To: m.Held, Binding: infeasible}))
		}
	}
	return out
}

// parts of a budget. Pods that take part have what the others leave. For one that is being
// deleted nobody loses anything, and nobody gets its part before it is gone.
type parts struct{ taking, ending, others int64 }

// of a budget; 1 at least, where everybody is at the floor.
func (p parts) of(budget int64) int64 {
	budget -= p.others
	return max(budget-p.ending, min(budget, p.taking), 1)
}

// limits of CPU, millicores, and of memory, bytes: of those that take part and of the others.
func limits(pods []Pod, refused []Refused) (cpu, memory parts) {
	for i := range pods {
		p := &pods[i]
		cpu.taking += max(p.Limit, p.Held)
		if m := max(p.Memory.Limit, p.Memory.Held); p.MemoryStays == "" {
			memory.taking += m
		} else {
			memory.others += m
		}
	}
	for _, r := range refused {
		if r.Ending {
			cpu.ending, memory.ending = cpu.ending+r.CPU, memory.ending+r.Memory
		} else {
			cpu.others, memory.others = cpu.others+r.CPU, memory.others+r.Memory
		}
	}
	return cpu, memory
}

// text of a pod that takes no part, and of its part of the budget.
func (r *Refused) text() string {
	out := fmt.Sprintf("%s: %s", r.Pod.Name, r.Why)
	if r.CPU > 0 {
		out += fmt.Sprintf(" (%dm of the budget are its own)", r.CPU)
	}
	return out
}
