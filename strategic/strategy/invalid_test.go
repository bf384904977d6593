package strategy

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestABadChangeIsNotFollowed: a strategy that is changed to what can't be used decides as before,
// with rules that turn on and off, until it is mended, turned off or put in Shadow; and one that
// never could be used wants nothing. What is remembered is enough, wherever it is decided.
func TestABadChangeIsNotFollowed(t *testing.T) {
	const rest = "sensors: [{name: load, prometheus: {query: up}}]\nrules: [{name: r, when: load > 5, actions: [{proposeReplicas: {workload: web, replicas: "
	good, other := parse(t, "s", rest+"'8'}}]}]").Spec, parse(t, "s", rest+"'9'}}]}]").Spec
	broken := func(spec, mode string) string {
		return strings.Replace(strings.Replace(spec, `load \u003e 5`, "load >> 5", 1), "{", `{"mode":"`+mode+`",`, 1)
	}
	var last []api.StrategyState
	for i, c := range []struct {
		spec    string
		load    float64
		want    int32 // -1 for none
		wrong   string
		shadows bool
	}{
		{broken(good, "Full"), 9, -1, "spec.rules[0].when", false},
		{good, 9, 8, "", false},
		{broken(other, "Full"), 9, 8, "decides as before it was changed", false},
		{broken(other, "Full"), 1, -1, "decides as before it was changed", false},
		{"{", 9, 8, "decides as before it was changed", false},
		{broken(other, "Shadow"), 9, 8, "decides as before it was changed", true},
		{other, 9, 9, "", false},
		{broken(good, "Off"), 9, -1, "spec.rules[0].when", false},
		{broken(good, "Full"), 9, -1, "spec.rules[0].when", false},
	} {
		now := begin.Add(time.Duration(i) * time.Hour)
		s := api.Strategy{Key: api.Key{Namespace: "shop", Name: "s"}, Spec: c.spec, Readings: []api.SensorReading{{Sensor: "load", Value: c.load, At: now}}}
		compiled = programs{} // as another process
		out := Decide(Input{Time: now, Strategies: []api.Strategy{s}, Last: last})
		last = out.States
		got := int32(-1)
		if len(out.Actions) == 1 {
			got = out.Actions[0].MinReplicas
			if (out.Actions[0].NotDone != "") != c.shadows {
				t.Errorf("cycle %d: %+v", i, out.Actions)
			}
		}
		said := ""
		for _, f := range out.Findings {
			said += f.String()
		}
		if got != c.want || c.wrong == "" != (said == "") || !strings.Contains(said, c.wrong) {
			t.Errorf("cycle %d: %+v, want %d; said %q, want %q", i, out.Actions, c.want, said, c.wrong)
		}
	}
}
