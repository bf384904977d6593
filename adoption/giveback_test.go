package adoption

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// midMove is a cluster in which a move of web has come to its surge: of 8
// wanted replicas, 8 old ones are marked to go, and 8 more have been added; the
// old node is cordoned, another one is parked, and a third is somebody else's
// affair.
func midMove(t *testing.T) []client.Object {
	t.Helper()
	labels := map[string]string{"app": "web"}
	d := target()
	d.Spec.Replicas, d.Spec.Selector = ptr.To[int32](16), &metav1.LabelSelector{MatchLabels: labels}
	saved, err := json.Marshal(stripped(hpa()))
	if err != nil {
		t.Fatal(err)
	}
	mw := FromHPA(hpa()).Workload
	mw.Spec.Mode = v1alpha1.ModeFull
	mw.Annotations[AnnotationSaved] = string(saved)
	mw.Status.PlannedReplicas = ptr.To[int32](8)
	pod := func(name, node string, annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels, Annotations: annotations},
			Spec:       corev1.PodSpec{NodeName: node},
		}
	}
	node := func(name string, cordoned bool, annotations map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: corev1.NodeSpec{Unschedulable: cordoned}}
	}
	return []client.Object{
		d, &mw,
		pod("old-1", "left", map[string]string{api.AnnotationPodDeletionCost: "-1000", api.AnnotationDeletionCostSet: "true"}),
		pod("old-2", "left", map[string]string{api.AnnotationPodDeletionCost: "-1000", api.AnnotationDeletionCostSet: "true"}),
		pod("new-1", "joined", map[string]string{api.AnnotationPodDeletionCost: "5"}),
		node("left", true, map[string]string{api.AnnotationCordonedFor: api.CordonMigration, api.AnnotationCordonedAt: "2026-11-21T12:00:00Z", "other": "stays"}),
		node("parked", true, map[string]string{api.AnnotationParked: "true"}),
		node("joined", false, map[string]string{api.AnnotationGaveUp: "cheap 2026-11-21T12:00:00Z"}),
		node("theirs", true, nil),
	}
}

// left is what of a move is still there.
func (b *bed) left() []string {
	b.Helper()
	var out []string
	d := &appsv1.Deployment{}
	if err := b.Get(b.Context(), web, d); err != nil {
		b.Fatal(err)
	}
	if *d.Spec.Replicas != 8 {
		out = append(out, "surged replicas")
	}
	if d.Annotations[api.AnnotationTakenOver] != "" {
		out = append(out, "take-over")
	}
	var pods corev1.PodList
	var nodes corev1.NodeList
	if err := errors.Join(b.List(b.Context(), &pods), b.List(b.Context(), &nodes)); err != nil {
		b.Fatal(err)
	}
	for _, p := range pods.Items {
		if want := map[string]string{"new-1": "5"}[p.Name]; p.Annotations[api.AnnotationPodDeletionCost] != want || p.Annotations[api.AnnotationDeletionCostSet] != "" {
			out = append(out, "cost of "+p.Name)
		}
	}
	for _, n := range nodes.Items {
		if n.Spec.Unschedulable != (n.Name == "theirs") {
			out = append(out, "cordon of "+n.Name)
		}
		for key := range n.Annotations {
			if strings.HasPrefix(key, api.Group) {
				out = append(out, key+" of "+n.Name)
			}
		}
	}
	return out
}

// Killed at any write, with an operator that answers or without, running it
// again leaves nothing of the move, and the HPA is back only when mash2 writes no
// more.
func TestReleasedInTheMidstOfAMove(t *testing.T) {
	for _, operator := range []bool{true, false} {
		writes := 0
		for at := 0; at <= writes; at++ { // 0: not killed at all, which counts the writes
			b := newBed(t, operator, midMove(t)...)
			b.fail = at
			release := func() error {
				err := b.adoption.Release(t.Context(), web, !operator)
				if b.theirs() != nil && b.workload().Spec.Mode != v1alpha1.ModeShadow {
					t.Errorf("killed at write %d: the HPA is back and mash2 in %s", at, b.workload().Spec.Mode)
				}
				return err
			}
			first := release()
			if at == 0 {
				writes = len(b.writes)
				t.Logf("operator %v: %v", operator, b.writes)
			}
			if first == nil && at > 0 && len(b.left()) > 0 {
				t.Errorf("killed at write %d: it says nothing, and left %v", at, b.left())
			}
			if err := release(); err != nil {
				t.Errorf("killed at write %d: again: %v", at, err)
			}
			if diff := cmp.Diff([]string(nil), b.left()); diff != "" {
				t.Errorf("operator %v, killed at write %d (%v), left (+):\n%s", operator, at, b.writes, diff)
			}
			if b.theirs() == nil || b.workload().Annotations[AnnotationSaved] != "" {
				t.Errorf("killed at write %d: the HPA %v", at, b.theirs())
			}
		}
		if writes < 8 {
			t.Errorf("only %d writes: a release has more", writes)
		}
	}
}

func TestWhatAReleaseLeavesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		operator bool
		change   func([]client.Object) []client.Object
		want     []string
	}{
		"nodes, while the operator acts for others": {true, func(o []client.Object) []client.Object {
			other := o[1].DeepCopyObject().(*v1alpha1.ManagedWorkload)
			other.Name = "till"
			return append(o, other)
		}, []string{"cordon of left", "mash2.io/cordoned-for of left", "mash2.io/cordoned-at of left", "mash2.io/gave-up of joined", "cordon of parked", "mash2.io/parked of parked"}},
		"replicas, when somebody else has set them since": {true, func(o []client.Object) []client.Object {
			d := o[0].(*appsv1.Deployment)
			d.ManagedFields = d.ManagedFields[1:]
			return o
		}, []string{"surged replicas"}},
		"replicas, when there is no operator and nothing of a move": {false, func(o []client.Object) []client.Object {
			delete(o[2].GetAnnotations(), api.AnnotationDeletionCostSet)
			delete(o[3].GetAnnotations(), api.AnnotationDeletionCostSet)
			delete(o[2].GetAnnotations(), api.AnnotationPodDeletionCost)
			delete(o[3].GetAnnotations(), api.AnnotationPodDeletionCost)
			delete(o[5].GetAnnotations(), api.AnnotationCordonedFor)
			return o
		}, []string{"surged replicas", "cordon of left"}}, // the node is then somebody else's
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, c.operator, c.change(midMove(t))...)
			if err := b.adoption.Release(t.Context(), web, !c.operator); err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, what := range b.left() {
				got[what] = true
			}
			want := map[string]bool{}
			for _, what := range c.want {
				want[what] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// Who may not touch nodes may release all the same, and is told.
func TestReleaseWithoutRightsOnNodes(t *testing.T) {
	b := newBed(t, true, midMove(t)...)
	b.refuse = func(o client.Object) error {
		if _, ok := o.(*corev1.Node); ok {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, o.GetName(), nil)
		}
		return nil
	}
	if err := b.adoption.Release(t.Context(), web, false); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "node left") {
		t.Errorf("error = %v", err)
	}
	if b.theirs() == nil {
		t.Error("the HPA is not back")
	}
}

func TestReleaseAll(t *testing.T) {
	for _, operator := range []bool{true, false} {
		b := newBed(t, operator, midMove(t)...)
		released, err := b.adoption.ReleaseAll(t.Context(), !operator)
		if err != nil || len(released) != 1 || len(b.left()) > 0 {
			t.Errorf("released %v, %v, left %v", released, err, b.left())
		}
	}
	// Workloads are gone; their nodes are not.
	objects := midMove(t)
	b := newBed(t, true, objects[5:]...)
	if released, err := b.adoption.ReleaseAll(t.Context(), false); err != nil || len(released) > 0 {
		t.Errorf("released %v, %v", released, err)
	}
	n := &corev1.Node{}
	if err := b.Get(t.Context(), client.ObjectKey{Name: "left"}, n); err != nil || n.Spec.Unschedulable {
		t.Errorf("the node is cordoned: %v, %v", n.Spec.Unschedulable, err)
	}
}

// TestReleaseOfMany: hundreds of workloads are released in the time that helm uninstall gives them. What one costs does
// not grow with the others, an operator that is gone is waited for once, and a move of each is taken back.
func TestReleaseOfMany(t *testing.T) {
	of := func(n int) *bed {
		var objects []client.Object
		for i := range n {
			for _, o := range midMove(t)[:5] {
				o.SetNamespace(fmt.Sprint("shop-", i%3))
				if o.GetName() == "web" {
					o.SetName(fmt.Sprint("web-", i))
				} else {
					o.SetName(fmt.Sprint(o.GetName(), "-", i))
				}
				app := map[string]string{"app": fmt.Sprint("web-", i)}
				switch o := o.(type) {
				case *v1alpha1.ManagedWorkload:
					o.Spec.TargetRef.Name = o.Name
					saved := stripped(hpa())
					saved.Namespace, saved.Name, saved.Spec.ScaleTargetRef.Name = o.Namespace, o.Name, o.Name
					body, err := json.Marshal(saved)
					if err != nil {
						t.Fatal(err)
					}
					o.Annotations[AnnotationSaved] = string(body)
				case *appsv1.Deployment:
					o.Spec.Selector.MatchLabels = app
				case *corev1.Pod:
					o.Labels = app
					if i%2 == 1 { // that it is moved is known from its node alone
						delete(o.Annotations, api.AnnotationPodDeletionCost)
						delete(o.Annotations, api.AnnotationDeletionCostSet)
					}
				}
				objects = append(objects, o)
			}
		}
		return newBed(t, false, append(objects, midMove(t)[5:]...)...)
	}
	requests := func(n int) int {
		b := of(n)
		b.adoption.Poll = b.adoption.Patience // each wait of its own would be seen
		begun := b.requests
		released, err := b.adoption.ReleaseAll(t.Context(), true)
		if err != nil || len(released) != n {
			t.Fatalf("%d released: %v", len(released), err)
		}
		var hpas autoscalingv2.HorizontalPodAutoscalerList
		var targets appsv1.DeploymentList
		if err := errors.Join(b.List(t.Context(), &hpas), b.List(t.Context(), &targets)); err != nil {
			t.Fatal(err)
		}
		if len(hpas.Items) != n {
			t.Errorf("%d of %d HPAs are back", len(hpas.Items), n)
		}
		for _, d := range targets.Items {
			if *d.Spec.Replicas != 8 {
				t.Errorf("%s keeps %d replicas", d.Name, *d.Spec.Replicas)
			}
		}
		return b.requests - begun - 2
	}
	few, many := requests(20), requests(60)
	if each := float64(many-few) / 40; each > 13 {
		t.Errorf("%d requests for 20 workloads, %d for 60: %.1f each", few, many, each)
	}
}
