// Package exposition shows the containers of an experiment as a cluster would:
// cAdvisor's series for Prometheus, and metrics.k8s.io for the stock HPA and
// kubectl top.
package exposition

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Container is a running container as it is now. Counters only grow, in
// seconds of the clock on the wall.
type Container struct {
	Namespace, Pod, UID string
	Labels              map[string]string // of the pod
	Name, Image         string
	Node                string
	Started             time.Time

	CPU              float64 // core seconds
	Periods          float64 // CFS periods in which it ran
	ThrottledPeriods float64
	ThrottledSeconds float64
	Memory           int64 // working set in bytes
}

// Source returns the containers that run now.
type Source func() []Container

// Cadvisor serves the containers in the Prometheus text format, with the names
// and labels of cAdvisor's /metrics/cadvisor. As there, a pod has a series of
// its own with an empty container label, the sum of its containers, so queries
// need container!="". The node label, which otherwise comes from the scrape
// configuration, is there already, since one endpoint serves all nodes.
func Cadvisor(source Source) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(cadvisor(source)) // its descriptors are constants
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

type cadvisor Source

var (
	labelNames = []string{"id", "namespace", "pod", "container", "image", "node"}

	cpuDesc       = prometheus.NewDesc("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", append([]string{"cpu"}, labelNames...), nil)
	periodsDesc   = prometheus.NewDesc("container_cpu_cfs_periods_total", "Number of elapsed enforcement period intervals.", labelNames, nil)
	throttledDesc = prometheus.NewDesc("container_cpu_cfs_throttled_periods_total", "Number of throttled period intervals.", labelNames, nil)
	secondsDesc   = prometheus.NewDesc("container_cpu_cfs_throttled_seconds_total", "Total time duration the container has been throttled.", labelNames, nil)
	memoryDesc    = prometheus.NewDesc("container_memory_working_set_bytes", "Current working set in bytes.", labelNames, nil)
	startDesc     = prometheus.NewDesc("container_start_time_seconds", "Start time of the container since unix epoch in seconds.", labelNames, nil)
)

// Describe implements prometheus.Collector.
func (cadvisor) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{cpuDesc, periodsDesc, throttledDesc, secondsDesc, memoryDesc, startDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c cadvisor) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, values ...string) {
		m, err := prometheus.NewConstMetric(d, t, v, values...)
		if err != nil { // a label that is not UTF-8
			m = prometheus.NewInvalidMetric(d, err)
		}
		ch <- m
	}
	for _, x := range c() {
		pod := "/kubepods/pod" + x.UID
		for _, values := range [][]string{
			{pod + "/" + x.Name, x.Namespace, x.Pod, x.Name, x.Image, x.Node},
			{pod, x.Namespace, x.Pod, "", "", x.Node},
		} {
			send(cpuDesc, prometheus.CounterValue, x.CPU, append([]string{"total"}, values...)...)
			send(periodsDesc, prometheus.CounterValue, x.Periods, values...)
			send(throttledDesc, prometheus.CounterValue, x.ThrottledPeriods, values...)
			send(secondsDesc, prometheus.CounterValue, x.ThrottledSeconds, values...)
			send(memoryDesc, prometheus.GaugeValue, float64(x.Memory), values...)
			send(startDesc, prometheus.GaugeValue, float64(x.Started.UnixMilli())/1000, values...)
		}
	}
}
