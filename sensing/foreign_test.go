package sensing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// vertical is a VerticalPodAutoscaler of Deployment web with more in its spec.
func vertical(t testing.TB, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := "{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {namespace: shop, name: web-vpa},\n" +
		"spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}" + spec + "}}"
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// A VPA that sets CPU requests is a conflict, whatever its way of doing so; one
// that doesn't is none, and mash2 goes on when it is gone.
func TestVerticals(t *testing.T) {
	const policy = ", resourcePolicy: {containerPolicies: [%s]}"
	for name, c := range map[string]struct {
		spec string
		mode v1alpha1.Mode
		want string // in the hold; empty: none
	}{
		"the default mode":            {want: "VerticalPodAutoscaler web-vpa (mode Recreate)"},
		"Auto":                        {spec: `, updatePolicy: {updateMode: "Auto"}`, want: "mode Auto"},
		"Recreate":                    {spec: `, updatePolicy: {updateMode: "Recreate"}`, want: "mode Recreate"},
		"InPlaceOrRecreate":           {spec: `, updatePolicy: {updateMode: "InPlaceOrRecreate"}`, want: "mode InPlaceOrRecreate"},
		"Initial":                     {spec: `, updatePolicy: {updateMode: "Initial"}`, want: "mode Initial"},
		"a mode nobody knows yet":     {spec: `, updatePolicy: {updateMode: "InPlace"}`, want: "mode InPlace"},
		"Off":                         {spec: `, updatePolicy: {updateMode: "Off"}`},
		"memory alone":                {spec: fmt.Sprintf(policy, `{containerName: "*", controlledResources: [memory]}`)},
		"CPU alone":                   {spec: fmt.Sprintf(policy, `{containerName: "*", controlledResources: [cpu]}`), want: "web-vpa"},
		"no container":                {spec: fmt.Sprintf(policy, `{containerName: "*", mode: "Off"}`)},
		"not this container":          {spec: fmt.Sprintf(policy, `{containerName: main, mode: "Off"}`)},
		"only another container":      {spec: fmt.Sprintf(policy, `{containerName: sidecar}, {containerName: "*", mode: "Off"}`)},
		"this container, no other":    {spec: fmt.Sprintf(policy, `{containerName: main}, {containerName: "*", mode: "Off"}`), want: "web-vpa"},
		"what can't be read":          {spec: `, updatePolicy: {updateMode: [1]}`, want: "web-vpa"},
		"beside a workload in Shadow": {mode: v1alpha1.ModeShadow},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 2)
			mw := managed("web")
			mw.Spec.Mode = c.mode
			w.put(mw)
			w.store(vertical(t, c.spec))
			got, _ := w.workload("web")
			if (got.HoldReason == HoldConflict) != (c.want != "") || !strings.Contains(got.Hold, c.want) {
				t.Errorf("held %q: %q, want %q", got.HoldReason, got.Hold, c.want)
			}
			if err := w.caches.informers[kindVertical].GetStore().Replace(nil, ""); err != nil {
				t.Fatal(err)
			}
			if got, _ := w.workload("web"); got.Hold != "" {
				t.Errorf("without it: %s", got.Hold)
			}
		})
	}
}

// store adds an object of a kind that need not be installed, through its cache's
// transform.
func (w *world) store(o *unstructured.Unstructured) {
	w.t.Helper()
	record, err := w.caches.transform(w.cfg)(o)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.caches.informers[o.GetKind()].GetStore().Add(record); err != nil {
		w.t.Fatal(err)
	}
}

// What a VPA for memory sets is planned with in the next cycle.
func TestAVerticalForMemoryIsPlannedWith(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 1)
	w.store(vertical(t, ", resourcePolicy: {containerPolicies: [{containerName: \"*\", controlledResources: [memory]}]}"))
	pod := podOn("web", 0, "node-1", epoch.Add(-time.Hour))
	for _, memory := range []string{"64Mi", "300Mi"} {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse(memory),
		}
		w.put(pod)
		got, _ := w.workload("web")
		if q := resource.MustParse(memory); got.Hold != "" || got.Shape.Requests.Memory != q.Value() || got.Shape.Requests.MilliCPU != 100 {
			t.Errorf("requests %+v, hold %q, want memory %s", got.Shape.Requests, got.Hold, memory)
		}
	}
}

// status is a Cluster Autoscaler's, from 1.30 on.
const status = `time: 2026-11-21 11:59:50.0 +0000 UTC
autoscalerStatus: Running
clusterWide:
  health: {status: Healthy, nodeCounts: {registered: {total: 3, ready: 3}}}
nodeGroups:
- name: https://www.googleapis.com/compute/v1/projects/p/zones/a/instanceGroups/gke-demo-e2-0a1b2c3d-grp
  health: {status: Healthy, cloudProviderTarget: 1, minSize: 0, maxSize: 9}
- name: MachineDeployment/default/md-0
  health: {status: Healthy, cloudProviderTarget: 1, minSize: 0, maxSize: 9}
`

// oldStatus is one of before.
const oldStatus = `Cluster-autoscaler status at 2026-11-21 11:59:50.0 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=3 unready=0 notStarted=0 registered=3)

NodeGroups:
  Name:        e2
  Health:      Healthy (ready=1 cloudProviderTarget=1 (minSize=0, maxSize=9))
`

