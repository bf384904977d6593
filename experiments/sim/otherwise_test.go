package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/operator/replay"
	"github.com/mash2-io/mash2/record"
)

// TestOtherwise: a recorded cycle decided again is what was recorded; each kind of change
// matters where it should, and doesn't where it can't.
func TestOtherwise(t *testing.T) {
	l, _ := recorded(t, "flash-sale", Mash2, 1, record.Config{KeyEvery: 20})
	var times []time.Time
	workload := ""
	for e, err := range l.Records(time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Cycle.Error == "" {
			times = append(times, e.Cycle.Time)
			workload = e.Cycle.Plan.Workloads[0].Key.String()
		}
	}
	otherwise := func(at time.Time, c replay.Change) replay.Counterfactual {
		t.Helper()
		f, err := replay.Otherwise(t.Context(), l, at, c)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for i, at := range times {
		f := otherwise(at, replay.Change{})
		if !f.Reproduced || f.Was != f.Otherwise || len(f.Workloads)+len(f.Pools) > 0 || !strings.HasSuffix(f.Summary, "the same replicas and nodes") || !f.Time.Equal(at) {
			t.Errorf("cycle %d with nothing changed: %+v", i+1, f)
		}
	}
	if f := otherwise(time.Time{}, replay.Change{}); !f.Time.Equal(times[len(times)-1]) || !f.Reproduced {
		t.Errorf("the last one: %+v", f)
	}

	// Where a change makes no difference, it is said why.
	if f := otherwise(times[0], replay.Change{Without: []string{"budget"}, With: []string{"quantile=0.99"}, Workload: workload}); !strings.Contains(f.Change, "has none") ||
		!strings.Contains(f.Note, "no forecast was used") || !strings.Contains(f.Note, workload+" has ") {
		t.Errorf("%s: %s: %q", f.Change, f.Summary, f.Note)
	}

	// differs reports in how many cycles a change makes a difference.
	differs := func(c replay.Change) (n int) {
		for _, at := range times {
			f := otherwise(at, c)
			if !f.Reproduced {
				t.Fatalf("%+v at %v is not what was recorded", c, at)
			}
			if f.Was != f.Otherwise {
				n++
			}
		}
		return n
	}
	// The scenario switches: one of the two policies is in force, and changes nothing.
	if a, b := differs(replay.Change{Policy: "PERFORMANCE"}), differs(replay.Change{Policy: "COST_SAVING"}); a == 0 || b == 0 || a+b != len(times) {
		t.Errorf("PERFORMANCE makes a difference in %d cycles, COST_SAVING in %d, of %d", a, b, len(times))
	}
	for name, c := range map[string]replay.Change{
		"the least replicas":      {With: []string{"minReplicas=18"}},
		"a target":                {With: []string{"targetUtilization=0.4", "quantile=0.5"}},
		"a weight":                {With: []string{"weights.performance=50"}},
		"money":                   {With: []string{"maxHourlyCost=0.07"}},
		"nodes kept":              {With: []string{"minNodesPerPool=9"}},
		"the workload's least":    {With: []string{"workload.minReplicas=15"}, Workload: workload},
		"the workload's greatest": {With: []string{"workload.maxReplicas=3"}, Workload: workload},
	} {
		t.Run(name, func(t *testing.T) {
			if n := differs(c); n == 0 {
				t.Errorf("it makes a difference in %d of %d cycles", n, len(times))
			}
		})
	}
	for name, c := range map[string]replay.Change{
		"the same planner":      {Planner: "horizontal"},
		"no budget to be freed": {Without: []string{"budget"}},
		"what is so anyway":     {With: []string{"maxNodesPerPool=0"}},
	} {
		t.Run(name, func(t *testing.T) {
			if n := differs(c); n != 0 {
				t.Errorf("it makes a difference in %d of %d cycles", n, len(times))
			}
		})
	}
	// A budget that binds, freed again.
	at := times[len(times)/2]
	tight := otherwise(at, replay.Change{With: []string{"maxHourlyCost=0.07"}})
	free := otherwise(at, replay.Change{With: []string{"maxHourlyCost=0.07"}, Without: []string{"budget"}})
	if tight.Otherwise == tight.Was || free.Otherwise != free.Was {
		t.Errorf("tight %+v, free %+v", tight, free)
	}
	const none = "has none: neither maxHourlyCost nor maxNodesPerPool"
	if s := otherwise(at, replay.Change{Without: []string{"budget"}}).Summary; !strings.Contains(s, none) {
		t.Errorf("without a budget that there is not: %s", s)
	}
	if strings.Contains(tight.Summary, none) {
		t.Errorf("with a budget: %s", tight.Summary)
	}
	if !strings.Contains(tight.Summary, "with maxHourlyCost 0.07: ") || !strings.Contains(tight.Summary, "USD/h") {
		t.Errorf("summary: %s", tight.Summary)
	}

	for _, c := range []struct {
		change replay.Change
		says   string
	}{
		{replay.Change{With: []string{"quantil=0.9"}}, "quantile"},
		{replay.Change{With: []string{"quantile"}}, "FIELD=VALUE"},
		{replay.Change{With: []string{"quantile=much"}}, "must be a number"},
		{replay.Change{With: []string{"quantile=7"}}, "quantile"},
		{replay.Change{Without: []string{"mercy"}}, "budget can; --with workload.maxReplicas=N"},
		{replay.Change{With: []string{"maxReplicas=60"}}, "a workload's own bound is workload.maxReplicas=60"},
		{replay.Change{Policy: "NONE"}, "COST_SAVING"},
		{replay.Change{With: []string{"workload.minReplicas=2"}}, "needs --workload with the name of a workload"},
		{replay.Change{With: []string{"workload.minReplicas=2000"}, Workload: workload}, "replicas would be between"},
	} {
		_, err := replay.Otherwise(t.Context(), l, at, c.change)
		if !errors.Is(err, replay.ErrChange) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want it to say %q", c.change, err, c.says)
		}
	}
	if _, err := replay.Otherwise(t.Context(), l, at, replay.Change{Planner: "oracle"}); !errors.Is(err, replay.ErrNoPlanner) {
		t.Errorf("no such planner: %v", err)
	}
}
