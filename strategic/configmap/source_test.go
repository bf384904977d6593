package configmap

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

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

// TestBrakeThatCannotBeRead: until a process has read the brake once, it counts as on, and what
// an earlier one kept of a release stays; after that the brake is what was read last.
func TestBrakeThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(context.Context, kubernetes.Interface, string, string) error
		want bool // once it has been read
	}{
		"paused":  {Pause, true},
		"resumed": {Resume, false},
		"neither": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			policy := func() *corev1.ConfigMap {
				return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "mash2-policy"}, Data: map[string]string{"policy": api.CostSaving}}
			}
			client := fake.NewClientset(policy())
			if c.act != nil {
				if err := c.act(ctx, client, "d", "mash2-policy"); err != nil {
					t.Fatal(err)
				}
				// What a repository has is without the annotation.
				if _, err := client.CoreV1().ConfigMaps("d").Update(ctx, policy(), metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			refused := false
			client.PrependReactor("get", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return refused && strings.HasSuffix(a.(clienttesting.GetAction).GetName(), BrakeSuffix), nil, errors.New("slow down")
			})
			look := func(s *Source, paused bool, finding string) {
				t.Helper()
				spec, findings, err := s.Spec(ctx)
				said := ""
				for _, f := range findings {
					said += f.Reason + ": " + f.Message
				}
				if err != nil || spec.Paused != paused || !strings.Contains(said, finding) || finding == "" && said != "" {
					t.Errorf("paused %v, want %v; %q, want %q; %v", spec.Paused, paused, said, finding, err)
				}
			}
			start := func() *Source {
				s := New(client, "d", "mash2-policy")
				if err := s.Start(ctx); err != nil {
					t.Fatal(err)
				}
				return s
			}
			before := start()
			look(before, c.want, "")
			refused = true
			look(before, c.want, "as before: reading ConfigMap d/mash2-policy-brake: slow down")
			kept := before.kept
			next := start()
			look(next, true, "nothing is written until it has been read once since this process began: reading")
			look(next, true, "nothing is written until")
			if !next.kept.equal(kept) {
				t.Errorf("kept %+v, before %+v", next.kept, kept)
			}
			refused = false
			look(next, c.want, "")
			refused = true
			look(next, c.want, "as before")
		})
	}
}

// A rollback is ended by a person although the content of the ConfigMap can't be used.
func TestRollbackEndsWhateverTheContent(t *testing.T) {
	for name, good := range map[string]bool{"after content that could be used": true, "without any": false} {
		t.Run(name, func(t *testing.T) {
			cm := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "mash2-policy"},
				Data:       map[string]string{KeyPolicy: api.Performance},
			}
			client := fake.NewClientset(cm)
			if !good {
				client = fake.NewClientset()
			}
			s := New(client, "d", "mash2-policy")
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Spec(t.Context()); err != nil {
				t.Fatal(err)
			}
			at := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
			cm.Data = map[string]string{KeyPolicy: "NONE"}
			cm.Annotations = map[string]string{api.AnnotationRollbackEnded: at.Format(time.RFC3339)}
			var err error
			if good {
				_, err = client.CoreV1().ConfigMaps("d").Update(t.Context(), cm, metav1.UpdateOptions{})
			} else {
				_, err = client.CoreV1().ConfigMaps("d").Create(t.Context(), cm, metav1.CreateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				spec, findings, err := s.Spec(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(findings) > 0 && findings[0].Reason == "InvalidPolicy" {
					if !spec.RollbackEnded.Equal(at) {
						t.Errorf("ended at %v, want %v", spec.RollbackEnded, at)
					}
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("findings %+v", findings)
				}
			}
		})
	}
}
