package sensing

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/mash2-io/mash2/api"
)

// poolSource reads pools and keeps the last good answer.
type poolSource struct {
	reader  PoolReader
	timeout time.Duration
	last    []api.Pool
}

// read returns the pools in order of name. When the provider fails these are
// the last ones it told, held so that nobody resizes what can't be seen. What it tells
// beside an error it has held itself where that is called for.
func (s *poolSource) read(ctx context.Context) ([]api.Pool, []api.Finding) {
	if s.reader == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	pools, err := s.reader.Pools(ctx)
	var findings []api.Finding
	if err != nil {
		findings = []api.Finding{{
			Severity: api.Warning, Agent: api.NodePlanningAgent, Reason: ReasonPoolsUnreadable, Object: api.ObjectRef{Kind: "pools"}, Message: err.Error(),
		}}
	}
	if err == nil || len(pools) > 0 {
		s.last = slices.Clone(pools)
		slices.SortFunc(s.last, func(a, b api.Pool) int { return cmp.Compare(a.Name, b.Name) })
		return slices.Clone(s.last), findings
	}
	held := slices.Clone(s.last)
	for i := range held {
		held[i].Hold = "the provider can't be read: " + err.Error()
	}
	return held, findings
}

// holdForeign holds every pool when the provider knows none of the nodes that
// are watched: then it was configured for another cluster, whose nodes must not
// be resized for the load of this one.
func holdForeign(reader PoolReader, pools []api.Pool, nodes []*nodeRecord) (api.Finding, bool) {
	m, ok := reader.(Membership)
	if !ok || len(pools) == 0 {
		return api.Finding{}, false
	}
	stranger := ""
	for _, n := range nodes {
		if !n.node.Ready || n.node.Pool == "" || n.node.ProviderID == "" {
			continue
		}
		if m.Owns(n.node.Pool, n.node.ProviderID) {
			return api.Finding{}, false
		}
		stranger = n.node.Name
	}
	if stranger == "" {
		return api.Finding{}, false // nothing to compare with yet
	}
	why := fmt.Sprintf("the provider's pools are of another cluster: none of the nodes here, such as %s, is in them", stranger)
	for i := range pools {
		pools[i].Hold = why
	}
	return api.Finding{
		Severity: api.Warning, Agent: api.NodePlanningAgent, Reason: ReasonOtherCluster, Object: api.ObjectRef{Kind: "pools"}, Message: why,
	}, true
}

// holdUnlabelled holds each pool of which the provider owns a Ready node that doesn't bear
// its label: what runs on such a node is not seen to be on the pool, which would be resized
// as if it were empty, or be bought nodes without end.
func holdUnlabelled(reader PoolReader, pools []api.Pool, nodes []*nodeRecord) (out []api.Finding) {
	m, ok := reader.(Membership)
	if !ok {
		return nil
	}
	for i := range pools {
		p := &pools[i]
		stranger, count := "", 0
		for _, n := range nodes {
			if n.node.Ready && n.node.Pool != p.Name && n.node.ProviderID != "" && m.Owns(p.Name, n.node.ProviderID) {
				stranger, count = cmp.Or(stranger, n.node.Name), count+1
			}
		}
		if count == 0 {
			continue
		}
		why := fmt.Sprintf("%d of its nodes, such as %s, don't bear the label that names their pool", count, stranger)
		p.Hold = cmp.Or(p.Hold, why)
		out = append(out, api.Finding{
			Severity: api.Warning, Agent: api.NodePlanningAgent, Reason: ReasonNodesUnlabelled, Object: api.PoolRef(p.Name), Message: why,
		})
	}
	return out
}

// overheads measures what DaemonSets and static pods take of a node.
type overheads struct {
	daemons []*daemonRecord
	byNode  map[string]api.Resources // by DaemonSets and static pods, as observed
	// static is the most that static pods take of any node but those of the control plane, on which
	// all of that runs.
	static api.Resources
}

// labelControlPlane is on the nodes of the control plane.
const labelControlPlane = "node-role.kubernetes.io/control-plane"

func newOverheads(daemons []*daemonRecord, pods []*podRecord, nodes []*nodeRecord) *overheads {
	o := &overheads{daemons: daemons, byNode: map[string]api.Resources{}}
	static := map[string]api.Resources{}
	for _, p := range pods {
		if p.pod.Node == "" || (!p.pod.DaemonSet && !p.pod.Mirror) {
			continue
		}
		if p.pod.DaemonSet && p.pod.Terminating {
			continue // its successor takes its place
		}
		o.byNode[p.pod.Node] = o.byNode[p.pod.Node].Plus(p.pod.Shape.Requests)
		if p.pod.Mirror {
			static[p.pod.Node] = static[p.pod.Node].Plus(p.pod.Shape.Requests)
		}
	}
	for _, n := range nodes {
		if _, controls := n.node.Labels[labelControlPlane]; controls {
			delete(static, n.node.Name)
		}
	}
	for _, r := range static {
		o.static = o.static.Max(r)
	}
	return o
}

