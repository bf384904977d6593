package rest

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAgentsChange: what a viewer sends becomes a merge patch, and what can't be is refused
// with the field's name.
func TestAgentsChange(t *testing.T) {
	for body, want := range map[string]string{
		`{"run": false}`: `{"run":false}`,
		`{"cpu": "1500m", "model": "", "intervalSeconds": 2}`: `{"cpu":"1500m","intervalSeconds":2,"model":null}`,
		`{"cpu": ""}`: `{"cpu":null}`,
		`{"priorities": [{"pod": "web-0", "percent": 50}, {"pod": "web-1", "percent": 100}]}`: `{"priorities":[{"pod":"web-0","percent":50}]}`,
		`{"priorities": []}`:        `{"priorities":[]}`,
		`{}`:                        "name what to change",
		`{"run": "no"}`:             "run: must be",
		`{"cpu": "many"}`:           "cpu: must be",
		`{"cpu": "-1"}`:             "cpu: must be",
		`{"cpu": 3}`:                "cpu: must be",
		`{"model": "../secret"}`:    "model: must be",
		`{"intervalSeconds": 0.5}`:  "intervalSeconds: must be",
		`{"intervalSeconds": 1e12}`: "intervalSeconds: must be",
		`{"priorities": "all"}`:     "priorities: must be a list",
		`{"priorities": [{"pod": "a", "percent": 0}]}`: "a: percent must be 1 to 100",
		`{"priorities": [{"pod": "", "percent": 5}]}`:  "each pod must be named once",
		`{"mode": "Full"}`: "mode: there is no such field",
		`{"priorities": [{"pod": "a", "percent": 2.5}]}`: "priorities: must be a list",
	} {
		var in map[string]any
		if err := json.Unmarshal([]byte(body), &in); err != nil {
			t.Fatal(err)
		}
		out, err := agentsChange(in)
		text, _ := json.Marshal(out)
		got := string(text)
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || err != nil && !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
