package strategy

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// sla is a model that predicts twice a candidate's load.
type sla struct{}

func (sla) Features() []string                   { return []string{"load"} }
func (sla) Predict(x []float64) (float64, error) { return 2 * x[0], nil }

// asTrained has the features' names that mash2 train --environment qos and other programs give.
type asTrained struct{}

func (asTrained) Features() []string                   { return []string{"node_cpu_usage", "Column 0"} }
func (asTrained) Predict(x []float64) (float64, error) { return x[0] + x[1], nil }

// TestModelsOwnNames: features have whatever name a model gives what it reads.
func TestModelsOwnNames(t *testing.T) {
	spec := load + `choose:
  candidates:
    - {name: a, pools: [p], features: {node_cpu_usage: load, Column 0: '1'}}
    - {name: b, pools: [q], features: {node_cpu_usage: '1', Column 0: '1'}}
  model: {name: qos}
  score: 1.0 / (predicted + 0.0 * c.node_cpu_usage + 0.0 * c['Column 0'])
  payback: 0s`
	got := ""
	for _, r := range Run([]api.Strategy{parse(t, "s", spec)}, steps(time.Minute, 0, 3), map[string]Model{"qos": asTrained{}}) {
		if len(r.Findings) > 0 {
			t.Error(r.Findings)
		}
		got += r.States[0].Choice.Candidate
	}
	if got != "ab" {
		t.Errorf("chose %s", got)
	}
}

func TestModel(t *testing.T) {
	spec := load + `choose:
  candidates: [{name: a, pools: [p], features: {load: load}}, {name: b, pools: [q], features: {load: '4'}}]
  model: {name: qos}
  score: 1.0 / predicted
  require: predicted <= 10
  payback: 0s`
	s := parse(t, "s", spec)
	for name, c := range map[string]struct {
		load   float64
		models map[string]Model
		want   string
	}{
		"it stays where it is best":             {3, map[string]Model{"qos": sla{}}, "a"},
		"it moves where it is predicted better": {5, map[string]Model{"qos": sla{}}, "b"},
		"without the model it stays":            {5, nil, "a"},
	} {
		r := Run([]api.Strategy{s}, steps(time.Minute, c.load), c.models)[0]
		if got := r.States[0].Choice; got.Candidate != c.want || (c.models == nil) != (len(r.Findings) == 1) {
			t.Errorf("%s: %+v %q", name, got, r.Findings)
		}
	}
}
