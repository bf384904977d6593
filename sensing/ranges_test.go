package sensing

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// TestLimitRangesBoundSizes: what the LimitRanges of its namespace allow the containers of a
// workload, all of them together, and what a pod may have by the share of each.
func TestLimitRangesBoundSizes(t *testing.T) {
	amounts := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if text != "" {
				out[name] = resource.MustParse(text)
			}
		}
		return out
	}
	item := func(of corev1.LimitType, least, most, ratio corev1.ResourceList) corev1.LimitRangeItem {
		return corev1.LimitRangeItem{Type: of, Min: least, Max: most, MaxLimitRequestRatio: ratio}
	}
	limitRange := func(namespace, name string, items ...corev1.LimitRangeItem) *corev1.LimitRange {
		return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.LimitRangeSpec{Limits: items}}
	}
	for name, c := range map[string]struct {
		ranges  []*corev1.LimitRange
		sidecar string          // CPU that one requests besides
		main    api.AmountRange // of 300m and 300 Mi
		side    api.AmountRange // of 100m and 100 Mi
	}{
		"none":                 {},
		"of another namespace": {ranges: []*corev1.LimitRange{limitRange("other", "small", item(corev1.LimitTypeContainer, amounts("100m", ""), nil, nil))}},
		"of claims":            {ranges: []*corev1.LimitRange{limitRange(ns, "claims", item(corev1.LimitTypePersistentVolumeClaim, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, nil, nil))}},
		"of containers": {
			ranges: []*corev1.LimitRange{limitRange(ns, "small", item(corev1.LimitTypeContainer, amounts("50m", "64Mi"), amounts("2", "4Gi"), amounts("2500m", "4")))},
			main:   api.AmountRange{Names: "small", Least: api.Amounts{MilliCPU: 50, Memory: 64 << 20}, Most: api.Amounts{MilliCPU: 2000, Memory: 4 << 30}, CPURatio: 2.5, MemoryRatio: 4},
			side:   api.AmountRange{Names: "small", Least: api.Amounts{MilliCPU: 50, Memory: 64 << 20}, Most: api.Amounts{MilliCPU: 2000, Memory: 4 << 30}, CPURatio: 2.5, MemoryRatio: 4},
		},
		"two, of which the narrower holds": {
			ranges: []*corev1.LimitRange{
				limitRange(ns, "b", item(corev1.LimitTypeContainer, amounts("50m", ""), amounts("", "4Gi"), amounts("4", ""))),
				limitRange(ns, "a", item(corev1.LimitTypeContainer, amounts("70m", ""), amounts("1", "2Gi"), amounts("2", ""))),
			},
			main: api.AmountRange{Names: "a, b", Least: api.Amounts{MilliCPU: 70}, Most: api.Amounts{MilliCPU: 1000, Memory: 2 << 30}, CPURatio: 2},
			side: api.AmountRange{Names: "a, b", Least: api.Amounts{MilliCPU: 70}, Most: api.Amounts{MilliCPU: 1000, Memory: 2 << 30}, CPURatio: 2},
		},
		"of pods, by shares": {
			ranges: []*corev1.LimitRange{limitRange(ns, "pods", item(corev1.LimitTypePod, amounts("202m", "200Mi"), amounts("1", ""), amounts("3", "")), item(corev1.LimitTypeContainer, amounts("60m", ""), nil, nil))},
			main:   api.AmountRange{Names: "pods", Least: api.Amounts{MilliCPU: 152, Memory: 150 << 20}, Most: api.Amounts{MilliCPU: 750}, CPURatio: 3},
			side:   api.AmountRange{Names: "pods", Least: api.Amounts{MilliCPU: 60, Memory: 50 << 20}, Most: api.Amounts{MilliCPU: 250}, CPURatio: 3},
		},
		"of pods, beside a sidecar": {
			ranges: []*corev1.LimitRange{limitRange(ns, "pods", item(corev1.LimitTypePod, nil, amounts("1", ""), nil))}, sidecar: "200m",
			main: api.AmountRange{Names: "pods", Most: api.Amounts{MilliCPU: 600}},
			side: api.AmountRange{Names: "pods", Most: api.Amounts{MilliCPU: 200}},
		},
		"of pods, and a sidecar leaves nothing": {
			ranges: []*corev1.LimitRange{limitRange(ns, "pods", item(corev1.LimitTypePod, nil, amounts("1", ""), nil))}, sidecar: "2",
			main: api.AmountRange{Names: "pods", Most: api.Amounts{MilliCPU: 1}},
			side: api.AmountRange{Names: "pods", Most: api.Amounts{MilliCPU: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 0)
			d := deployment("web", 1, "300m")
			spec := &d.Spec.Template.Spec
			spec.Containers[0].Resources.Requests = amounts("300m", "300Mi")
			spec.Containers = append(spec.Containers, corev1.Container{Name: "side", Resources: corev1.ResourceRequirements{Requests: amounts("100m", "100Mi")}})
			mw := managed("web")
			mw.Spec.Sizing = &v1alpha1.Sizing{Mode: v1alpha1.SizingInPlace}
			w.put(d, mw)
			if c.sidecar != "" {
				always := corev1.ContainerRestartPolicyAlways
				p := podOn("web", 0, "node-1", w.clock.Now())
				p.Spec.Containers = spec.Containers
				p.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: amounts(c.sidecar, "")}}}
				w.put(p)
			}
			for _, r := range c.ranges {
				w.put(r)
			}
			x, _ := w.workload("web")
			if x.Sizing == nil || len(x.Sizing.Containers) != 2 {
				t.Fatalf("sizing %+v", x.Sizing)
			}
			if got := x.Sizing.Containers[0].Range; got != c.main {
				t.Errorf("main: %+v, want %+v", got, c.main)
			}
			if got := x.Sizing.Containers[1].Range; got != c.side {
				t.Errorf("side: %+v, want %+v", got, c.side)
			}
		})
	}
}
