// Package serve shows what the operator does to those who look at it: metrics,
// log lines, Events and the status of ManagedWorkloads. It reads Cycle records
// and nothing else, and writes only to custom resources.
package serve

import (
	"context"

	"github.com/mash2-io/mash2/api"
)

// Reporter is told every cycle.
type Reporter interface {
	Report(ctx context.Context, c api.Cycle)
}

// Reporters tell each of them in turn.
type Reporters []Reporter

// Report implements mash2.Reporter.
func (rs Reporters) Report(ctx context.Context, c api.Cycle) {
	for _, r := range rs {
		r.Report(ctx, c)
	}
}
