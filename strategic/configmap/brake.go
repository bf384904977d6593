package configmap

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mash2-io/mash2/api"
)

// BrakeSuffix is appended to the name of the policy ConfigMap for the ConfigMap
// that stops every write. It needs nothing else to be there.
const BrakeSuffix = "-brake"

// brakeTimeout bounds one look at the brake: a cycle must not wait for longer.
const brakeTimeout = 5 * time.Second

// cliManager is the field manager of what people write by command.
const cliManager = "mash2-cli"

// Pause stops every write of the operator, running or not, from its next cycle
// on. It needs the right to create and patch the brake's ConfigMap; the
// annotation on the policy ConfigMap, where there is one, wakes the operator up at
// once and is tried besides. The error is that of both.
func Pause(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	brake := setBrake(ctx, client, namespace, name, "true")
	mark := annotate(ctx, client, namespace, name, "true")
	if brake == nil || mark == nil {
		return nil
	}
	return errors.Join(brake, mark)
}

// ErrMarkNotSeen is wrapped by an error of Resume that released the brake and
// could not look at the policy ConfigMap.
var ErrMarkNotSeen = errors.New("the brake is released, but the policy ConfigMap may still be annotated")

// Resume takes a pause back, whichever way it was made.
func Resume(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	if err := setBrake(ctx, client, namespace, name, "false"); err != nil {
		return err
	}
	err := annotate(ctx, client, namespace, name, nil)
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w with %s: %w", ErrMarkNotSeen, api.AnnotationPaused, err)
	}
	return err
}

// Braked reports whether the brake is on.
func Braked(ctx context.Context, client kubernetes.Interface, namespace, name string) (bool, error) {
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name+BrakeSuffix, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name+BrakeSuffix, err)
	}
	return Paused(cm.Annotations), nil
}

func setBrake(ctx context.Context, client kubernetes.Interface, namespace, name, value string) error {
	cm := corev1apply.ConfigMap(name+BrakeSuffix, namespace).WithAnnotations(map[string]string{
		api.Group + "/description": "Written by mash2 pause and mash2 resume.",
		api.AnnotationPaused:       value,
		// Each of them is a new version, by which the operator tells what it has seen.
		api.Group + "/since": time.Now().UTC().Format(time.RFC3339Nano),
	})
	if _, err := client.CoreV1().ConfigMaps(namespace).Apply(ctx, cm, metav1.ApplyOptions{FieldManager: cliManager, Force: true}); err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", namespace, name+BrakeSuffix, err)
	}
	return nil
}

// annotate sets the annotation on the policy ConfigMap; nil removes it.
func annotate(ctx context.Context, client kubernetes.Interface, namespace, name string, value any) error {
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, api.AnnotationPaused)
	if value != nil {
		body = fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationPaused, value)
	}
	_, err := client.CoreV1().ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: cliManager})
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}

// brake is what its ConfigMap says.
type brake struct {
	// seen since this process began; before, nobody knows what its predecessor saw.
	seen bool
	on   bool
	// released is the version of a ConfigMap that says it is off; empty if there is
	// none.
	released string
}

func brakeOf(cm *corev1.ConfigMap) brake {
	if Paused(cm.Annotations) {
		return brake{seen: true, on: true}
	}
	return brake{seen: true, released: cm.ResourceVersion}
}

// look reads the brake from the API server. While it can't be read it is as it was, and on
// until it has been read once.
func (s *Source) look(ctx context.Context) []api.Finding {
	ctx, cancel := context.WithTimeout(ctx, brakeTimeout)
	defer cancel()
	cm, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, s.name+BrakeSuffix, metav1.GetOptions{})
	switch {
	case err == nil:
		s.brake = brakeOf(cm)
	case apierrors.IsNotFound(err):
		s.brake = brake{seen: true}
	default:
		state := "it stays off as before"
		switch {
		case !s.brake.seen:
			s.brake = brake{on: true, released: s.kept.released}
			state = "nothing is written until it has been read once since this process began"
		case s.brake.on:
			state = "it stays on as before"
		}
		return []api.Finding{{
			Severity: api.Warning, Agent: api.StrategicAgent, Reason: "BrakeUnreadable", Object: api.PolicyRef,
			Message: fmt.Sprintf("the pause can't be read, so %s: reading ConfigMap %s/%s: %v", state, s.namespace, s.name+BrakeSuffix, err),
		}}
	}
	return nil
}