// expected is what a node with these labels and taints will give to
// DaemonSets, whether their pods run already or not.
func (o *overheads) expected(labels map[string]string, taints []api.Taint) api.Resources {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: labels[corev1.LabelHostname], Labels: labels}}
	for _, t := range taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	var sum api.Resources
	for _, d := range o.daemons {
		if runsOn(d.pod, node) {
			sum = sum.Plus(d.requests)
		}
	}
	return sum
}

// runsOn is the DaemonSet controller's question: do selector, affinity and
// tolerations let the pod run on the node? A malformed affinity matches nothing.
func runsOn(pod *corev1.Pod, node *corev1.Node) bool {
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !ok {
		return false
	}
	_, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		}, true)
	return !untolerated
}

// describePool completes a pool by what its nodes show: its zone's name, and whether they are
// spot machines, where the provider doesn't tell. Allocatable and
// Cores are the least of its Ready nodes, else what the provider says. Overhead is the most
// that DaemonSets and static pods were seen to take of a node, and not less
// than what the DaemonSets ask for, because on a fresh node they don't run yet;
// static pods are taken from the cluster's other nodes when the pool is empty.
func describePool(p api.Pool, nodes []*nodeRecord, o *overheads) api.Pool {
	p.Taints = lasting(p.Taints)
	labels, taints := p.Labels, p.Taints
	live := false
	var observed api.Resources
	var ready []*nodeRecord
	for _, n := range nodes {
		if n.node.Pool != p.Name || !n.node.Ready {
			continue
		}
		ready = append(ready, n)
		if !live {
			p.Allocatable, p.Cores, labels, taints, live = n.node.Allocatable, n.cores, n.node.Labels, lasting(n.node.Taints), true
		} else {
			p.Allocatable, p.Cores = least(p.Allocatable, n.node.Allocatable), min(p.Cores, n.cores)
		}
		observed = observed.Max(o.byNode[n.node.Name])
	}
	if live {
		p.Allocatable.Extended = devices(ready)
	}
	p.Zones, p.Taints = zonesIn(p, ready), taintsIn(p, ready)
	describeSpot(&p, ready)
	expected := o.expected(labels, taints)
	if !live {
		observed = o.static.Plus(expected)
	}
	p.Overhead = observed.Max(expected)
	return p
}

// zonesIn are the zones of a pool. The only one is called as its Ready nodes are labelled, where
// all are so: of providers that have names of their own for zones, or tell none.
func zonesIn(p api.Pool, ready []*nodeRecord) []string {
	if len(p.Zones) != 1 || len(ready) == 0 || ready[0].node.Zone == "" {
		return p.Zones
	}
	zone := ready[0].node.Zone
	if slices.ContainsFunc(ready, func(n *nodeRecord) bool { return n.node.Zone != zone }) {
		return p.Zones
	}
	return []string{zone}
}

// describeSpot has a pool of spot machines where its provider doesn't tell and the labels do that
// all its Ready nodes bear. A label that can't be used holds the pool.
func describeSpot(p *api.Pool, ready []*nodeRecord) {
	if p.Spot || len(ready) == 0 {
		return
	}
	labels := maps.Clone(ready[0].node.Labels)
	for _, n := range ready[1:] {
		maps.DeleteFunc(labels, func(key, value string) bool { return n.node.Labels[key] != value })
	}
	maps.Copy(labels, p.Labels)
	if err := api.DescribeSpot(p, labels); err != nil {
		p.Hold = cmp.Or(p.Hold, err.Error())
	}
}

// taintsIn are the taints that a further node of a pool is to bear when it is Ready: those that
// all its Ready nodes bear, else what the provider says, and none of a start. It may not tell of those that
// kubelets or others set, and tell of some that are taken off when a node has started. What
// only one node shows, and the provider doesn't tell of, may be of that node alone.
func taintsIn(p api.Pool, ready []*nodeRecord) []api.Taint {
	if len(ready) == 0 {
		return p.Taints
	}
	var out []api.Taint
	for _, t := range lasting(ready[0].node.Taints) {
		told := slices.Contains(p.Taints, t)
		if (told || len(ready) > 1 && !passing(t)) && !slices.ContainsFunc(ready, func(n *nodeRecord) bool { return !slices.Contains(n.node.Taints, t) }) {
			out = append(out, t)
		}
	}
	return out
}

