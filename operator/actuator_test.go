package operator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/kube"
	"github.com/mash2-io/mash2/execution/provider"
)

// TestUnreadyPodsAreEvicted: whoever leaves nodes to others moves no pods between them, but pods that serve
// nobody, as they are killed again and again, are evicted there, too. That takes two rights, which the chart
// gives to who may resize pods.
func TestUnreadyPodsAreEvicted(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`)
			return
		}
		_, _ = fmt.Fprint(w, `{"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "shop", "name": "web-1", "uid": "1"}}`)
	}))
	defer server.Close()
	pods, err := kube.New(&rest.Config{Host: server.URL}, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	move := api.EvictPod{Pod: api.Key{Namespace: "shop", Name: "web-1"}, UID: "1", Node: "a"}
	killed := move
	killed.Unready = true
	const pod = "/api/v1/namespaces/shop/pods/web-1"
	for _, c := range []struct {
		name    string
		nodes   provider.Provider
		evict   api.EvictPod
		refused bool
	}{
		{"a move, read-only", provider.ReadOnly{}, move, true},
		{"one that is killed, read-only", provider.ReadOnly{}, killed, false},
		{"one that is killed, without a provider", nil, killed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = nil
			err := actuator{pods: pods, nodes: c.nodes}.Apply(t.Context(), c.evict)
			if (err != nil) != c.refused {
				t.Error(err)
			}
			want := []string{"GET " + pod, "POST " + pod + "/eviction", "GET " + pod}
			if c.refused {
				want = nil
			}
			if d := cmp.Diff(want, asked); d != "" {
				t.Errorf("requests (-want +got):\n%s", d)
			}
		})
	}
}
