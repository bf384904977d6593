package sensing

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsscheme "k8s.io/metrics/pkg/client/clientset/versioned/scheme"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// podsInOrder is a view of some pods.
func podsInOrder(names ...string) *view {
	v := &view{}
	for _, name := range names {
		v.pods = append(v.pods, &podRecord{identity: identity{key: api.Key{Namespace: ns, Name: name}}})
	}
	v.podAt = (&podOrder{}).sort(v.pods)
	return v
}

func readingsOf(v *view) *usageList { return &usageList{view: v, names: map[string]string{}} }

// asText are readings, in order of key.
func (l *usageList) asText() string {
	slices.SortStableFunc(l.pods, func(a, b podUsage) int { return compareKeys(a.key, b.key) })
	var out []string
	for _, p := range l.pods {
		out = append(out, fmt.Sprintf("%s %d %d %v %g %v", p.key, p.place, p.at.UnixNano(), p.window, p.milliCPU, p.containers))
	}
	return fmt.Sprint(out)
}

// byTheClient reads a list in protobuf as objects.
func byTheClient(raw []byte) (*metricsv1beta1.PodMetricsList, error) {
	form, _ := runtime.SerializerInfoForMediaType(metricsscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	list := &metricsv1beta1.PodMetricsList{}
	_, _, err := form.Serializer.Decode(bytes.Clone(raw), nil, list)
	return list, err
}

// A list in protobuf is read as the client's own objects have it.
func TestPodMetricsInProtobuf(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	rapid.Check(t, func(t *rapid.T) {
		v := podsInOrder("a", "c")
		list, want := &metricsv1beta1.PodMetricsList{}, readingsOf(v)
		for range rapid.IntRange(0, 5).Draw(t, "pods") {
			m := metricsv1beta1.PodMetrics{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name.Draw(t, "name"), Labels: map[string]string{"app": "x"}},
				Timestamp:  metav1.NewTime(time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "seconds"), 0)),
				Window:     metav1.Duration{Duration: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "window"))},
			}
			for range rapid.IntRange(0, 3).Draw(t, "containers") {
				c := metricsv1beta1.ContainerMetrics{Name: name.Draw(t, "container"), Usage: corev1.ResourceList{"ephemeral-storage": resource.MustParse("1Gi")}}
				if rapid.Bool().Draw(t, "has CPU") {
					c.Usage[corev1.ResourceCPU] = *resource.NewScaledQuantity(rapid.Int64Range(0, 1e12).Draw(t, "cpu"), resource.Nano)
				}
				if rapid.Bool().Draw(t, "has memory") {
					c.Usage[corev1.ResourceMemory] = *resource.NewQuantity(rapid.Int64Range(0, 1e12).Draw(t, "memory"), resource.BinarySI)
				}
				m.Containers = append(m.Containers, c)
			}
			list.Items = append(list.Items, m)
		}
		raw := inProtobuf(list)
		asRead, err := byTheClient(raw)
		if err != nil {
			t.Fatal(err)
		}
		want.objects(asRead)
		got := readingsOf(v)
		if err := got.protobuf(raw); err != nil || got.asText() != want.asText() {
			t.Fatalf("got %s (%v), want %s", got.asText(), err, want.asText())
		}
	})
}

// A quantity that would take hours to work out is refused at once.
func TestPodMetricsAreReadAtOnce(t *testing.T) {
	m := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}, Containers: []metricsv1beta1.ContainerMetrics{
		{Name: "main", Usage: corev1.ResourceList{"cpu": resource.MustParse("1234567890")}},
	}}
	raw := bytes.Replace(inProtobuf(&metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{m}}), []byte("1234567890"), []byte("11e4000000"), 1)
	began := time.Now()
	err := readingsOf(podsInOrder("a")).protobuf(raw)
	if took := time.Since(began); err == nil || took > time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

// Whatever the answer is, it is read as the client reads it, or refused.
func FuzzPodMetricsInProtobuf(f *testing.F) {
	m := metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}, Timestamp: metav1.NewTime(epoch), Window: metav1.Duration{Duration: time.Minute},
		Containers: []metricsv1beta1.ContainerMetrics{{Name: "main", Usage: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi")}}},
	}
	whole := inProtobuf(&metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{m, m}})
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte("k8s\x00"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v := podsInOrder("a")
		got := readingsOf(v)
		if err := got.protobuf(raw); err != nil {
			return
		}
		list, err := byTheClient(raw)
		if err != nil {
			return // it has more than is looked at
		}
		if len(list.Items) != len(got.pods) {
			t.Fatalf("%q: %d pods, the client reads %d", raw, len(got.pods), len(list.Items))
		}
		for i, m := range list.Items {
			if p := got.pods[i]; cmp.Compare(p.key.Name, m.Name) != 0 || p.key.Namespace != m.Namespace || len(p.containers) != len(m.Containers) {
				t.Fatalf("%q: %+v, the client reads %+v", raw, p, m)
			}
		}
	})
}
