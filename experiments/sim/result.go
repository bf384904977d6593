package sim

import (
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load"
)

// Result of a run. Buckets, steps and summaries are those of an experiment on a
// real control plane.
type Result struct {
	load.Results
	// Start is when scenario time began, in the time of the steps, of the ledger
	// and, after Epoch, of cycles.
	Start  time.Duration
	Ledger []Lifetime
	Cycles int
	// Rollbacks of mash2's whole plan, warm-up and all.
	Rollbacks []api.Rollback
	// Resizes are when pods were resized in place, after Start.
	Resizes []time.Duration
	// OOMKills are when containers were ended for their memory, after Start.
	OOMKills []time.Duration
	// NodeHours and CostUSD by pass, of the nodes.
	NodeHours, CostUSD []float64
}

// ScenarioTime is how long the load has run at a time of a cycle.
func (r Result) ScenarioTime(t time.Time) time.Duration { return t.Sub(Epoch) - r.Start }
