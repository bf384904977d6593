package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// clusterThatSays is a kubeconfig of an API server that answers by path, and 404 elsewhere.
func clusterThatSays(t *testing.T, answers map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "` + server.URL + `"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// The namespace of mash2 is none that an adoption or a release is limited to: who takes it for that gets nothing done
// in all the others.
func TestNamespaceOfMash2LimitsNothing(t *testing.T) {
	for _, args := range [][]string{{"adopt"}, {"adopt", "--dry-run"}, {"release", "--all"}} {
		args = append(args, "--namespace", "shop", "--kubeconfig", clusterThatSays(t, nil))
		var out, errs bytes.Buffer
		if code := (Program{}).Run(t.Context(), args, &out, &errs); code != ExitUsage || !strings.Contains(errs.String(), "limits nothing here") {
			t.Errorf("%v: exit code %d: %s", args, code, errs.String())
		}
	}
}

// What a dry run says would be made is what would be.
func TestDryRunSaysWhatIsManagedAlready(t *testing.T) {
	hpa := `{"metadata":{"namespace":"shop","name":"web"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}`
	managed := `{"metadata":{"namespace":"shop","name":"web"},"spec":{"maxReplicas":3,"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}`
	answers := func(workloads string) map[string]string {
		return map[string]string{
			"/api": `{"kind":"APIVersions","versions":["v1"]}`,
			"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[
				{"name":"autoscaling","versions":[{"groupVersion":"autoscaling/v2","version":"v2"}]},
				{"name":"mash2.io","versions":[{"groupVersion":"mash2.io/v1alpha1","version":"v1alpha1"}]}]}`,
			"/apis/autoscaling/v2": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"autoscaling/v2","resources":[
				{"name":"horizontalpodautoscalers","kind":"HorizontalPodAutoscaler","namespaced":true,"verbs":["list"]}]}`,
			"/apis/mash2.io/v1alpha1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"mash2.io/v1alpha1","resources":[
				{"name":"managedworkloads","kind":"ManagedWorkload","namespaced":true,"verbs":["list"]}]}`,
			"/apis/autoscaling/v2/horizontalpodautoscalers":            `{"kind":"HorizontalPodAutoscalerList","apiVersion":"autoscaling/v2","items":[` + hpa + `]}`,
			"/apis/mash2.io/v1alpha1/namespaces/shop/managedworkloads": `{"kind":"ManagedWorkloadList","apiVersion":"mash2.io/v1alpha1","items":[` + workloads + `]}`,
		}
	}
	notInstalled := answers("")
	for path := range notInstalled {
		if strings.Contains(path, "mash2.io") {
			delete(notInstalled, path)
		}
	}
	for name, c := range map[string]struct {
		answers map[string]string
		want    string
	}{
		"managed":             {answers(managed), "managed already"},
		"not managed":         {answers(""), "made"},
		"before installation": {notInstalled, "made"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := (Program{}).Run(t.Context(), []string{"adopt", "--dry-run", "-o", "json", "--kubeconfig", clusterThatSays(t, c.answers)}, &out, &errs); code != 0 {
				t.Fatalf("exit code %d: %s", code, errs.String())
			}
			var result AdoptResult
			if err := json.Unmarshal(out.Bytes(), &result); err != nil || len(result.Workloads) != 1 || result.Workloads[0].Outcome != c.want {
				t.Errorf("%v, want one workload, %s: %s", err, c.want, out.String())
			}
		})
	}
}
