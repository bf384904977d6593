package sensing

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// TestPlacementsAreTheSchedulers: where a pod would fit, by what sensing reads of it and
// package placement makes of that, is where kube-scheduler lets it run. Its answers are
// recorded, and held to its own plugins, by the tests of experiments/localkube.
func TestPlacementsAreTheSchedulers(t *testing.T) {
	b, err := os.ReadFile("testdata/scheduler.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Nodes []*corev1.Node `json:"nodes"`
		Pods  []*corev1.Pod  `json:"pods"`
		Pod   *corev1.Pod    `json:"pod"`
		Fits  []string       `json:"fits"`
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	asked, fit := 0, 0
	for i, c := range cases {
		shapes := newShapes()
		web := api.Key{Namespace: "shop", Name: "web"}
		on := map[string][]*api.Pod{}
		for _, p := range c.Pods {
			pod := &api.Pod{Key: api.Key{Namespace: p.Namespace, Name: p.Name}, Shape: shapes.of(p)}
			if p.Labels["app"] == "web" {
				pod.Workload = web
			}
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], pod)
		}
		pods := placement.Pods{Shape: shapes.of(c.Pod), Workload: web}
		for _, n := range c.Nodes {
			node := nodeRecordOf(n, "pool").node
			space := placement.SpaceOf(&node, on[n.Name], api.Resources{})
			// A cordon is a taint to the scheduler. Who tolerates that may come all the
			// same; mash2 plans no pod on a cordoned node.
			cordon := []api.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: string(corev1.TaintEffectNoSchedule)}}
			cordoned := node.Cordoned && !placement.Tolerated(cordon, pods.Shape.Tolerations)
			got := !cordoned && space.Place(pods, 1) == 1
			want := slices.Contains(c.Fits, n.Name)
			asked++
			if want {
				fit++
			}
			if got != want {
				t.Errorf("case %d, node %s: fits %v, the scheduler says %v\npod %+v\nnode %+v", i, n.Name, got, want, *pods.Shape, node)
			}
		}
	}
	t.Logf("%d of %d answers are that it fits", fit, asked)
}
