package sensing

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// fullPod is a pod as clusters have them: the managed fields, environment,
// volumes, probes and statuses that the cache leaves out.
func fullPod(deployment string, i int, node string) *corev1.Pod {
	p := podOn(deployment, i, node, epoch.Add(-time.Hour))
	text := make([]byte, 3000)
	for i := range text {
		text[i] = 'x'
	}
	p.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(string(text[:2000]))},
		{Manager: "kubelet", Subresource: "status", FieldsV1: metav1.NewFieldsV1(string(text))},
	}
	c := corev1.Container{Name: "main", Image: "example.com/shop/web:" + strconv.Itoa(i), Resources: p.Spec.Containers[0].Resources}
	for e := range 20 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d_%d", i, e), Value: fmt.Sprintf("the value of variable %d of %d", e, i)})
	}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: fmt.Sprintf("/healthz/%d", i)}}}
	c.LivenessProbe, c.ReadinessProbe = probe, probe.DeepCopy()
	c.VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
	p.Spec.Containers = []corev1.Container{c}
	p.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](300)}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ContainerID: fmt.Sprintf("containerd://%064d", i), ImageID: fmt.Sprintf("sha256:%064d", i)}}
	return p
}

// Bytes that the cache keeps per pod, beside those of the pod itself.
func BenchmarkPodCache(b *testing.B) {
	const n = 10_000
	b.Run("object", func(b *testing.B) {
		for range b.N {
			before := heap()
			pods := make([]*corev1.Pod, n)
			for i := range pods {
				pods[i] = fullPod(fmt.Sprintf("app-%d", i/10), i, fmt.Sprintf("node-%d", i/10)).DeepCopy()
			}
			b.ReportMetric((heap()-before)/n, "B/pod")
			runtime.KeepAlive(pods)
		}
	})
	b.Run("record", func(b *testing.B) {
		for range b.N {
			before := heap()
			s := newShapes()
			pods := make([]*podRecord, n)
			for i := range pods {
				// Strings of an object that was decoded are its own; those
				// kept must not hold the rest.
				pods[i] = s.podRecord(fullPod(fmt.Sprintf("app-%d", i/10), i, fmt.Sprintf("node-%d", i/10)).DeepCopy())
			}
			b.ReportMetric((heap()-before)/n, "B/pod")
			b.ReportMetric(float64(len(s.byID)), "shapes")
			runtime.KeepAlive(pods)
			runtime.KeepAlive(s)
		}
	})
}

// bigWorld is the size of the published envelope's first row: 1,000
// ManagedWorkloads with 10 pods each on 1,000 nodes, and 48 h of history.
func bigWorld(b *testing.B, workloads, podsEach, nodes int) *world {
	w := newWorld(b, func(c *Config) {
		c.History = 48 * time.Hour
		if workloads > 1000 {
			c.History = 6 * time.Hour
		}
		c.QueryTimeout, c.BackfillTimeout, c.UsageTimeout = time.Minute, time.Minute, time.Minute
		c.BackfillWait = 0
	})
	w.pools = []api.Pool{
		{Name: "e2", CPUSpeed: 0.5, Zones: []string{"a"}, Sizes: []int32{int32(nodes / 2)}},
		{Name: "n2", CPUSpeed: 1, Zones: []string{"a"}, Sizes: []int32{int32(nodes / 2)}},
	}
	for i := range nodes {
		n := node(fmt.Sprintf("node-%d", i), w.pools[i%2].Name)
		for l := range 20 {
			n.Labels[fmt.Sprintf("example.com/label-%d", l)] = strconv.Itoa(i)
		}
		w.put(n)
	}
	for d := range 8 {
		w.put(daemonSet(fmt.Sprintf("agent-%d", d), "50m", nil))
	}
	for i := range workloads {
		name := fmt.Sprintf("app-%d", i)
		d := deployment(name, int32(podsEach), "100m")
		d.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(int64(1+i%50)<<24, resource.BinarySI)
		w.put(d, replicaSet(name), managed(name))
		for p := range podsEach {
			pod := fullPod(name, p, fmt.Sprintf("node-%d", (i*podsEach+p)%nodes))
			pod.Spec.Containers[0].Resources = d.Spec.Template.Spec.Containers[0].Resources
			w.put(pod)
			w.usage[api.Key{Namespace: ns, Name: pod.Name}] = 100
		}
	}
	return w
}

