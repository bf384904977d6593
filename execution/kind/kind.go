// Package kind makes pools of nodes that are there already: a label says which
// pool a node is of, and a pool shrinks and grows by parking nodes, that is
// cordoning them with a mark, and taking that back. Nobody boots or deletes a
// machine. It is for kind and other clusters of fixed machines, so that a policy
// switch can be seen there.
//
// A parked node counts as absent: the sensors leave it out.
package kind

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/provider"
)

// Labels of nodes.
const (
	// LabelPool names a node's pool.
	LabelPool = api.Group + "/pool"
	// LabelPrice is what a node costs, USD per hour. Without it a core costs
	// DefaultCorePrice.
	LabelPrice = api.LabelPrice
	// LabelSpeed is the work of one of its cores relative to a core of the
	// reference machine. Without it 1.
	LabelSpeed = api.Group + "/cpu-speed"
)

// DefaultCorePrice in USD per hour is about that of a general-purpose core in a
// public cloud: it only says that fewer cores are better.
const DefaultCorePrice = 0.04

// Provider is the pools of a cluster of fixed machines.
type Provider struct {
	client kubernetes.Interface

	mu    sync.Mutex
	known map[string]string // pool by provider id, as last read
	// asked is when this process last took nodes of a pool back, or first saw some
	// that are not Ready: nothing of ours is left on nodes to tell that by.
	asked map[string]time.Time
}

// New returns a Provider; it makes no call yet.
func New(client kubernetes.Interface) *Provider {
	return &Provider{client: client, asked: map[string]time.Time{}}
}

// Pools returns the pools that labels name. A pool's size is the number of its
// nodes that are not parked, at most what the smallest zone has.
func (p *Provider) Pools(ctx context.Context) ([]api.Pool, error) {
	nodes, err := p.nodes(ctx, "")
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	byPool := map[string][]corev1.Node{}
	for _, n := range nodes {
		pool := n.Labels[LabelPool]
		byPool[pool] = append(byPool[pool], n)
		known[n.Spec.ProviderID] = pool
	}
	p.mu.Lock()
	p.known = known
	p.mu.Unlock()
	var out []api.Pool
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		pool, err := poolOf(name, byPool[name])
		if err != nil {
			return nil, err
		}
		pool.ResizedAt = p.resizedAt(name, byPool[name])
		out = append(out, pool)
	}
	return out, nil
}

// resizedAt is when nodes of a pool were asked for, zero when all are there; from
// now on when some are seen to be missing that this process has not asked for.
func (p *Provider) resizedAt(pool string, nodes []corev1.Node) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch _, known := p.asked[pool]; {
	case !slices.ContainsFunc(nodes, coming):
		delete(p.asked, pool)
	case !known:
		p.asked[pool] = time.Now()
	}
	return p.asked[pool]
}

