package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A pause of a namespace without mash2 is made all the same, as an operator may come, and
// says that it stops nothing; what can't be looked at may be there.
func TestPauseSaysWhereNothingIs(t *testing.T) {
	const (
		policy      = "/api/v1/namespaces/elsewhere/configmaps/mash2-policy"
		lease       = "/apis/coordination.k8s.io/v1/namespaces/elsewhere/leases/operator.mash2.io"
		deployments = "/apis/apps/v1/namespaces/elsewhere/deployments"
		brake       = "/api/v1/namespaces/elsewhere/configmaps/mash2-policy-brake"
	)
	for name, c := range map[string]struct {
		there, forbidden []string
		warns            bool
	}{
		"nothing":                              {warns: true},
		"a policy":                             {there: []string{policy}},
		"an operator without a policy":         {there: []string{lease}},
		"an operator that never led":           {there: []string{deployments}},
		"no right but the brake's":             {forbidden: []string{policy, lease, deployments}},
		"no right to look for the operator":    {forbidden: []string{lease}},
		"no right to look for the Deployment":  {forbidden: []string{deployments}},
		"no right to look at the policy alone": {forbidden: []string{policy}},
	} {
		for _, verb := range []string{"pause", "resume"} {
			t.Run(verb+", "+name, func(t *testing.T) {
				braked := false
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					status := func(code int, reason string) {
						w.WriteHeader(code)
						fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
					}
					switch path := r.URL.Path; {
					case path == brake:
						braked = true
						_, _ = io.Copy(w, r.Body)
					case slices.Contains(c.forbidden, path):
						status(http.StatusForbidden, "Forbidden")
					case path == deployments && !slices.Contains(c.there, path):
						fmt.Fprint(w, `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[]}`)
					case path == deployments:
						fmt.Fprint(w, `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"metadata":{"name":"mash2"}}]}`)
					case slices.Contains(c.there, path):
						fmt.Fprint(w, `{}`)
					default:
						status(http.StatusNotFound, "NotFound")
					}
				}))
				defer server.Close()
				kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
				text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "` + server.URL + `"}}]}`
				if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := newPause(verb == "pause")
				var out, errs bytes.Buffer
				cmd.SetOut(&out)
				cmd.SetErr(&errs)
				cmd.SetArgs([]string{"--kubeconfig", kubeconfig, "--namespace", "elsewhere"})
				err := cmd.ExecuteContext(t.Context())
				// Resume says so where it may not look at the annotation of the policy.
				if verb == "resume" && slices.Contains(c.forbidden, policy) {
					if err == nil || !braked {
						t.Errorf("%v, brake written: %v", err, braked)
					}
					return
				}
				if err != nil || !braked {
					t.Fatalf("%v, brake written: %v", err, braked)
				}
				warns := strings.Contains(errs.String(), "there is no mash2 in namespace elsewhere") && strings.Contains(errs.String(), "mash2 "+verb+" --namespace")
				if warns != c.warns || !warns && errs.Len() > 0 {
					t.Errorf("stderr is %q, want a warning: %v", errs.String(), c.warns)
				}
				if claims := strings.Contains(out.String(), "nothing is written"); verb == "pause" && claims == c.warns {
					t.Errorf("stdout is %q", out.String())
				}
			})
		}
	}
}
