package sensing

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// What the next pod asks for is the newest one's as it was made: a resize in
// place is of that pod alone.
func TestTheNextPodsRequests(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 1)
	resized := podOn("web", 7, "node-1", epoch.Add(-time.Minute))
	resized.Spec.Containers[0].Resources.Requests = template("400m").Spec.Containers[0].Resources.Requests
	resized.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Subresource: "resize"}}
	w.put(resized)
	got, snapshot := w.workload("web")
	if m := got.Shape.Requests.MilliCPU; m != 100 {
		t.Errorf("the next pod asks for %dm, want what the one before the resize asks for", m)
	}
	var has []int64
	for _, p := range snapshot.Pods {
		has = append(has, p.Shape.Requests.MilliCPU)
	}
	if len(has) != 2 || has[0]+has[1] != 500 {
		t.Errorf("pods ask for %v", has)
	}
}

// A recommendation that a VPA will apply is what new pods ask for before there is
// one; replicas may be counted by the template's requests all the same.
func TestAPendingRecommendation(t *testing.T) {
	const said = `, status: {recommendation: {containerRecommendations: [{containerName: main, target: {cpu: 250m, memory: 300Mi}}]}}`
	for name, c := range map[string]struct {
		spec       string
		byTemplate bool
		wantCPU    int64
		wantMemory int64
		wantBasis  int64
		wantHold   string
	}{
		"applied to CPU is a conflict":                {wantCPU: 250, wantMemory: 300 << 20, wantHold: "or spec.countRequests of the ManagedWorkload to Template"},
		"unless replicas are counted by the template": {byTemplate: true, wantCPU: 250, wantMemory: 300 << 20, wantBasis: 100},
		"memory alone": {
			spec:    `, resourcePolicy: {containerPolicies: [{containerName: "*", controlledResources: [memory]}]}`,
			wantCPU: 100, wantMemory: 300 << 20,
		},
		"only said": {spec: `, updatePolicy: {updateMode: "Off"}`, wantCPU: 100},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 2)
			mw := managed("web")
			if c.byTemplate {
				mw.Spec.CountRequests = v1alpha1.CountTemplate
			}
			w.put(mw)
			w.store(vertical(t, c.spec+"}"+strings.TrimSuffix(said, "}")))
			got, _ := w.workload("web")
			if (got.HoldReason == HoldConflict) != (c.wantHold != "") || !strings.Contains(got.Hold, c.wantHold) {
				t.Errorf("held %s: %s", got.HoldReason, got.Hold)
			}
			if r := got.Shape.Requests; r.MilliCPU != c.wantCPU || r.Memory != c.wantMemory || got.Basis != c.wantBasis {
				t.Errorf("the next pod asks for %v, counted by %dm", r, got.Basis)
			}
		})
	}
}
