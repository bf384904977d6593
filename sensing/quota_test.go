package sensing

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
)

func quota(name string, hardAndUsed ...string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Status:     corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{}, Used: corev1.ResourceList{}},
	}
	for i := 0; i < len(hardAndUsed); i += 3 {
		of := corev1.ResourceName(hardAndUsed[i])
		q.Status.Hard[of], q.Status.Used[of] = resource.MustParse(hardAndUsed[i+1]), resource.MustParse(hardAndUsed[i+2])
	}
	return q
}

// A Deployment of two pods of 100m, at most ten of them by its author, in a
// namespace with quotas.
func TestQuotasBoundPlans(t *testing.T) {
	for name, c := range map[string]struct {
		quotas   []*corev1.ResourceQuota
		change   func(*appsv1.Deployment)
		wantMax  int32
		wantText string // of the finding; none if empty
	}{
		"none":                           {wantMax: 10},
		"with room for all":              {quotas: []*corev1.ResourceQuota{quota("team", "requests.cpu", "2", "200m")}, wantMax: 10},
		"of CPU":                         {quotas: []*corev1.ResourceQuota{quota("team", "requests.cpu", "550m", "200m")}, wantMax: 5, wantText: "spec.maxReplicas: requests.cpu of ResourceQuota team has no room for 10 replicas"},
		"of CPU, by its older name":      {quotas: []*corev1.ResourceQuota{quota("team", "cpu", "500m", "200m")}, wantMax: 5, wantText: "cpu of ResourceQuota team"},
		"of pods":                        {quotas: []*corev1.ResourceQuota{quota("team", "pods", "9", "8")}, wantMax: 3, wantText: "pods of ResourceQuota team"},
		"of memory that isn't asked for": {quotas: []*corev1.ResourceQuota{quota("team", "requests.memory", "1Gi", "1Gi")}, wantMax: 10},
		"the tighter one of two": {
			quotas:  []*corev1.ResourceQuota{quota("a", "pods", "20", "2"), quota("b", "pods", "4", "2", "requests.cpu", "300m", "200m")},
			wantMax: 3, wantText: "requests.cpu of ResourceQuota b",
		},
		"that is used up takes nothing away": {quotas: []*corev1.ResourceQuota{quota("team", "pods", "1", "2")}, wantMax: 2, wantText: "pods of ResourceQuota team"},
		"replicas on their way stay": {
			quotas:  []*corev1.ResourceQuota{quota("team", "pods", "7", "7")},
			change:  func(d *appsv1.Deployment) { *d.Spec.Replicas = 7 },
			wantMax: 7, wantText: "pods of ResourceQuota team",
		},
		"of limits, which a LimitRange has put into the pods": {
			quotas: []*corev1.ResourceQuota{quota("team", "limits.cpu", "1", "400m")}, wantMax: 5, wantText: "limits.cpu of ResourceQuota team",
		},
		"for pods of another kind": {
			quotas: []*corev1.ResourceQuota{func() *corev1.ResourceQuota {
				q := quota("batch", "pods", "0", "0")
				q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
				return q
			}()}, wantMax: 10,
		},
		"for our kind of pods": {
			quotas: []*corev1.ResourceQuota{func() *corev1.ResourceQuota {
				q := quota("services", "pods", "5", "2")
				q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort}
				return q
			}()}, wantMax: 5, wantText: "ResourceQuota services",
		},
		"of somebody else's namespace": {
			quotas: []*corev1.ResourceQuota{func() *corev1.ResourceQuota { q := quota("team", "pods", "2", "2"); q.Namespace = "other"; return q }()}, wantMax: 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 2)
			for i := range 2 {
				p := podOn("web", i, "node-1", epoch.Add(-1))
				p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
				w.put(p)
			}
			if c.change != nil {
				d := deployment("web", 2, "100m")
				c.change(d)
				w.put(d)
			}
			for _, q := range c.quotas {
				w.put(q)
			}
			got, s := w.workload("web")
			if got.MaxReplicas != c.wantMax || got.HoldReason != "" {
				t.Errorf("at most %d replicas (hold %q), want %d", got.MaxReplicas, got.Hold, c.wantMax)
			}
			f := findings(s, ReasonQuota)
			if (len(f) == 1) != (c.wantText != "") || len(f) == 1 && !strings.Contains(f[0].Message, c.wantText) {
				t.Errorf("findings %v, want one with %q", f, c.wantText)
			}
		})
	}
}

// A minimum that the quota has no room for is no contradiction: what can be had
// is planned.
func TestQuotaBelowTheMinimum(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 2)
	mw := managed("web")
	mw.Spec.MinReplicas = ptr.To[int32](5)
	w.put(mw, quota("team", "pods", "3", "2"))
	got, _ := w.workload("web")
	if got.MinReplicas != 3 || got.MaxReplicas != 3 || got.HoldReason != "" {
		t.Errorf("bounds %d to %d, hold %q; want 3 to 3", got.MinReplicas, got.MaxReplicas, got.Hold)
	}
}

// TestQuotaRoom: what all quotas of a namespace leave, and who says so.
func TestQuotaRoom(t *testing.T) {
	pods := quotaRecordOf(quota("pods", "pods", "5", "5"))
	if got := quotaRoom([]*quotaRecord{pods}); got != nil {
		t.Errorf("a quota of pods leaves %+v", got)
	}
	got := quotaRoom([]*quotaRecord{
		quotaRecordOf(quota("few", "requests.cpu", "1", "1500m", "limits.memory", "1Gi", "512Mi")), pods,
		quotaRecordOf(quota("tight", "cpu", "3", "1", "requests.memory", "1Gi", "1000Mi")),
	})
	want := &api.QuotaRoom{Quotas: "few, tight", Requests: api.Amounts{Memory: 24 << 20}, Limits: api.Amounts{MilliCPU: math.MaxInt64, Memory: 512 << 20}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
