package kube_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/execution/kube"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// installDefinition creates the definition of ManagedWorkloads, and waits until it is
// served.
func installDefinition(t *testing.T, c *cluster.Cluster) dynamic.NamespaceableResourceInterface {
	t.Helper()
	if out, err := c.Kubectl(t.Context(), "apply", "--server-side", "-f", "../../charts/mash2/crds"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := c.Kubectl(t.Context(), "wait", "--for=condition=Established", "crd/managedworkloads."+api.Group, "--timeout=60s"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dyn, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return dyn.Resource(v1alpha1.GroupVersion.WithResource("managedworkloads"))
}

// manage creates the ManagedWorkload that all actions are of.
func (b *bed) manage() {
	b.Helper()
	b.eventually("a ManagedWorkload", func(ctx context.Context) (bool, error) {
		_, err := b.workloads.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ManagedWorkload",
			"metadata": map[string]any{"name": "some-mw"},
			"spec": map[string]any{
				"targetRef":   map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
				"maxReplicas": int64(10),
			},
		}}, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) { // not served yet
			return false, nil
		}
		return err == nil, err
	})
}

// noted is the target that the ManagedWorkload says was taken over.
func (b *bed) noted() types.UID {
	b.Helper()
	w, err := b.workloads.Get(b.Context(), "some-mw", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	uid, _, _ := unstructured.NestedString(w.Object, "status", "takenOver")
	return types.UID(uid)
}

func testTakeOver(b *bed, ns string) {
	b.deployment(ns, 2)
	b.apply(scaleTo(ns, "Deployment", 5))
	d := b.get(ns)
	if *d.Spec.Replicas != 5 || d.Annotations[api.AnnotationTakenOver] != "" || b.noted() != d.UID {
		b.Errorf("replicas = %d, annotations %v, noted %q of %q", *d.Spec.Replicas, d.Annotations, b.noted(), d.UID)
	}
	b.wantWritten("Deployment "+ns+"/web", "ManagedWorkload "+ns+"/some-mw")
	b.written = nil
	b.apply(scaleTo(ns, "Deployment", 6))
	d = b.get(ns)
	if *d.Spec.Replicas != 6 || b.noted() != d.UID {
		b.Errorf("replicas = %d, noted %q of %q", *d.Spec.Replicas, b.noted(), d.UID)
	}
	b.wantWritten("Deployment " + ns + "/web")
	for _, m := range d.ManagedFields {
		if m.Manager == api.FieldManager && (m.Operation != metav1.ManagedFieldsOperationApply || m.Subresource != "scale") {
			b.Errorf("mash2 wrote by %s to %q", m.Operation, m.Subresource)
		}
	}
}

// testOldNote: the version before noted a take-over on the target.
func testOldNote(b *bed, ns string) {
	b.deployment(ns, 2)
	note := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, api.AnnotationTakenOver)
	_, err := b.client.AppsV1().Deployments(ns).Patch(b.Context(), "web", types.MergePatchType, []byte(note), metav1.PatchOptions{})
	if err != nil {
		b.Fatal(err)
	}
	err = b.actuator.Apply(b.Context(), scaleTo(ns, "Deployment", 7))
	var conflict *kube.ConflictError
	if !errors.As(err, &conflict) || conflict.Manager != "helm" {
		b.Fatalf("error = %v, want a conflict with helm", err)
	}
	if d := b.get(ns); *d.Spec.Replicas != 2 || b.noted() != "" {
		b.Errorf("replicas = %d, noted %q", *d.Spec.Replicas, b.noted())
	}
	// Given back, it is noted as this version does, and the old note is left.
	action := scaleTo(ns, "Deployment", 7)
	action.TakeFrom = "helm"
	b.apply(action)
	if d := b.get(ns); *d.Spec.Replicas != 7 || b.noted() != d.UID || d.Annotations[api.AnnotationTakenOver] == "" {
		b.Errorf("replicas = %d, noted %q, annotations %v", *d.Spec.Replicas, b.noted(), d.Annotations)
	}
}

// testNobodys: released while no operator ran, which would have taken the note back, and
// taken over again.
func testNobodys(b *bed, ns string) {
	b.deployment(ns, 2)
	b.apply(scaleTo(ns, "Deployment", 5))
	// The controller-manager writes to it at the same time.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d := b.get(ns)
		d.ManagedFields = slices.DeleteFunc(d.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == api.FieldManager })
		_, err := b.client.AppsV1().Deployments(ns).Update(b.Context(), d, metav1.UpdateOptions{FieldManager: "helm"})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.apply(scaleTo(ns, "Deployment", 6))
	if d := b.get(ns); *d.Spec.Replicas != 6 || b.noted() != d.UID {
		b.Errorf("replicas = %d, noted %q of %q", *d.Spec.Replicas, b.noted(), d.UID)
	}
}

func testNewTarget(b *bed, ns string) {
	b.deployment(ns, 2)
	b.apply(scaleTo(ns, "Deployment", 5))
	before := b.noted()
	background := metav1.DeletePropagationBackground
	if err := b.client.AppsV1().Deployments(ns).Delete(b.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		b.Fatal(err)
	}
	b.deployment(ns, 2)
	b.apply(scaleTo(ns, "Deployment", 5))
	if d := b.get(ns); *d.Spec.Replicas != 5 || b.noted() != d.UID || d.UID == before {
		b.Errorf("replicas = %d, noted %q, the target is %q and was %q", *d.Spec.Replicas, b.noted(), d.UID, before)
	}
}

// testOldDefinition: helm upgrades no definitions.
func testOldDefinition(b *bed, ns string, c *cluster.Cluster) {
	b.deployment(ns, 2)
	const field = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/takenOver"
	kept := func(want bool) wait.ConditionWithContextFunc {
		return func(ctx context.Context) (bool, error) {
			w, err := b.workloads.Patch(ctx, "some-mw", types.MergePatchType, []byte(`{"status":{"takenOver":"try"}}`),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
			if err != nil {
				return false, err
			}
			_, got, err := unstructured.NestedString(w.Object, "status", "takenOver")
			return got == want, err
		}
	}
	change := func(patch string) {
		b.Helper()
		if out, err := c.Kubectl(b.Context(), "patch", "crd", "managedworkloads."+api.Group, "--type=json", "-p", patch); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	change(`[{"op":"remove","path":"` + field + `"}]`)
	b.eventually("a definition without the note", kept(false))
	err := b.actuator.Apply(b.Context(), scaleTo(ns, "Deployment", 5))
	if !errors.Is(err, kube.ErrOldDefinition) {
		b.Errorf("error = %v, want ErrOldDefinition", err)
	}
	if d := b.get(ns); *d.Spec.Replicas != 2 {
		b.Errorf("replicas = %d, want 2", *d.Spec.Replicas)
	}
	b.wantWritten()
	change(`[{"op":"add","path":"` + field + `","value":{"type":"string"}}]`)
	b.eventually("the definition as it was", kept(true))
}

// testCannotNote: without a note every scaling would be by force, whoever else scales.
func testCannotNote(b *bed, ns string) {
	b.deployment(ns, 2)
	if err := b.workloads.Delete(b.Context(), "some-mw", metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	if err := b.actuator.Apply(b.Context(), scaleTo(ns, "Deployment", 5)); !apierrors.IsNotFound(err) {
		b.Errorf("error = %v, want its ManagedWorkload not found", err)
	}
	if d := b.get(ns); *d.Spec.Replicas != 2 {
		b.Errorf("replicas = %d, want 2", *d.Spec.Replicas)
	}
	b.wantWritten()
}
