package rest

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
)

// Addresses that strategies ask and call may be secrets: who may list ManagedWorkloads and no
// Strategies sees none.
func TestAddressesOfStrategies(t *testing.T) {
	const spec = `{"sensors":[{"name":"s","http":{"url":"https://prices.example.com/?key=secret","jsonPath":"{.x}"}}],
		"rules":[{"name":"r","when":"true","actions":[{"callWebhook":{"url":"https://hooks.example.com/T0/secret"}}]}]}`
	store := NewStore(Config{})
	var r api.Record
	r.Cycle.ID = 1
	shop := api.Key{Namespace: "shop", Name: "a"}
	r.Snapshot.Context.Strategies = []api.Strategy{{Key: shop, Spec: spec}}
	r.Cycle.Policy.StrategyActions = []api.StrategyAction{{Kind: api.ActionCallWebhook, Strategy: shop, Rule: "r", URL: "https://hooks.example.com/T0/secret"}}
	r.Cycle.Plan.Workloads = []api.WorkloadPlan{{Key: api.Key{Namespace: "shop", Name: "web"}}}
	store.last = r
	for name, c := range map[string]struct {
		rights string // NAMESPACE/RESOURCE, no namespace for all
		shown  int    // addresses
	}{
		"workloads of the namespace":                 {"shop/managedworkloads", 0},
		"workloads everywhere":                       {"/managedworkloads", 0},
		"and strategies of the namespace":            {"shop/managedworkloads shop/strategies", 3},
		"and strategies everywhere":                  {"/managedworkloads /strategies", 6}, // once more each time the policy is there
		"and strategies of another namespace":        {"shop/managedworkloads bank/strategies", 0},
		"workloads of both, strategies of the other": {"shop/managedworkloads bank/managedworkloads bank/strategies", 0},
	} {
		client := kubefake.NewClientset()
		client.PrependReactor("create", "tokenreviews", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: true}}, nil
		})
		client.PrependReactor("create", "subjectaccessreviews", func(a k8stesting.Action) (bool, runtime.Object, error) {
			review := a.(k8stesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
			of := review.Spec.ResourceAttributes
			for _, right := range strings.Fields(c.rights) {
				review.Status.Allowed = review.Status.Allowed || right == of.Namespace+"/"+of.Resource && of.Verb == "list"
			}
			return true, review, nil
		})
		asks := httptest.NewRequest("GET", "/", nil)
		asks.Header.Set("Authorization", "Bearer x")
		v, err := NewKubernetes(client, time.Now).Viewer(t.Context(), asks, []string{"bank", "shop"})
		if err != nil {
			t.Fatal(err)
		}
		seen := store.strategies(v)
		x, err := store.explain(v, record.Question{Workload: "shop/web"})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{seen, store.overview(v), x, v.shownCycle(store.last.Cycle)})
		if got := strings.Count(string(text), "secret"); got != c.shown || err != nil || len(seen) != 1 {
			t.Errorf("%s: %d addresses are shown, want %d: %v, %s", name, got, c.shown, err, text)
		}
	}
}