// fillHistory gives every workload a full history, as after a backfill.
func (w *world) fillHistory() {
	d := w.Observer.demand
	newest := d.grid.At(w.clock.Now())
	v := w.caches.view()
	for id := range v.managed {
		h := demand.NewHistory(w.cfg.steps(), slackOf(id, w.cfg.steps()))
		for i := range w.cfg.steps() {
			h.Set(newest-int64(w.cfg.steps()-1-i), float64(i%500))
		}
		d.histories[id] = h
	}
	d.covered = newest
}

// answerOf is Prometheus' answer with the same samples of each pod that is asked for.
func answerOf(pods []*podRecord, asked func(pod string) bool, from time.Time, step time.Duration, steps int) []byte {
	var values, text bytes.Buffer
	for s := range steps {
		if s > 0 {
			values.WriteByte(',')
		}
		at := from.Add(time.Duration(s) * step)
		fmt.Fprintf(&values, `[%d,"0.1%d"]`, at.Unix(), at.Unix()%100) // the same when it is asked for again
	}
	text.WriteString(`{"status":"success","data":{"resultType":"matrix","result":[`)
	comma := ""
	for _, p := range pods {
		if asked(p.key.Name) {
			fmt.Fprintf(&text, `%s{"metric":{"namespace":%q,"pod":%q,"node":%q},"values":[%s]}`, comma, p.key.Namespace, p.key.Name, p.pod.Node, values.Bytes())
			comma = ","
		}
	}
	text.WriteString("]}}")
	return text.Bytes()
}

// One cycle's Observe at that size and at the largest there is, with each source answering
// over HTTP what it has ready.
func BenchmarkObserve(b *testing.B) {
	for _, c := range []struct{ workloads, podsEach, nodes int }{{1000, 10, 1000}, {5000, 30, 5000}} {
		b.Run(fmt.Sprintf("%d workloads, %d pods", c.workloads, c.workloads*c.podsEach), func(b *testing.B) {
			benchmarkObserve(b, c.workloads, c.podsEach, c.nodes)
		})
	}
}

func benchmarkObserve(b *testing.B, workloads, podsEach, nodes int) {
	w := bigWorld(b, workloads, podsEach, nodes)
	w.protobuf = true
	pods := w.caches.view().pods
	type question struct {
		query string
		from  time.Time
		steps int
	}
	answers := map[question][]byte{} // that were asked for before: we measure who reads
	var mu sync.Mutex
	w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
		q := w.queries[len(w.queries)-1]
		w.queries = nil
		w.mu.Unlock() // parts are asked for side by side
		defer w.mu.Lock()
		mu.Lock()
		text, ok := answers[question{q.query, q.from, q.steps}]
		if !ok {
			text = answerOf(pods, podsAsked(b, q.query), q.from, w.cfg.Step, q.steps)
			answers[question{q.query, q.from, q.steps}] = text
		}
		mu.Unlock()
		_, _ = rw.Write(text)
		return true
	})
	before := heap()
	w.fillHistory()
	b.ReportMetric((heap()-before)/1e6, "history-MB")
	w.clock.Step(w.cfg.Step)
	w.observe()

	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		w.clock.Step(w.cfg.Step)
		clear(answers)
		now := w.clock.Now()
		w.Observer.demand.fetch(context.Background(), now, []string{ns}, w.caches.view())
		metrics := w.podMetrics()
		w.usageReady = inProtobuf(&metrics)
		runtime.GC()
		b.StartTimer()
		s, err := w.Observe(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		if len(s.Pods) != workloads*podsEach || len(s.Workloads) != workloads || s.Workloads[0].DemandStale || s.Workloads[0].Usage == nil {
			b.Fatalf("%d pods, %d workloads, first %+v; %+v", len(s.Pods), len(s.Workloads), s.Workloads[0], s.Metrics)
		}
	}
	b.StopTimer()
	b.ReportMetric(heap()/1e6, "heap-MB")
}

// A cycle of one new sample for each of 1,000 workloads with 11,520 samples.
func BenchmarkHistories(b *testing.B) {
	const workloads, window = 1000, 11_520
	g := demand.Grid{Step: 15 * time.Second}
	histories := make([]*demand.History, workloads)
	for i := range histories {
		histories[i] = demand.NewHistory(window, slackOf(targetID{name: strconv.Itoa(i)}, window))
		for s := range int64(window) {
			histories[i].Set(s, float64(s%500))
		}
	}
	step := int64(window)
	b.ReportAllocs()
	for b.Loop() {
		for _, h := range histories {
			h.Set(step, 1)
			if s := h.Series(g); len(s.Values) != window {
				b.Fatalf("%d samples", len(s.Values))
			}
		}
		step++
	}
}
