package rest

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

func (a ClusterActor) strategies(r *http.Request, namespace string) (dynamic.ResourceInterface, error) {
	client, err := dynamic.NewForConfig(a.config(r))
	if err != nil {
		return nil, err
	}
	return client.Resource(v1alpha1.GroupVersion.WithResource("strategies")).Namespace(namespace), nil
}

// PutStrategy implements Actor.
func (a ClusterActor) PutStrategy(ctx context.Context, r *http.Request, key api.Key, spec v1alpha1.StrategySpec) error {
	change := func(o *v1alpha1.Strategy) error {
		o.Spec = spec
		return nil
	}
	err := a.ChangeStrategy(ctx, r, key, change)
	if refused := (*RefusedError)(nil); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		return err
	}
	list, err := a.strategies(r, key.Namespace)
	if err != nil {
		return err
	}
	o, err := unstructuredOf(&v1alpha1.Strategy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Strategy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: spec,
	})
	if err != nil {
		return err
	}
	_, err = list.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
	return refusal(err)
}

// DeleteStrategy implements Actor.
func (a ClusterActor) DeleteStrategy(ctx context.Context, r *http.Request, key api.Key) error {
	list, err := a.strategies(r, key.Namespace)
	if err != nil {
		return err
	}
	return refusal(list.Delete(ctx, key.Name, metav1.DeleteOptions{}))
}

// ChangeStrategy implements Actor: what was changed by somebody else meanwhile is read anew.
func (a ClusterActor) ChangeStrategy(ctx context.Context, r *http.Request, key api.Key, change func(*v1alpha1.Strategy) error) error {
	list, err := a.strategies(r, key.Namespace)
	if err != nil {
		return err
	}
	for range 5 {
		var read *unstructured.Unstructured
		if read, err = list.Get(ctx, key.Name, metav1.GetOptions{}); err != nil {
			return refusal(err)
		}
		var o v1alpha1.Strategy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, &o); err != nil {
			return err
		}
		before := o.DeepCopy()
		if err := change(&o); err != nil {
			return err
		}
		changed := read
		if equality.Semantic.DeepEqual(before.Spec, o.Spec) {
			// Fields of a later version stay.
			changed.SetAnnotations(o.Annotations)
		} else if changed, err = unstructuredOf(&o); err != nil {
			return err
		}
		// The status is not ours to write here.
		delete(changed.Object, "status")
		if _, err = list.Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager}); !apierrors.IsConflict(err) {
			return refusal(err)
		}
	}
	return refusal(err)
}

func unstructuredOf(o *v1alpha1.Strategy) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	return &unstructured.Unstructured{Object: content}, err
}
