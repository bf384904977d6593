package rest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// TestTriggerLeavesTheRest: a trigger writes an annotation and no more, also where a later
// version's definition has fields that this one doesn't know; a write that came in between is
// read anew.
func TestTriggerLeavesTheRest(t *testing.T) {
	object := `{"apiVersion":"mash2.io/v1alpha1","kind":"Strategy","metadata":{"name":"crowd","namespace":"shop","resourceVersion":"7"},
		"spec":{"later":5,"rules":[{"name":"crowd","when":"true","knob":"x","actions":[{"setPolicy":{"policy":"A"}}]}]},"status":{"active":"crowd"}}`
	var written map[string]any
	conflicts := 1
	kube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/mash2.io/v1alpha1/namespaces/shop/strategies/crowd" || r.Header.Get("Authorization") != "Bearer theirs" {
			t.Errorf("%s with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		if r.Method == http.MethodPut {
			if conflicts > 0 {
				conflicts--
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","message":"changed","code":409}`)
				return
			}
			if err := json.NewDecoder(r.Body).Decode(&written); err != nil {
				t.Error(err)
			}
		}
		_, _ = io.WriteString(w, object)
	}))
	defer kube.Close()
	actor := ClusterActor{REST: &rest.Config{Host: kube.URL}, AsRequest: true}
	s := &Server{Actor: actor}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set(TokenHeader, "theirs")
	key := api.Key{Namespace: "shop", Name: "crowd"}
	if err := s.trigger(r, key, api.RuleTarget("crowd")); err != nil {
		t.Fatal(err)
	}
	text := toJSON(t, written)
	for _, want := range []string{`"later":5`, `"knob":"x"`, `"resourceVersion":"7"`, api.AnnotationTriggered} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if written["status"] != nil {
		t.Errorf("it writes the status: %s", text)
	}
	// A change of the spec is of what this version knows.
	change := func(o *v1alpha1.Strategy) error { o.Spec.Priority = 3; return nil }
	if err := actor.ChangeStrategy(t.Context(), r, key, change); err != nil || !strings.Contains(toJSON(t, written), `"priority":3`) {
		t.Errorf("%v: %v", err, written)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
