package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/serve/rest"
)

// strategiesByREST makes a strategy by REST, lets it act by hand, and finds what became of
// it in the knowledge base.
func strategiesByREST(t *testing.T, w *world, p visitor, tokens map[string]string, records string) {
	const one = "strategies/" + testbed.Mash2 + "/by-rest"
	spec := fmt.Sprintf(`{"sensors":[{"name":"doors","http":{"url":"http://127.0.0.1:1/","jsonPath":"{.open}"},"when":{"interval":{"every":"10m"}}}],
		"rules":[{"name":"crowd","when":"false","minStay":"1h","actions":[{"proposeReplicas":{"workload":%q,"replicas":"1.0"}}]}]}`, testbed.WorkloadName)
	for _, c := range []struct {
		who, method, path, body string
		status                  int
		says                    string
	}{
		{"viewer", "PUT", one, spec, 403, "Kubernetes refuses it"},
		{"tenant", "PUT", one, spec, 403, "Kubernetes refuses it"},
		{"admin", "PUT", one, `{"rules":[{"name":"crowd"}]}`, 400, "spec.rules[0].when"},
		{"admin", "PUT", one, spec, 200, ""},
		// Once more: it is there now.
		{"admin", "PUT", one, spec, 200, ""},
		// The definition's own check, which the API server makes.
		{"admin", "PUT", one + "/rules/" + strings.Repeat("r", 64), `{"when":"true","actions":[{"setPolicy":{"policy":"PERFORMANCE"}}]}`, 400, "spec.rules[1].name"},
		{"viewer", "DELETE", one, "", 403, "Kubernetes refuses it"},
		{"viewer", "POST", one + "/rules/crowd/trigger", "", 403, "Kubernetes refuses it"},
		{"admin", "POST", "strategies/" + testbed.Mash2 + "/none/rules/crowd/trigger", "", 404, "not found"},
	} {
		if status, body := p.ask(c.method, c.path, tokens[c.who], c.body); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.who, c.method, c.path, status, body, c.status, c.says)
		}
	}
	rule := func(want string) func() string {
		return func() string {
			_, body := p.ask("GET", one, tokens["viewer"], "")
			var v rest.StrategyView
			if err := json.Unmarshal([]byte(body), &v); err != nil || len(v.Rules) != 1 {
				return body
			}
			if got := fmt.Sprintf("%v: %s", v.Rules[0].On, v.Rules[0].Reason); !strings.HasPrefix(got, want) {
				return got
			}
			return ""
		}
	}
	w.eventually("the rule to be known, and off", rule("false"))
	if status, body := p.ask("POST", one+"/rules/crowd/trigger", tokens["admin"], ""); status != http.StatusOK {
		t.Fatal(status, body)
	}
	w.eventually("the rule to be on", rule("true: it"))
	if status, body := p.raw("GET", "/sensors/event/get/all", tokens["viewer"], ""); status != http.StatusOK || !strings.Contains(body, `"trigger_str":"interval[0:10:00]"`) {
		t.Errorf("under the other name: %d %s", status, body)
	}
	about := testbed.Mash2 + "/by-rest"
	w.eventually("the knowledge base to have it", func() string {
		_, body := p.ask("GET", "knowledge?kind=decision&about="+about, tokens["viewer"], "")
		if !strings.Contains(body, "on: it was triggered by hand") {
			return body
		}
		return ""
	})
	// By command, beside the operator that writes it.
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"kb", "search", "--records", records, "--about", about}, &stdout, &stderr); code != 0 {
		t.Fatal(stderr.String())
	}
	for _, want := range []string{"doors: http.url: mash2's owner has not allowed 127.0.0.1:1", "crowd: on: it was triggered by hand at "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("mash2 kb search: no %q in\n%s", want, stdout.String())
		}
	}
	if status, body := p.ask("DELETE", one, tokens["admin"], ""); status != http.StatusOK {
		t.Error(status, body)
	}
	w.eventually("it to be gone", func() string {
		status, body := p.ask("GET", one, tokens["viewer"], "")
		if status != http.StatusNotFound {
			return body
		}
		return ""
	})
}
