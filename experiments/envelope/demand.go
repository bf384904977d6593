package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/mash2-io/mash2/experiments/load/exposition"
)

// demand of a workload in cores: it swings around a mean, and pods share it,
// however many they are. Its phase is the workload's own, so that at any time
// some workloads grow and others shrink while the sum hardly moves.
type demand struct {
	mean   float64 // cores
	phase  float64 // radians at the unix epoch
	period float64 // seconds
}

// swing is the amplitude, relative to the mean.
const swing = 1.0 / 3

// Nothing real is without noise: in each of noiseSlots of a period the demand is
// off its swing by up to noisy of the mean. Without any, the steps that scrapes and
// rates make of it would be all that a forecaster has to explain.
const noiseSlots, noisy = 240, 0.05

// rate is cores at a time in seconds since the epoch.
func (d demand) rate(t float64) float64 {
	return d.mean * (1 + swing*math.Sin(2*math.Pi*t/d.period+d.phase) + d.noise(math.Floor(t*noiseSlots/d.period)))
}

// used is the integral of rate from a to b: core seconds.
func (d demand) used(a, b float64) float64 {
	w, slot := 2*math.Pi/d.period, d.period/noiseSlots
	sum := b - a - swing/w*(math.Cos(w*b+d.phase)-math.Cos(w*a+d.phase))
	for i := math.Floor(a / slot); i*slot < b; i++ {
		sum += d.noise(i) * (min(b, (i+1)*slot) - max(a, i*slot))
	}
	return d.mean * sum
}

// noise of a slot, the same whoever asks and whenever.
func (d demand) noise(slot float64) float64 {
	r := rand.NewPCG(math.Float64bits(d.phase), math.Float64bits(slot))
	return noisy * (2*float64(r.Uint64()>>11)/(1<<53) - 1)
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// meter counts the CPU seconds of the workloads' Ready pods.
type meter struct {
	pods   corelisters.PodLister
	demand map[string]demand // by the workload's name

	mu   sync.Mutex
	used map[string]*used // by UID
}

type used struct {
	seconds float64
	until   float64 // seconds since the epoch
}

// containers are what runs now, one in each pod.
func (m *meter) containers() []exposition.Container {
	pods, err := m.pods.List(labels.Everything())
	if err != nil {
		return nil
	}
	now := seconds(time.Now())
	ready := map[string]int{}
	for _, p := range pods {
		if isReady(p) {
			ready[p.Labels[labelApp]]++
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	present := make(map[string]*used, len(m.used))
	out := make([]exposition.Container, 0, len(pods))
	for _, p := range pods {
		app := p.Labels[labelApp]
		d, ours := m.demand[app]
		if !ours || !isReady(p) {
			continue
		}
		u := m.used[string(p.UID)]
		if u == nil {
			u = &used{until: seconds(p.Status.StartTime.Time)}
		}
		present[string(p.UID)] = u
		u.seconds += d.used(u.until, now) / float64(ready[app])
		u.until = now
		out = append(out, exposition.Container{
			Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), Labels: p.Labels, Name: container, Image: image,
			Node: p.Spec.NodeName, Started: p.Status.StartTime.Time, CPU: u.seconds, Memory: 32 << 20,
		})
	}
	m.used = present
	return out
}

func isReady(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || p.Status.StartTime == nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// trimmed keeps of a pod what the meter needs.
func trimmed(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, Labels: p.Labels,
			DeletionTimestamp: p.DeletionTimestamp, ResourceVersion: p.ResourceVersion,
		},
		Spec:   corev1.PodSpec{NodeName: p.Spec.NodeName},
		Status: corev1.PodStatus{StartTime: p.Status.StartTime, Conditions: p.Status.Conditions},
	}, nil
}

// past writes the CPU seconds of each workload over a time that is gone, in
// OpenMetrics' text format. One pod had each workload's whole demand then, on
// one of the nodes; its name has the form of a Deployment's pods.
func past(w io.Writer, apps []app, nodes []string, from, to time.Time, every time.Duration) error {
	b := bufio.NewWriter(w)
	series := make([]string, len(apps))
	for i, a := range apps {
		series[i] = fmt.Sprintf("container_cpu_usage_seconds_total{namespace=%q,pod=%q,container=%q,cpu=\"total\",node=%q,job=\"cadvisor\"} ",
			a.namespace, a.name+"-"+strings.Repeat("b", 9)+"-"+strings.Repeat("c", 5), container, nodes[i%len(nodes)])
	}
	const head, end = "# TYPE container_cpu_usage_seconds counter\n", "# EOF\n"
	if _, err := b.WriteString(head); err != nil {
		return err
	}
	const block = 2 * time.Hour        // of Prometheus: a text for each
	used := make([]float64, len(apps)) // core seconds since the beginning
	var line []byte
	for t := from; t.Before(to); t = t.Add(every) {
		if t.After(from) && !t.Truncate(block).Equal(t.Add(-every).Truncate(block)) {
			if _, err := b.WriteString(end + head); err != nil {
				return err
			}
		}
		for i, a := range apps {
			if t.After(from) {
				used[i] += a.demand.used(seconds(t.Add(-every)), seconds(t))
			}
			line = append(line[:0], series[i]...)
			line = strconv.AppendFloat(line, used[i], 'f', 4, 64)
			line = append(line, ' ')
			line = strconv.AppendFloat(line, seconds(t), 'f', 3, 64)
			line = append(line, '\n')
			if _, err := b.Write(line); err != nil {
				return err
			}
		}
	}
	if _, err := b.WriteString(end); err != nil {
		return err
	}
	return b.Flush()
}
