package sensing

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// usageSource reads metrics.k8s.io and keeps the last readings.
type usageSource struct {
	client metricsclient.Interface
	cfg    Config
	last   time.Time // of the last try
	pods   []podUsage
	found  *view                // in which their places are
	byPod  []int32              // where a pod's reading is, and 1, by its place in found; 0 for none
	nodes  map[string]nodeUsage // by name; empty where they can't be read
	// forbidden is why nodes may not be read; empty if they may.
	forbidden string
	health    api.SourceHealth
}

// podUsage is one pod's reading.
type podUsage struct {
	key      api.Key
	place    int32 // in the view, negative if the pod is not there
	at       time.Time
	window   time.Duration
	milliCPU float64
	// containers of the pod, for triggers.
	containers []containerUsage
}

// nodeUsage is one node's reading.
type nodeUsage struct {
	at       time.Time
	milliCPU float64
}

// containerUsage is one container's reading: cores and bytes.
type containerUsage struct {
	name        string
	cpu, memory float64
}

// reading of a pod of the view of the last fold, if there is one.
func (u *usageSource) reading(pod api.Key) (podUsage, bool) {
	if u.found == nil {
		return podUsage{}, false
	}
	if i, ok := u.found.podAt.of(pod); ok && u.byPod[i] > 0 {
		return u.pods[u.byPod[i]-1], true
	}
	return podUsage{}, false
}

// find looks for the pods in a view.
func (u *usageSource) find(v *view) {
	if u.found != v {
		for i := range u.pods {
			p := &u.pods[i]
			var there bool
			if p.place, there = v.podAt.of(p.key); !there {
				p.place = -1
			}
		}
	}
	u.found, u.byPod = v, make([]int32, len(v.pods))
	for i := range u.pods {
		if at := u.pods[i].place; at >= 0 {
			u.byPod[at] = int32(i) + 1
		}
	}
}

// of a resource, all containers together or one of them; false without it.
func (u podUsage) of(resource, container string) (sum float64, ok bool) {
	for _, c := range u.containers {
		if container != "" && c.name != container {
			continue
		}
		ok = true
		if resource == "memory" {
			sum += c.memory
		} else {
			sum += c.cpu
		}
	}
	return sum, ok
}

func newUsageSource(cfg Config) (*usageSource, error) {
	// A list of all pods takes a fraction of the time in this form. Who doesn't have it
	// answers in the other one.
	rc := rest.CopyConfig(cfg.REST)
	rc.ContentType = runtime.ContentTypeProtobuf
	rc.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := metricsclient.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making the metrics.k8s.io client: %w", err)
	}
	return &usageSource{client: client, cfg: cfg}, nil
}

// manyNamespaces is from how many namespaces on one list of all pods is asked
// for instead of one list each.
const manyNamespaces = 8

// read asks again when the interval is over. A failure keeps the old readings,
// which age.
func (u *usageSource) read(ctx context.Context, now time.Time, namespaces []string, v *view) {
	if len(namespaces) == 0 || (!u.last.IsZero() && now.Sub(u.last) < u.cfg.UsageInterval) {
		return
	}
	u.last = now
	ctx, cancel := context.WithTimeout(ctx, u.cfg.UsageTimeout)
	defer cancel()
	if len(namespaces) > manyNamespaces {
		namespaces = []string{metav1.NamespaceAll}
	}
	list := usageList{view: v, names: map[string]string{}, pods: make([]podUsage, 0, len(v.pods))}
	for _, ns := range namespaces {
		if err := u.list(ctx, ns, &list); err != nil {
			u.health.Reachable, u.health.Error = false, fmt.Sprintf("listing pod metrics: %v", err)
			return
		}
	}
	u.pods, u.found = list.pods, v
	u.nodes = map[string]nodeUsage{}
	// Without them what DaemonSets use is not known, and nothing else depends on it.
	nodes, err := u.client.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	u.forbidden = ""
	switch {
	case apierrors.IsForbidden(err):
		u.forbidden = err.Error()
	case err == nil:
		for i := range nodes.Items {
			m := &nodes.Items[i]
			u.nodes[m.Name] = nodeUsage{m.Timestamp.Time, m.Usage.Cpu().AsApproximateFloat64() * 1000}
		}
	}
	u.health = api.SourceHealth{Reachable: true, LastOK: now}
}

// fold sums the fresh readings of the pods that exist by target, in reference
// millicores.
func (u *usageSource) fold(now time.Time, v *view) map[targetID]*api.Usage {
	u.find(v)
	read := make([]demand.Readings, len(v.managed)) // by index
	for i := range u.pods {
		m := &u.pods[i]
		age := now.Sub(m.at)
		if age > u.cfg.UsageStaleAfter || age < -u.cfg.UsageStaleAfter {
			continue
		}
		if m.place < 0 {
			continue
		}
		p, of := v.pods[m.place], v.ofPod[m.place]
		if of == nil || m.at.Before(p.pod.Created) {
			continue
		}
		read[of.index].Add(measuredPod(p, 0, m.window), m.at, m.window, m.milliCPU*v.speeds[m.place])
	}
	out := make(map[targetID]*api.Usage, len(read))
	for id, m := range v.managed {
		if usage := read[m.index].Usage(); usage != nil {
			out[id] = usage
		}
	}
	return out
}

// standing is each pool's api.Pool.StandingUsage, where it was read. Pods of namespaces that
// are not read, and those that have just gone, count as if they were on every node. It comes
// after fold.
func (u *usageSource) standing(now time.Time, v *view) map[string]float64 {
	left := map[string]float64{} // by node
	for name, m := range u.nodes {
		if age := now.Sub(m.at); age <= u.cfg.UsageStaleAfter && age >= -u.cfg.UsageStaleAfter {
			left[name] = m.milliCPU
		}
	}
	for i := range u.pods {
		m := &u.pods[i]
		if m.place < 0 {
			continue
		}
		p := v.pods[m.place]
		if p.pod.DaemonSet || p.pod.Mirror {
			continue
		}
		if _, read := left[p.pod.Node]; read {
			left[p.pod.Node] -= m.milliCPU
		}
	}
	nodes := map[string][]float64{} // by pool
	for _, n := range v.nodes {
		if used, ok := left[n.node.Name]; ok && n.node.Ready && n.node.Pool != "" {
			nodes[n.node.Pool] = append(nodes[n.node.Pool], max(used, 0))
		}
	}
	out := map[string]float64{}
	for pool, used := range nodes {
		slices.Sort(used)
		out[pool] = used[len(used)*3/4]
	}
	return out
}