// coming tells whether a node is to take part and doesn't yet.
func coming(n corev1.Node) bool {
	return !Parked(&n) && !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// nodes of a pool, or of all, in order of name.
func (p *Provider) nodes(ctx context.Context, pool string) ([]corev1.Node, error) {
	selector := LabelPool
	if pool != "" {
		selector += "=" + pool
	}
	list, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return nil, fmt.Errorf("listing the nodes of pools: %w", provider.FromKubernetes(err))
	}
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

func poolOf(name string, nodes []corev1.Node) (api.Pool, error) {
	first := nodes[0]
	pool := api.Pool{
		Name: name, MachineType: cmp.Or(first.Labels[corev1.LabelInstanceTypeStable], "machine"),
		CPUSpeed: 1, Labels: map[string]string{LabelPool: name},
		MaxPerZone: math.MaxInt32,
	}
	on, all := map[string]int32{}, map[string]int32{}
	for i, n := range nodes {
		zone := n.Labels[api.LabelZone]
		all[zone]++
		if !Parked(&n) {
			on[zone]++
		}
		a := n.Status.Allocatable
		r := api.Resources{MilliCPU: a.Cpu().MilliValue(), Memory: a.Memory().Value(), EphemeralStorage: a.StorageEphemeral().Value(), Pods: a.Pods().Value()}
		if i == 0 {
			pool.Allocatable = r
		}
		pool.Allocatable.MilliCPU, pool.Allocatable.Memory = min(pool.Allocatable.MilliCPU, r.MilliCPU), min(pool.Allocatable.Memory, r.Memory)
		pool.Allocatable.Pods = min(pool.Allocatable.Pods, r.Pods)
		pool.Allocatable.EphemeralStorage = min(pool.Allocatable.EphemeralStorage, r.EphemeralStorage)
	}
	for _, zone := range slices.Sorted(maps.Keys(all)) {
		pool.Zones, pool.Sizes = append(pool.Zones, zone), append(pool.Sizes, on[zone])
		pool.MaxPerZone = min(pool.MaxPerZone, all[zone])
	}
	// Of unequal zones the smaller one bounds what may be asked for, not what is.
	pool.MaxPerZone = max(pool.MaxPerZone, slices.Max(pool.Sizes))
	for _, t := range first.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") { // the node controller's: a state, not a property
			pool.Taints = append(pool.Taints, api.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	pool.Price = DefaultCorePrice * float64(pool.Allocatable.MilliCPU) / 1000
	for label, into := range map[string]*float64{LabelPrice: &pool.Price, LabelSpeed: &pool.CPUSpeed} {
		text, ok := first.Labels[label]
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0) || math.IsInf(v, 0) {
			return pool, fmt.Errorf("node %s: metadata.labels[%s]: must be a positive number, is %q", first.Name, label, text)
		}
		*into = v
	}
	if err := api.DescribeSpot(&pool, first.Labels); err != nil {
		return pool, fmt.Errorf("node %s: %w", first.Name, err)
	}
	return pool, nil
}

// Parked tells whether a node takes no part.
func Parked(n *corev1.Node) bool {
	return n.Spec.Unschedulable && n.Annotations[api.AnnotationParked] != ""
}

// Owns implements provider.Provider.
func (p *Provider) Owns(pool, providerID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return providerID != "" && p.known[providerID] == pool
}

// Apply implements provider.Provider. A pool grows by taking parked nodes back,
// ErrStockout when there are no more, and shrinks by parking nodes on which
// nothing runs but DaemonSets, ErrBusy when there are too few of these.
func (p *Provider) Apply(ctx context.Context, a api.Action) error {
	var err error
	switch a := a.(type) {
	case api.ResizePool:
		err = p.resize(ctx, a)
	case api.RemoveNode:
		err = p.remove(ctx, a)
	default:
		err = errors.New("not an action on pools")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

func (p *Provider) resize(ctx context.Context, a api.ResizePool) error {
	nodes, err := p.nodes(ctx, a.Pool)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return fmt.Errorf("%w: no node has the label %s=%s", provider.ErrNotFound, LabelPool, a.Pool)
	}
	zones := map[string][]*corev1.Node{}
	for i := range nodes {
		zone := nodes[i].Labels[api.LabelZone]
		zones[zone] = append(zones[zone], &nodes[i])
	}
	var short []error
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		shortage, err := p.resizeZone(ctx, zone, zones[zone], a.To)
		if err != nil {
			return err
		}
		short = append(short, shortage)
	}
	return errors.Join(short...)
}

// resizeZone unparks by name, and parks first what is cordoned already. A
// shortage, of machines or of idle nodes, is told apart from a call that failed:
// the other zones go on.
func (p *Provider) resizeZone(ctx context.Context, zone string, nodes []*corev1.Node, to int32) (shortage, err error) {
	var on, parked []*corev1.Node
	for _, n := range nodes {
		if Parked(n) {
			parked = append(parked, n)
		} else {
			on = append(on, n)
		}
	}
	missing := int(to) - len(on)
	if missing > 0 && len(parked) > 0 {
		p.mu.Lock()
		p.asked[nodes[0].Labels[LabelPool]] = time.Now()
		p.mu.Unlock()
	}
	for ; missing > 0 && len(parked) > 0; missing-- {
		if err := p.park(ctx, parked[0], false); err != nil {
			return nil, err
		}
		parked = parked[1:]
	}
	if missing > 0 {
		return fmt.Errorf("%w: zone %q has only %d machines", provider.ErrStockout, zone, len(nodes)), nil
	}
	slices.SortStableFunc(on, func(a, b *corev1.Node) int { // cordoned ones first, then by name from the end
		if a.Spec.Unschedulable != b.Spec.Unschedulable {
			if a.Spec.Unschedulable {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Name, a.Name)
	})
	for _, n := range on {
		if missing == 0 {
			break
		}
		idle, err := p.idle(ctx, n.Name)
		if err != nil {
			return nil, err
		}
		if !idle {
			continue
		}
		if err := p.park(ctx, n, true); err != nil {
			return nil, err
		}
		missing++
	}
	if missing < 0 {
		return fmt.Errorf("%w: %d nodes too many of zone %q still have pods", provider.ErrBusy, -missing, zone), nil
	}
	return nil, nil
}

func (p *Provider) remove(ctx context.Context, a api.RemoveNode) error {
	nodes, err := p.nodes(ctx, "")
	if err != nil {
		return err
	}
	at := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == a.Node })
	if at < 0 {
		return nil // gone
	}
	n := &nodes[at]
	if n.Labels[LabelPool] != a.Pool || n.Spec.ProviderID != a.ProviderID {
		return fmt.Errorf("%w: node %s is of pool %q with provider id %q", provider.ErrNotFound, n.Name, n.Labels[LabelPool], n.Spec.ProviderID)
	}
	if Parked(n) {
		return nil
	}
	return p.park(ctx, n, true)
}

// idle tells whether nothing runs on a node but what belongs to it.
func (p *Provider) idle(ctx context.Context, node string) (bool, error) {
	pods, err := p.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return false, provider.FromKubernetes(err)
	}
	return !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
			return false
		}
		owner := metav1.GetControllerOf(&pod)
		return owner == nil || owner.Kind != "DaemonSet"
	}), nil
}

// park cordons a node with the mark, or takes all of ours off, on the condition
// that the node is still of its pool.
func (p *Provider) park(ctx context.Context, n *corev1.Node, on bool) error {
	pool := n.Labels[LabelPool]
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if n.Labels[LabelPool] != pool || Parked(n) == on {
			return nil
		}
		annotations := map[string]any{api.AnnotationParked: nil, api.AnnotationCordonedFor: nil, api.AnnotationCordonedAt: nil}
		var unschedulable any
		if on {
			annotations, unschedulable = map[string]any{api.AnnotationParked: "true"}, true
		}
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "annotations": annotations},
			"spec":     map[string]any{"unschedulable": unschedulable},
		})
		if err != nil {
			return err
		}
		nodes := p.client.CoreV1().Nodes()
		_, err = nodes.Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
		if apierrors.IsConflict(err) {
			if fresh, e := nodes.Get(ctx, n.Name, metav1.GetOptions{}); e == nil {
				n = fresh
			}
		}
		return err
	})
	return provider.FromKubernetes(err)
}
