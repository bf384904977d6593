package sensing

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestSignals: signals are read from Prometheus and from a ConfigMap; what can't be read says
// why, and a query that costs too much is never asked.
func TestSignals(t *testing.T) {
	list := []api.Signal{
		{Name: "spend", Query: "sum(spend)"},
		{Name: "constant", Query: "scalar(spend)"},
		{Name: "two", Query: "spend"},
		{Name: "none", Query: "absent"},
		{Name: "year", Query: "sum_over_time(spend[365d])"},
		{Name: "campaign", Key: "campaign", Compare: api.CompareEquals, Text: "on"},
		{Name: "stock", Key: "stock", Compare: api.CompareBelow},
		{Name: "words", Key: "campaign", Compare: api.CompareAbove},
		{Name: "long", Key: "long", Compare: api.CompareEquals},
		{Name: "gone", Key: "gone", Compare: api.CompareEquals},
	}
	w := newWorld(t, func(c *Config) {
		c.Signals, c.SignalsNamespace = func() []api.Signal { return list }, "mash2-system"
	})
	sample := `{"metric":{},"value":[0,"%s"]}`
	one := fmt.Sprintf(sample, "1200")
	answer := func(kind, result string) string {
		return fmt.Sprintf(`{"status":"success","data":{"resultType":%q,"result":%s}}`, kind, result)
	}
	away := false
	w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/query") {
			return false
		}
		if away {
			http.Error(rw, "away", http.StatusServiceUnavailable)
			return true
		}
		body := map[string]string{
			"sum(spend)":    answer("vector", "["+one+"]"),
			"scalar(spend)": answer("scalar", `[0,"7"]`),
			"spend":         answer("vector", `[{"metric":{"a":"1"},"value":[0,"1"]},{"metric":{"a":"2"},"value":[0,"2"]}]`),
			"absent":        answer("vector", "[]"),
		}[r.Form.Get("query")]
		if body == "" {
			t.Errorf("asked for %q", r.Form.Get("query"))
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(body))
		return true
	})
	w.adapter = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/mash2-system/configmaps/mash2-signals" {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"kind":"ConfigMap","apiVersion":"v1","data":{"campaign":"on\n","stock":"2.5","long":%q}}`, strings.Repeat("x", 257))
	})
	check := func(want map[string]string) {
		t.Helper()
		got := w.observe().Context.Signals
		if len(got) != len(list) {
			t.Fatalf("%d readings", len(got))
		}
		for i, r := range got {
			said := r.String()
			if r.Missing != "" {
				said = r.Missing
			}
			if w, ok := want[list[i].Name]; r.Name != list[i].Name || r.Source != list[i].Source() || !ok || !strings.Contains(said, w) || (w == "" && said != "") {
				t.Errorf("%s: %s, want %s", list[i].Name, said, w)
			}
		}
	}
	want := map[string]string{
		"spend": "1200", "constant": "7", "two": "gives 2 series", "none": "gives no series", "year": "the range is 1y, more than 1h",
		"campaign": `"on"`, "stock": "2.5", "words": `key "campaign" is "on", which is no number`, "long": "longer than 256 bytes",
		"gone": `has no key "gone"`,
	}
	check(want)
	// Without Prometheus a value is good until it is stale.
	away = true
	w.clock.Step(30 * time.Second)
	check(map[string]string{
		"spend": "1200", "constant": "7", "two": "503", "none": "503", "year": "the range is 1y",
		"campaign": `"on"`, "stock": "2.5", "words": "no number", "long": "longer", "gone": "no key",
	})
	w.clock.Step(time.Minute)
	check(map[string]string{
		"spend": "503", "constant": "503", "two": "503", "none": "503", "year": "the range is 1y",
		"campaign": `"on"`, "stock": "2.5", "words": "no number", "long": "longer", "gone": "no key",
	})
	// A signal of another query is another signal.
	list[0].Query = "sum(other)"
	w.answer(nil)
	if r := w.observe().Context.Signals[0]; r.Value == 1200 {
		t.Errorf("the value of another query: %+v", r)
	}
}
