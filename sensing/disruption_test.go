package sensing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
)

// What binds a pod: the budgets of its namespace that select it, and the zones
// and nodes of its volumes.
func TestTies(t *testing.T) {
	w := newWorld(t, nil)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	budget := func(namespace, name string, selector *metav1.LabelSelector, max intstr.IntOrString) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 2},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector, MaxUnavailable: &max},
			Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, CurrentHealthy: 3, DesiredHealthy: 2, DisruptionsAllowed: 1},
		}
	}
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	unseen := budget("shop", "all", &metav1.LabelSelector{}, intstr.FromString("25%"))
	unseen.Status.ObservedGeneration = 1
	unseen.Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.AlwaysAllow)
	healthy := budget("shop", "web", app, intstr.FromInt32(0))
	healthy.Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.IfHealthyBudget)
	pod := func(name, app string, claims ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta(name), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		p.Labels = map[string]string{"app": app, "tier": "1"}
		for _, c := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
		}
		return p
	}
	volume := func(name, key string, values ...string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
			}}}},
		}}
	}
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: meta(name), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name}}
	}
	w.put(
		healthy, unseen,
		budget("elsewhere", "web", app, intstr.FromInt32(0)), budget("shop", "none", nil, intstr.FromInt32(0)),
		claim("zonal"), claim("regional"), claim("local"), claim("nfs"),
		volume("pv-zonal", "topology.gke.io/zone", "b"), volume("pv-regional", corev1.LabelTopologyZone, "c", "a"),
		volume("pv-local", corev1.LabelHostname, "node-1"), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-nfs"}},
		pod("both", "web"), pod("other", "api", "nfs", "unknown"), pod("zonal", "db", "zonal"), pod("regional", "db", "regional"),
		pod("nowhere", "db", "zonal", "regional"), pod("local", "db", "local"),
	)
	s := w.observe()
	want := []api.DisruptionBudget{
		{Key: api.Key{Namespace: "elsewhere", Name: "web"}, MaxUnavailable: &api.Amount{}, Healthy: 3, Desired: 2, Allowed: 1},
		{Key: api.Key{Namespace: "shop", Name: "all"}, MaxUnavailable: &api.Amount{Value: 25, Percent: true}, Healthy: 3, Desired: 2, Allowed: 1, Stale: true, UnhealthyAlways: true},
		{Key: api.Key{Namespace: "shop", Name: "none"}, MaxUnavailable: &api.Amount{}, Healthy: 3, Desired: 2, Allowed: 1},
		{Key: api.Key{Namespace: "shop", Name: "web"}, MaxUnavailable: &api.Amount{}, Healthy: 3, Desired: 2, Allowed: 1},
	}
	if diff := cmp.Diff(want, s.Budgets); diff != "" {
		t.Error(diff)
	}
	type ties struct {
		Budgets, Zones []string
		Keeps          string
	}
	got := map[string]ties{}
	for _, p := range s.Pods {
		got[p.Key.Name] = ties{p.Budgets, p.Zones, p.DoNotDisrupt}
	}
	all := []string{"all"}
	if diff := cmp.Diff(map[string]ties{
		"both": {Budgets: []string{"all", "web"}}, "other": {Budgets: all},
		"zonal": {Budgets: all, Zones: []string{"b"}}, "regional": {Budgets: all, Zones: []string{"a", "c"}},
		"nowhere": {Budgets: all, Zones: []string{}}, "local": {Budgets: all, Keeps: "local volume of claim local (bound by kubernetes.io/hostname)"},
	}, got); diff != "" {
		t.Error(diff)
	}
}

// TestVolumesOfDrivers: a volume on a disk of one node is told by whatever key its driver
// uses, and one of a zone by those of the clouds.
func TestVolumesOfDrivers(t *testing.T) {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	match := func(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: all}
	}
	type terms = []corev1.NodeSelectorTerm
	tests := map[string]struct {
		terms terms
		zones []string
		local string
	}{
		"TopoLVM":          {terms: terms{match(in("topology.topolvm.io/node", "n"))}, local: "topology.topolvm.io/node"},
		"OpenEBS":          {terms: terms{match(in("openebs.io/nodename", "n"))}, local: "openebs.io/nodename"},
		"the host path's":  {terms: terms{match(in("topology.hostpath.csi/node", "n"))}, local: "topology.hostpath.csi/node"},
		"a node's name":    {terms: terms{{MatchFields: []corev1.NodeSelectorRequirement{in("metadata.name", "n")}}}, local: "metadata.name"},
		"a zone, and node": {terms: terms{match(in(corev1.LabelTopologyZone, "a"), in("openebs.io/nodeid", "n"))}, zones: []string{"a"}, local: "openebs.io/nodeid"},
		"zones left out": {
			terms: terms{match(corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a"}})},
			local: corev1.LabelTopologyZone,
		},
		"AWS":                      {terms: terms{match(in("topology.ebs.csi.aws.com/zone", "a"))}, zones: []string{"a"}},
		"Azure":                    {terms: terms{match(in("topology.disk.csi.azure.com/zone", "a"))}, zones: []string{"a"}},
		"Azure, of no zone":        {terms: terms{match(in("topology.disk.csi.azure.com/zone", ""))}},
		"OpenStack":                {terms: terms{match(in("topology.cinder.csi.openstack.org/zone", "a"))}, zones: []string{"a"}},
		"a region":                 {terms: terms{match(in(corev1.LabelTopologyRegion, "r"), in(corev1.LabelOSStable, "linux"), in(corev1.LabelArchStable, "amd64"))}},
		"a zone or another region": {terms: terms{match(in(corev1.LabelTopologyZone, "a")), match(in(corev1.LabelTopologyRegion, "r"))}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := volumeRecordOf(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: tt.terms}},
			}})
			if diff := cmp.Diff(tt.zones, r.zones); diff != "" || r.local != tt.local {
				t.Errorf("bound to a node by %q, want %q; zones (-want +got):\n%s", r.local, tt.local, diff)
			}
		})
	}
}
