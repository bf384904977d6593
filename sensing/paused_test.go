package sensing

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// A paused Deployment without samples is called paused, with the way out.
func TestPausedDeploymentsAreCalledSo(t *testing.T) {
	for paused, want := range map[bool]string{true: ReasonTargetPaused, false: ReasonDemandPartial} {
		w := newWorld(t, nil)
		w.shop("web", 2)
		d := deployment("web", 2, "100m")
		d.Spec.Paused = paused
		w.put(d)
		w.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(rw, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
			return true
		})
		got, s := w.workload("web")
		if !got.DemandStale || !slices.ContainsFunc(s.Findings, func(f api.Finding) bool { return f.Reason == want }) {
			t.Errorf("paused %v: stale %v, findings %v, want %s", paused, got.DemandStale, s.Findings, want)
		}
	}
}

// What the operator runs in is held, whatever its ManagedWorkload says.
func TestTheOperatorDoesntScaleItself(t *testing.T) {
	for name, c := range map[string]struct {
		self api.Key
		want string
	}{
		"its own pod":             {api.Key{Name: "the first"}, HoldOwnDeployment},
		"a pod of something else": {api.Key{Namespace: ns, Name: "other"}, ""},
		"no pod at all":           {api.Key{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(cfg *Config) { cfg.Self = c.self })
			keys := w.shop("web", 2)
			if c.want != "" {
				w.cfg.Self = keys[0]
			}
			if got, _ := w.workload("web"); got.HoldReason != c.want {
				t.Errorf("held %q: %s; want %q", got.HoldReason, got.Hold, c.want)
			}
		})
	}
}

// Who may only read some of what is needed is told at once what else it is.
func TestMissingRightsAreToldAtOnce(t *testing.T) {
	c := cluster.ForTest(t)
	admin := kubernetes.NewForConfigOrDie(c.RESTConfig())
	b := &bed{T: t, client: admin, dyn: dynamic.NewForConfigOrDie(c.RESTConfig())}
	b.install()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"", "apps", "policy", "autoscaling", "mash2.io"}, Verbs: []string{"list", "watch"},
		Resources: []string{"pods", "deployments", "statefulsets", "replicasets", "daemonsets", "poddisruptionbudgets", "horizontalpodautoscalers", "managedworkloads", "resourcequotas"},
	}}}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "reader"}},
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(cfg *Config) {
		cfg.REST = c.RESTConfig()
		cfg.REST.QPS = -1
		cfg.REST.Impersonate.UserName = "reader"
		cfg.SyncTimeout = time.Hour
	})
	err := w.Start(t.Context())
	for _, want := range []string{"rights are missing", `cannot list resource "nodes"`, `cannot list resource "persistentvolumes"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q in it", err, want)
		}
	}
}

// TestRollingOut: a target is rolled out while pods of another template are left, or may be.
func TestRollingOut(t *testing.T) {
	for name, c := range map[string]struct {
		generation int64
		is         appsv1.StatefulSetStatus
		want       bool
	}{
		"all are of the newest":       {2, appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, CurrentRevision: "b", UpdateRevision: "b"}, false},
		"one is":                      {2, appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, CurrentRevision: "a", UpdateRevision: "b"}, true},
		"all are, with OnDelete":      {2, appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, CurrentRevision: "a", UpdateRevision: "b"}, false},
		"a template that is not seen": {3, appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, CurrentRevision: "b", UpdateRevision: "b"}, true},
		"nobody has seen any":         {1, appsv1.StatefulSetStatus{}, false},
	} {
		meta := metav1.ObjectMeta{Namespace: ns, Name: "web", Generation: c.generation}
		if got := newShapes().statefulSetRecord(&appsv1.StatefulSet{ObjectMeta: meta, Status: c.is}).rollingOut; got != c.want {
			t.Errorf("%s: of a StatefulSet %v", name, got)
		}
		is := appsv1.DeploymentStatus{ObservedGeneration: c.is.ObservedGeneration, Replicas: c.is.Replicas, UpdatedReplicas: c.is.UpdatedReplicas}
		if got := newShapes().deploymentRecord(&appsv1.Deployment{ObjectMeta: meta, Status: is}).rollingOut; got != c.want {
			t.Errorf("%s: of a Deployment %v", name, got)
		}
	}
}

// The first pod of a StatefulSet need not be number 0.
func TestFirstOrdinal(t *testing.T) {
	w := newWorld(t, nil)
	mw := managed("web")
	mw.Spec.TargetRef.Kind = kindStatefulSet
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](3), Template: template("100m"), Ordinals: &appsv1.StatefulSetOrdinals{Start: 5},
	}}
	w.put(mw, set)
	if got, _ := w.workload("web"); got.FirstOrdinal != 5 || got.Replicas != 3 {
		t.Errorf("%d replicas from ordinal %d, want 3 from 5", got.Replicas, got.FirstOrdinal)
	}
}
