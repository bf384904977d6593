package serve

import (
	"context"
	"log/slog"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// Log writes one line per cycle, action and new finding. Messages are constant;
// what varies is in the key/value pairs.
type Log struct {
	Logger *slog.Logger
	// said are the findings of the last cycle, which are not repeated while
	// they last.
	said map[api.Finding]bool
}

// Report implements mash2.Reporter.
func (l *Log) Report(_ context.Context, c api.Cycle) {
	var told []api.Finding
	told, l.said = news(c, l.said)
	for _, f := range told {
		level := slog.LevelInfo
		if f.Severity == api.Warning {
			level = slog.LevelWarn
		}
		l.Logger.Log(context.Background(), level, "finding", "cycle", c.ID, "reason", f.Reason,
			"object", f.Object, "agent", f.Agent, "message", f.Message)
	}
	for _, o := range c.Outcomes {
		switch {
		case o.Error != "":
			l.Logger.Error("action failed", "cycle", c.ID, "agent", o.Agent, "action", o.Action, "error", o.Error)
		case o.Skipped != "":
			l.Logger.Info("action skipped", "cycle", c.ID, "agent", o.Agent, "action", o.Action, "why", o.Skipped)
		default:
			l.Logger.Info("action", "cycle", c.ID, "agent", o.Agent, "action", o.Action, "took", o.Duration)
		}
	}
	if c.Error != "" {
		l.Logger.Error("cycle held", "cycle", c.ID, "error", c.Error)
		return
	}
	var total int64
	for _, s := range c.Steps {
		total += int64(s.Duration)
	}
	l.Logger.Debug("cycle", "cycle", c.ID, "policy", c.Policy.Name, "paused", c.Paused,
		"pool", strings.Join(c.Plan.PoolsInUse(), ","), "usdPerHour", c.Plan.Nodes.HourlyCost, "utility", c.Plan.Utility.Total,
		"actions", len(c.Outcomes), "tookNanos", total)
}
