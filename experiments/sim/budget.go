package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/mash2-io/mash2/api"
)

const statefulSet = "StatefulSet"

// reconcileSet is the StatefulSet controller with its default, OrderedReady
// (pkg/controller/statefulset, defaultStatefulSetControl.performUpdate): a missing
// pod is made when all of lower ordinals are Ready and its namesake is gone, and
// those beyond the replicas are deleted from the highest on, one at a time.
func (c *Cluster) reconcileSet(w *workload) {
	members := map[int32]*pod{}
	highest := int32(-1)
	for _, p := range w.pods {
		n, err := strconv.ParseInt(p.name[len(w.key.Name)+1:], 10, 32)
		c.must(err)
		members[int32(n)] = p
		highest = max(highest, int32(n))
	}
	for n := range w.replicas {
		switch p := members[n]; {
		case p == nil:
			c.create(w, fmt.Sprint(n))
			return
		case p.terminating || !p.ready:
			return
		}
	}
	if highest >= w.replicas {
		c.delete(members[highest])
	}
}

// budget is a PodDisruptionBudget: what its controller last wrote, and what
// evictions have taken since.
type budget struct {
	key                       api.Key
	workloads                 []*workload // whose pods it selects
	maxUnavailable            int32
	healthy, desired, allowed int32
	disrupted                 map[string]bool // evicted pods that the controller has not seen terminate, by UID
	syncing                   bool
}

// errBudget is the Eviction API's 429.
var errBudget = errors.New("cannot evict pod as it would violate the pod's disruption budget")

// addBudget puts a budget on pods of workloads.
func (c *Cluster) addBudget(name string, maxUnavailable int32, workloads ...*workload) {
	c.budgets = append(c.budgets, &budget{
		key: api.Key{Namespace: workloads[0].key.Namespace, Name: name}, workloads: workloads, maxUnavailable: maxUnavailable,
		disrupted: map[string]bool{},
	})
}

// budgetsFor are those that cover a workload's pods.
func (c *Cluster) budgetsFor(w *workload) []*budget {
	var out []*budget
	for _, b := range c.budgets {
		if slices.Contains(b.workloads, w) {
			out = append(out, b)
		}
	}
	return out
}

func (c *Cluster) budgetsOf(w *workload) []string {
	var out []string
	for _, b := range c.budgetsFor(w) {
		out = append(out, b.key.Name)
	}
	return out
}

// syncBudgets makes the disruption controller look at a workload's budgets soon
// (pkg/controller/disruption: trySync, countHealthyPods, buildDisruptedPodMap).
func (c *Cluster) syncBudgets(w *workload) {
	for _, b := range c.budgetsFor(w) {
		if b.syncing {
			continue
		}
		b.syncing = true
		c.after(c.params.Controller.sample(c.rng), func() {
			b.syncing = false
			b.healthy, b.desired = 0, -b.maxUnavailable
			still := map[string]bool{}
			for _, w := range b.workloads {
				b.desired += w.replicas
				for _, p := range w.pods {
					switch {
					case p.terminating:
					case b.disrupted[p.uid]:
						still[p.uid] = true
					case p.ready:
						b.healthy++
					}
				}
			}
			b.disrupted = still
			b.desired = max(b.desired, 0)
			b.allowed = max(b.healthy-b.desired, 0)
		})
	}
}

// evict is the Eviction API (pkg/registry/core/pod/storage/eviction.go): a pod that
// does not run goes whatever its budget says, one that isn't Ready while as many
// others as desired are, and a Ready one takes from what is allowed.
func (c *Cluster) evict(p *pod) error {
	if p.phase == running && !p.terminating {
		covering := c.budgetsFor(p.workload)
		if len(covering) > 1 {
			return errors.New("this pod has more than one PodDisruptionBudget, which the eviction subresource does not support")
		}
		for _, b := range covering {
			switch {
			case !p.ready && b.desired > 0 && b.healthy >= b.desired:
			case b.allowed <= 0:
				return errBudget
			default:
				b.allowed--
				b.disrupted[p.uid] = true
			}
		}
	}
	c.delete(p)
	return nil
}

// seen is what the operator reads of a budget.
func (b *budget) seen() api.DisruptionBudget {
	return api.DisruptionBudget{
		Key: b.key, MaxUnavailable: &api.Amount{Value: b.maxUnavailable}, Healthy: b.healthy, Desired: b.desired, Allowed: b.allowed,
	}
}
