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
	of     map[api.Key]int32    // where each is
	nodes  map[string]nodeUsage // by name; empty where they can't be read
	// forbidden is why nodes may not be read; empty if they may.
	forbidden string
	health    api.SourceHealth
}

// podUsage is one pod's reading.
type podUsage struct {
	key      api.Key
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

// reading of a pod, if there is one.
func (u *usageSource) reading(pod api.Key) (podUsage, bool) {
	i, ok := u.of[pod]
	if !ok {
		return podUsage{}, false
	}
	return u.pods[i], true
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
func (u *usageSource) read(ctx context.Context, now time.Time, namespaces []string) {
	if len(namespaces) == 0 || (!u.last.IsZero() && now.Sub(u.last) < u.cfg.UsageInterval) {
		return
	}
	u.last = now
	ctx, cancel := context.WithTimeout(ctx, u.cfg.UsageTimeout)
	defer cancel()
	if len(namespaces) > manyNamespaces {
		namespaces = []string{metav1.NamespaceAll}
	}
	var pods []podUsage
	for _, ns := range namespaces {
		list, err := u.client.MetricsV1beta1().PodMetricses(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			u.health.Reachable, u.health.Error = false, fmt.Sprintf("listing pod metrics: %v", err)
			return
		}
		for i := range list.Items {
			m := &list.Items[i]
			p := podUsage{
				key:    api.Key{Namespace: m.Namespace, Name: m.Name},
				at:     m.Timestamp.Time,
				window: m.Window.Duration,
			}
			for _, c := range m.Containers {
				used := containerUsage{shared(c.Name), c.Usage.Cpu().AsApproximateFloat64(), c.Usage.Memory().AsApproximateFloat64()}
				p.milliCPU += used.cpu * 1000
				p.containers = append(p.containers, used)
			}
			pods = append(pods, p)
		}
	}
	u.pods, u.of = pods, make(map[api.Key]int32, len(pods))
	for i := range pods {
		u.of[pods[i].key] = int32(i)
	}
	u.nodes = map[string]nodeUsage{}
	// Without them what DaemonSets use is not known, and nothing else depends on it.
	list, err := u.client.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	u.forbidden = ""
	switch {
	case apierrors.IsForbidden(err):
		u.forbidden = err.Error()
	case err == nil:
		for i := range list.Items {
			m := &list.Items[i]
			u.nodes[m.Name] = nodeUsage{m.Timestamp.Time, m.Usage.Cpu().AsApproximateFloat64() * 1000}
		}
	}
	u.health = api.SourceHealth{Reachable: true, LastOK: now}
}

// fold sums the fresh readings of the pods that exist by target, in reference
// millicores.
func (u *usageSource) fold(now time.Time, v *view, sp *speeds) map[targetID]*api.Usage {
	read := map[targetID]*demand.Readings{}
	for i := range u.pods {
		m := &u.pods[i]
		age := now.Sub(m.at)
		if age > u.cfg.UsageStaleAfter || age < -u.cfg.UsageStaleAfter {
			continue
		}
		p, id := v.pod(m.key)
		if id == (targetID{}) || m.at.Before(p.pod.Created) {
			continue
		}
		of := read[id]
		if of == nil {
			of = &demand.Readings{}
			read[id] = of
		}
		of.Add(measuredPod(p, 0, m.window), m.at, m.window, m.milliCPU*sp.of(p.pod.Node))
	}
	out := make(map[targetID]*api.Usage, len(read))
	for id, of := range read {
		if usage := of.Usage(); usage != nil {
			out[id] = usage
		}
	}
	return out
}

// standing is each pool's api.Pool.StandingUsage, where it was read. Pods of namespaces that
// are not read, and those that have just gone, count as if they were on every node.
func (u *usageSource) standing(now time.Time, v *view) map[string]float64 {
	left := map[string]float64{} // by node
	for name, m := range u.nodes {
		if age := now.Sub(m.at); age <= u.cfg.UsageStaleAfter && age >= -u.cfg.UsageStaleAfter {
			left[name] = m.milliCPU
		}
	}
	for i := range u.pods {
		m := &u.pods[i]
		p, _ := v.pod(m.key)
		if p == nil || p.pod.DaemonSet || p.pod.Mirror {
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
