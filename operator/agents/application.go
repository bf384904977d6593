package agents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Metrics of an application are its name and one of these.
const (
	ApplicationCPU = "_cpu_usage" // cores, of all its pods on the node
	ApplicationMem = "_mem_usage" // bytes, without the file cache that can be dropped
)

// Application reads what an application's pods on this node use, from their cgroups.
type Application struct {
	// Name that its metrics begin with.
	Name string
	// Pods returns the UIDs of its running pods on this node.
	Pods func(context.Context) ([]string, error)
	// Cgroups of the node.
	Cgroups *Cgroups

	pods          []string
	tried, listed time.Time
	listErr       error // of the last try
	last          map[string]counter
}

// Lists of pods are asked for every so often, and a list is used for a time after it could not be
// renewed: the API server may be away from an edge for a while.
const (
	listEvery = 10 * time.Second
	listKept  = time.Minute
)

// errNoPods is the error where an application has no pod on the node.
var errNoPods = errors.New("the application has no running pod on this node")

// Read what its pods use at a time. Rates are not there at the first reading of a pod: a sum
// that lacks one is no reading. A pod whose cgroup is gone is one that ended.
func (a *Application) Read(ctx context.Context, now time.Time) (map[string]float64, error) {
	if a.tried.IsZero() || now.Sub(a.tried) >= listEvery {
		a.tried = now
		pods, err := a.Pods(ctx)
		if a.listErr = err; err == nil {
			a.pods, a.listed = pods, now
		}
	}
	if a.listed.IsZero() || now.Sub(a.listed) > listKept {
		a.last = nil
		return nil, a.listErr
	}
	if a.Cgroups.Now != nil { // the list may have taken a while
		now = a.Cgroups.Now()
	}
	next, cpu, memory, whole := map[string]counter{}, 0.0, 0.0, true
	for _, uid := range a.pods {
		used, err := a.Cgroups.used(uid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		held, _, heldErr := a.Cgroups.memory(uid)
		if errors.Is(heldErr, fs.ErrNotExist) {
			continue
		}
		if err := errors.Join(err, heldErr); err != nil {
			return nil, fmt.Errorf("pod %s: %w", uid, err)
		}
		is := counter{used, now}
		next[uid] = is
		memory += held
		was, ok := a.last[uid]
		if took := now.Sub(was.at); ok && took > 0 && is.used >= was.used {
			cpu += float64(is.used-was.used) / float64(took)
		} else {
			whole = false
		}
	}
	a.last = next
	if len(next) == 0 {
		return nil, errors.Join(errNoPods, a.listErr)
	}
	out := map[string]float64{a.Name + ApplicationMem: memory}
	if whole {
		out[a.Name+ApplicationCPU] = cpu
	}
	return out, a.listErr
}

// RunningPods lists UIDs by labels on one node, for an Application.
func RunningPods(client kubernetes.Interface, namespace, selector, node string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
			LabelSelector: selector, FieldSelector: "spec.nodeName=" + node, ResourceVersion: "0",
		})
		if err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		var out []string
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning {
				out = append(out, string(list.Items[i].UID))
			}
		}
		return out, nil
	}
}