// passing tells whether a taint is a state of a node: the node controller's, a cloud's, or that
// of an autoscaler which is about to remove it.
func passing(t api.Taint) bool {
	return slices.Contains([]string{"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted"}, t.Key) ||
		slices.ContainsFunc([]string{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "node.cluster.x-k8s.io/"}, func(prefix string) bool {
			return strings.HasPrefix(t.Key, prefix)
		})
}

// least is the component-wise minimum of what every node has; see devices for the others.
func least(a, b api.Resources) api.Resources {
	return api.Resources{
		MilliCPU:         min(a.MilliCPU, b.MilliCPU),
		Memory:           min(a.Memory, b.Memory),
		EphemeralStorage: min(a.EphemeralStorage, b.EphemeralStorage),
		Pods:             min(a.Pods, b.Pods),
	}
}

// speeds knows how fast the cores of a node are, also of nodes that are gone.
type speeds struct {
	poolOf  map[string]nodePool // node → pool
	pools   map[string]float64  // pool → CPUSpeed
	keepFor time.Duration       // how long a node that is gone is remembered
	unknown map[string]bool     // nodes asked for whose pool isn't known
	// room is the allocatable CPU of the nodes of now, largest the most that any had:
	// millicores.
	room    map[string]int64
	largest int64
}

type nodePool struct {
	pool string
	seen time.Time
}

func newSpeeds(keepFor time.Duration) *speeds {
	return &speeds{poolOf: map[string]nodePool{}, pools: map[string]float64{}, keepFor: keepFor, unknown: map[string]bool{}}
}

// learn notes the nodes and pools of now. A pool that is gone keeps its speed.
func (s *speeds) learn(now time.Time, nodes []*nodeRecord, pools []api.Pool) {
	for _, p := range pools {
		if p.CPUSpeed > 0 {
			s.pools[p.Name] = p.CPUSpeed
		}
		s.largest = max(s.largest, p.Allocatable.MilliCPU)
	}
	s.room = make(map[string]int64, len(nodes))
	for _, n := range nodes {
		s.room[n.node.Name] = n.node.Allocatable.MilliCPU
		s.largest = max(s.largest, n.node.Allocatable.MilliCPU)
		if n.node.Pool != "" {
			s.poolOf[n.node.Name] = nodePool{n.node.Pool, now}
		}
	}
	for name, np := range s.poolOf {
		if now.Sub(np.seen) > s.keepFor {
			delete(s.poolOf, name)
		}
	}
	clear(s.unknown)
}

// knows tells whether a node of that name is or was there.
func (s *speeds) knows(node string) bool {
	_, ok := s.poolOf[node]
	return ok
}

// roomOf a node is its allocatable CPU, millicores; of one that is not there that of
// the largest ever seen, 0 without any.
func (s *speeds) roomOf(node string) int64 {
	if room := s.room[node]; room > 0 {
		return room
	}
	return s.largest
}

// clone is for a reader in the background.
func (s *speeds) clone() *speeds {
	return &speeds{poolOf: maps.Clone(s.poolOf), pools: maps.Clone(s.pools), keepFor: s.keepFor, unknown: map[string]bool{}, largest: s.largest}
}

// gkeNode is the form of a GKE node's name: the cluster, the pool, eight
// hexadecimal digits of the instance group and four characters of the instance.
var gkeNode = regexp.MustCompile(`^(gke-.+-[0-9a-f]{8})(-[a-z0-9]{4})?$`)

// of returns the CPUSpeed of a node's cores, by its pool; for a node never
// seen by a pool's name in the node's. The node may also be an instance group,
// a GKE node's name without its last part. 1 when it can't be known.
func (s *speeds) of(node string) float64 {
	if len(s.pools) == 0 {
		return 1
	}
	if np, ok := s.poolOf[node]; ok {
		if speed, ok := s.pools[np.pool]; ok {
			return speed
		}
	}
	if gkeNode.MatchString(node) {
		best := ""
		for pool := range s.pools {
			if strings.Contains(node, "-"+pool+"-") && (len(pool) > len(best) || (len(pool) == len(best) && pool < best)) {
				best = pool
			}
		}
		if best != "" {
			return s.pools[best]
		}
	}
	if node == "" {
		node = "(not told)"
	}
	s.unknown[node] = true
	return 1
}