// A pool that a foreign node autoscaler resizes is named and left alone.
func TestForeignNodeAutoscalers(t *testing.T) {
	said := func(text string, before time.Duration) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler-status", Annotations: map[string]string{
				annotationLastUpdate: epoch.Add(-before).Format(formatLastUpdate),
			}},
			Data: map[string]string{"status": text},
		}
	}
	tainted := func(before time.Duration) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: taintToBeDeleted, Value: fmt.Sprint(epoch.Add(-before).Unix()), Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	for name, c := range map[string]struct {
		pool   string
		told   api.Pool
		status *corev1.ConfigMap
		node   func(*corev1.Node)
		want   string // who resizes it; empty: nobody
	}{
		"nobody":                    {},
		"the provider":              {told: api.Pool{Autoscaled: true, AutoscaledBy: "GKE"}, want: "GKE"},
		"a provider without a name": {told: api.Pool{Autoscaled: true}, want: "its provider's autoscaling"},
		"a group by its nodes":      {status: said(status, 10*time.Second), node: func(n *corev1.Node) { n.Name = "gke-demo-e2-0a1b2c3d-x1y2" }, want: "Cluster Autoscaler (node group https://www.googleapis.com/compute/v1/projects/p/zones/a/instanceGroups/gke-demo-e2-0a1b2c3d-grp)"},
		"a group by its name":       {pool: "md-0", status: said(status, 10*time.Second), want: "Cluster Autoscaler (node group MachineDeployment/default/md-0)"},
		"groups, but no pool":       {status: said(status, 10*time.Second)},
		"a status of old":           {status: said(oldStatus, 10*time.Second), want: "Cluster Autoscaler (node group e2)"},
		"silent for too long":       {status: said(oldStatus, 11*time.Minute)},
		"silent since ever":         {status: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-autoscaler-status"}, Data: map[string]string{"status": oldStatus}}},
		"a status that is no text":  {status: said("[1, {", 10*time.Second)},
		"a node that it deletes":    {node: tainted(time.Minute), want: "Cluster Autoscaler (taint ToBeDeletedByClusterAutoscaler) on node node-1"},
		"a taint it left long ago":  {node: tainted(11 * time.Minute)},
		"a node of Karpenter":       {node: func(n *corev1.Node) { n.Labels[labelKarpenterPool] = "default" }, want: "Karpenter (NodePool default) on node node-1"},
		"a node of a NodeClaim": {node: func(n *corev1.Node) {
			n.OwnerReferences = []metav1.OwnerReference{{Kind: "NodeClaim", Name: "default-x"}}
		}, want: "Karpenter (NodeClaim default-x) on node node-1"},
		"a node in another pool": {node: func(n *corev1.Node) { n.Labels[labelKarpenterPool], n.Labels[api.LabelNodePool] = "default", "n2" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(cfg *Config) {
				cfg.AutoscalerStatus = api.Key{Namespace: "kube-system", Name: "cluster-autoscaler-status"}
			})
			if c.pool == "" {
				c.pool = "e2"
			}
			c.told.Name = c.pool
			w.pools = []api.Pool{c.told}
			n := node("node-1", c.pool)
			if c.node != nil {
				c.node(n)
			}
			w.put(n)
			if c.status != nil {
				record, err := w.caches.transform(w.cfg)(c.status)
				if err != nil {
					t.Fatal(err)
				}
				if err := w.caches.informers[kindAutoscalerStatus].GetStore().Add(record); err != nil {
					t.Fatal(err)
				}
			}
			got := w.observe().Pools[0]
			if diff := cmp.Diff(c.want, got.AutoscaledBy); diff != "" || got.Autoscaled != (c.want != "") {
				t.Errorf("autoscaled %v by (-want +got):\n%s", got.Autoscaled, diff)
			}
		})
	}
}

// FuzzForeign: what others write about themselves is read without a panic, and
// what is read of it twice is the same.
func FuzzForeign(f *testing.F) {
	f.Add(status, "2026-11-21 11:59:50.1 +0000 UTC", "spec: {targetRef: {kind: Deployment, name: web}, updatePolicy: {updateMode: Auto}}")
	f.Add(oldStatus, "2026-11-21 11:59:50.1 +0000 UTC m=+0.1", "spec: {resourcePolicy: {containerPolicies: [{containerName: '*', controlledResources: [memory]}]}}")
	f.Add(status, "", `{spec: {}, status: {recommendation: {containerRecommendations: [{containerName: app, target: {cpu: 9e-999999999}}]}}}`)
	f.Add("nodeGroups: [{name: 1}, 2]", "yesterday", "spec: [1]")
	f.Fuzz(func(t *testing.T, text, updated, object string) {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationLastUpdate: updated}}, Data: map[string]string{"status": text}}
		one, two := statusRecordOf(cm), statusRecordOf(cm)
		if one.resizes(epoch, "e2", nil) != two.resizes(epoch, "e2", nil) {
			t.Error("a status is read in two ways")
		}
		u := &unstructured.Unstructured{}
		if yaml.Unmarshal([]byte(object), &u.Object) != nil || u.Object == nil {
			return
		}
		r := verticalRecordOf(u)
		if r.mode == "" || r.mode == verticalOff && r.changesCPU(map[string]api.Resources{"main": {}}) {
			t.Errorf("mode %q changes CPU", r.mode)
		}
	})
}
