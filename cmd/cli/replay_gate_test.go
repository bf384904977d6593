package cli

import (
	"strings"
	"testing"

	"github.com/mash2-io/mash2/operator/replay"
)

// TestGateJudgesNothing: where nothing recorded tells whether workloads are short, the gate says so
// instead of letting everything pass.
func TestGateJudgesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		balance replay.Balance
		says    string
	}{
		"nothing is known": {replay.Balance{}, "--max-short-increase can't be judged"},
		"never short":      {replay.Balance{Judged: 5}, ""},
		"short for longer": {replay.Balance{Judged: 50, Short: replay.Weighed{Decided: 31}}, "31.0 minutes more"},
	} {
		is, err := (&replayFlags{maxShort: "30m"}).gate(replay.Result{Balance: c.balance})
		if !is || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
