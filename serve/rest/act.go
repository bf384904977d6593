package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// actHeader must be on what changes something: another site's page can't set it.
const actHeader = "X-Mash2-Act"

// mayAct refuses what no page of ours sends, and everything where the page only shows. Who
// may do what is for the API server to say: the Actor asks it with the viewer's own
// credentials.
func (s *Server) mayAct(r *http.Request) error {
	if s.Actor == nil {
		return &RefusedError{http.StatusForbidden, "this page only shows: act by mash2 policy set, mash2 pause and kubectl"}
	}
	if r.Header.Get(actHeader) == "" {
		return badf("%s is missing: what changes something must say so", actHeader)
	}
	return nil
}

// objectOf is a body that is an object of JSON, or nothing.
func objectOf(body []byte) (map[string]any, error) {
	var out map[string]any
	if len(bytes.TrimSpace(body)) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, badf("the body must be a JSON object: %v", err)
	}
	return out, nil
}

// keyOf is the namespace and the name in a path.
func keyOf(r *http.Request) api.Key {
	return api.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}

func (s *Server) setPolicy(r *http.Request, body []byte) error {
	o, err := objectOf(body)
	if err != nil {
		return err
	}
	name, ok := o["policy"].(string)
	if !ok {
		return badf("policy: the name of a policy is needed, or an empty text for the schedule's")
	}
	return s.Actor.SetPolicy(r.Context(), r, name)
}

func (s *Server) setMode(r *http.Request, body []byte) error {
	o, err := objectOf(body)
	if err != nil {
		return err
	}
	mode, _ := o["mode"].(string)
	switch api.Mode(mode) {
	case api.ModeOff, api.ModeShadow, api.ModeCanary, api.ModeFull:
	default:
		return badf("mode: must be Off, Shadow, Canary or Full, not %q", mode)
	}
	return s.Actor.SetMode(r.Context(), r, keyOf(r), api.Mode(mode))
}

func (s *Server) setAgents(r *http.Request, body []byte) error {
	o, err := objectOf(body)
	if err != nil {
		return err
	}
	change, err := agentsChange(o)
	if err != nil {
		return err
	}
	return s.Actor.SetAgents(r.Context(), r, keyOf(r), change)
}

// ClusterActor writes to the cluster with the rights of who asks, not with the operator's.
type ClusterActor struct {
	// REST leads to the API server.
	REST *rest.Config
	// AsRequest takes credentials from the request's token; else those of REST are used.
	AsRequest bool
	// Policy is the policy ConfigMap.
	Policy types.NamespacedName
}

// config is that of who asks.
func (a ClusterActor) config(r *http.Request) *rest.Config {
	if !a.AsRequest {
		return a.REST
	}
	c := rest.AnonymousClientConfig(a.REST)
	c.BearerToken = token(r)
	c.UserAgent = "mash2-page"
	return c
}

// fieldManager of what is written by the page.
const fieldManager = "mash2-page"

// SetPolicy implements Actor.
func (a ClusterActor) SetPolicy(ctx context.Context, r *http.Request, name string) error {
	client, err := kubernetes.NewForConfig(a.config(r))
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(a.Policy.Namespace)
	if name != "" {
		// The whole ConfigMap as it would be: a wrong name is refused here.
		cm, err := maps.Get(ctx, a.Policy.Name, metav1.GetOptions{})
		if err != nil {
			return refusal(err)
		}
		data := map[string]string{}
		for k, v := range cm.Data {
			data[k] = v
		}
		data[configmap.KeyPolicy] = name
		if _, err := configmap.Parse(data, cm.Annotations); err != nil {
			return badf("policy %s: %v", name, err)
		}
	}
	var value any = name
	if name == "" {
		value = nil // the key goes: the schedule chooses
	}
	return a.patch(ctx, func(body []byte) error {
		_, err := maps.Patch(ctx, a.Policy.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}, map[string]any{"data": map[string]any{configmap.KeyPolicy: value}})
}

// Pause implements Actor.
func (a ClusterActor) Pause(ctx context.Context, r *http.Request, on bool) error {
	client, err := kubernetes.NewForConfig(a.config(r))
	if err != nil {
		return err
	}
	set := configmap.Resume
	if on {
		set = configmap.Pause
	}
	return refusal(set(ctx, client, a.Policy.Namespace, a.Policy.Name))
}

// EndRollback implements Actor.
func (a ClusterActor) EndRollback(ctx context.Context, r *http.Request) error {
	client, err := kubernetes.NewForConfig(a.config(r))
	if err != nil {
		return err
	}
	return a.patch(ctx, func(body []byte) error {
		_, err := client.CoreV1().ConfigMaps(a.Policy.Namespace).Patch(ctx, a.Policy.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		// A rollback of this second too: the text has no smaller part.
		api.AnnotationRollbackEnded: time.Now().Add(time.Second).UTC().Format(time.RFC3339),
	}}})
}

// SetMode implements Actor.
func (a ClusterActor) SetMode(ctx context.Context, r *http.Request, key api.Key, mode api.Mode) error {
	return a.workload(ctx, r, key, map[string]any{"spec": map[string]any{"mode": mode}})
}

// SetAgents implements Actor.
func (a ClusterActor) SetAgents(ctx context.Context, r *http.Request, key api.Key, change map[string]any) error {
	return a.workload(ctx, r, key, map[string]any{"spec": map[string]any{"vertical": change}})
}

// RestartCanary implements Actor.
func (a ClusterActor) RestartCanary(ctx context.Context, r *http.Request, key api.Key) error {
	return a.workload(ctx, r, key, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		api.AnnotationCanaryRestarted: time.Now().Add(time.Second).UTC().Format(time.RFC3339), // as of EndRollback
	}}})
}

// workload patches a ManagedWorkload.
func (a ClusterActor) workload(ctx context.Context, r *http.Request, key api.Key, patch map[string]any) error {
	client, err := dynamic.NewForConfig(a.config(r))
	if err != nil {
		return err
	}
	workloads := client.Resource(v1alpha1.GroupVersion.WithResource("managedworkloads")).Namespace(key.Namespace)
	return a.patch(ctx, func(body []byte) error {
		_, err := workloads.Patch(ctx, key.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}, patch)
}

func (a ClusterActor) patch(_ context.Context, write func([]byte) error, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return refusal(write(text))
}

// refusal is what the API server says to who asks, with its own status.
func refusal(err error) error {
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) || status.Status().Code < 400 {
		return err
	}
	s := status.Status()
	return &RefusedError{int(s.Code), fmt.Sprintf("Kubernetes refuses it: %s", s.Message)}
}
