package configmap

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/strategic"
)

// TestSource follows one ConfigMap through its life on a real API server; each
// restart is a new Source, which knows nothing but what the cluster keeps.
func TestSource(t *testing.T) {
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(cluster.ForTest(t).RESTConfig())
	maps := client.CoreV1().ConfigMaps("default")
	start := func() *Source {
		s := New(client, "default", "mash2-policy")
		if err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
		return s
	}
	// until waits for the watch to deliver what was written.
	until := func(s *Source, policy, finding string, paused bool) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		for {
			spec, findings, err := s.Spec(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			if len(findings) > 0 {
				got = findings[0].Reason
			}
			name := strategic.Decide(spec, api.Snapshot{Time: time.Now()}).Name
			if name == policy && got == finding && spec.Paused == paused {
				return
			}
			select {
			case <-s.Changed():
			case <-time.After(200 * time.Millisecond): // the finding has no event of its own
			case <-deadline:
				t.Fatalf("policy %s, finding %q, paused %v; want %s, %q, %v", name, got, spec.Paused, policy, finding, paused)
			}
		}
	}
	write := func(annotations map[string]string, data map[string]string) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mash2-policy", Annotations: annotations}, Data: data}
		if _, err := maps.Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
			if _, err := maps.Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}

	s := start()
	until(s, api.CostSaving, "PolicyMissing", false)
	write(nil, map[string]string{"policy": api.Performance})
	until(s, api.Performance, "", false)
	write(nil, map[string]string{"policy": "FASTER"})
	until(s, api.Performance, "InvalidPolicy", false)
	until(start(), api.Performance, "InvalidPolicy", false) // after a crash
	write(map[string]string{api.AnnotationPaused: "true"}, map[string]string{"policy": "FASTER"})
	until(s, api.Performance, "InvalidPolicy", true)
	write(nil, map[string]string{"policy": api.CostSaving})
	until(s, api.CostSaving, "", false)
	if err := maps.Delete(ctx, "mash2-policy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(s, api.CostSaving, "PolicyMissing", false)

	// The brake outlives the ConfigMap and the process.
	write(map[string]string{api.AnnotationPaused: "true"}, map[string]string{"policy": api.CostSaving})
	until(s, api.CostSaving, "", true)
	if err := maps.Delete(ctx, "mash2-policy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(s, api.CostSaving, "PolicyMissing", true)
	until(start(), api.CostSaving, "PolicyMissing", true)
	write(nil, map[string]string{"policy": api.CostSaving})
	until(s, api.CostSaving, "", false)

	// Pause needs no policy ConfigMap, and no operator; Resume takes it back.
	if err := maps.Delete(ctx, "mash2-policy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(s, api.CostSaving, "PolicyMissing", false)
	do := func(f func(context.Context, kubernetes.Interface, string, string) error) {
		t.Helper()
		if err := f(ctx, client, "default", "mash2-policy"); err != nil {
			t.Fatal(err)
		}
	}
	do(Pause)
	until(s, api.CostSaving, "PolicyMissing", true)
	until(start(), api.CostSaving, "PolicyMissing", true)
	if on, err := Braked(ctx, client, "default", "mash2-policy"); err != nil || !on {
		t.Errorf("braked: %v, %v", on, err)
	}
	do(Resume)
	until(s, api.CostSaving, "PolicyMissing", false)
	until(start(), api.CostSaving, "PolicyMissing", false)

	// The same where the annotation was what paused, before its ConfigMap went.
	annotated := func() {
		t.Helper()
		write(map[string]string{api.AnnotationPaused: "true"}, map[string]string{"policy": api.CostSaving})
		until(s, api.CostSaving, "", true)
		if err := maps.Delete(ctx, "mash2-policy", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		until(s, api.CostSaving, "PolicyMissing", true) // though an earlier pause was taken back
		until(start(), api.CostSaving, "PolicyMissing", true)
	}
	annotated()
	do(Resume)
	until(s, api.CostSaving, "PolicyMissing", false)
	annotated()
	do(Pause)
	do(Resume)
	until(s, api.CostSaving, "PolicyMissing", false)
	write(nil, map[string]string{"policy": api.CostSaving})
	do(Pause)
	until(s, api.CostSaving, "", true)
	do(Resume)
	until(s, api.CostSaving, "", false)

	// What was kept is of a version that this one doesn't understand.
	kept, err := maps.Get(ctx, "mash2-policy"+LastGoodSuffix, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kept.Data = map[string]string{"policies.yaml": "thrift: 3"}
	if _, err := maps.Update(ctx, kept, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	write(nil, map[string]string{"policy": "FASTER"})
	s = start()
	until(s, api.CostSaving, "InvalidPolicy", false)
	if _, findings, _ := s.Spec(ctx); !strings.Contains(findings[0].Message, "this version can't use") {
		t.Errorf("finding = %v", findings[0])
	}
}
