package agents

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/mash2-io/mash2/api"
)

// Pods with the same labels that are another's are not resized: they may have a loop of their own.
func TestPodsOfTheTarget(t *testing.T) {
	pod := func(name, kind, owner, hash string) *corev1.Pod {
		p := newSingle(amounts("100m", "64Mi"), amounts("100m", "64Mi")).pod
		p.Name, p.UID, p.Labels = name, types.UID(name), map[string]string{"app": "shop", "pod-template-hash": hash}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner, Controller: new(true)}}
		}
		return p
	}
	c := kubefake.NewClientset(
		pod("a", "ReplicaSet", "web-abc", "abc"), pod("b", "ReplicaSet", "web-def", "def"), pod("c", "ReplicaSet", "batch-abc", "abc"),
		pod("d", "ReplicaSet", "web-batch-abc", "abc"), pod("e", "StatefulSet", "web", ""), pod("f", "StatefulSet", "batch", ""), pod("g", "", "", ""),
	)
	for want, of := range map[string]api.TargetRef{
		"[a b]":           {Kind: "Deployment", Name: "web"},
		"[e]":             {Kind: "StatefulSet", Name: "web"},
		"[a b c d e f g]": {}, // the command's, by labels alone
	} {
		pods, refused, err := Kubernetes{Client: c, Namespace: "shop", Selector: "app=shop", Of: of}.Observe(t.Context())
		var got []string
		for _, p := range pods {
			got = append(got, p.Key.Name)
		}
		if fmt.Sprint(got) != want || len(refused) != 0 || err != nil {
			t.Errorf("of %+v: %v, %v, %v; want %s", of, got, refused, err, want)
		}
	}
}
