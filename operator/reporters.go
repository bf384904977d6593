package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mash2-io/mash2/api"
)

// heartbeat is the liveness check: a loop that hangs gets the process
// restarted.
type heartbeat struct {
	limit time.Duration
	last  atomic.Int64 // unix nanoseconds; 0 while not leading
}

// newHeartbeat is for a loop with cycles so far apart.
func newHeartbeat(period time.Duration) *heartbeat {
	return &heartbeat{limit: max(20*period, 5*time.Minute)}
}

func (h *heartbeat) start() { h.last.Store(time.Now().UnixNano()) }

// Report implements mash2.Reporter.
func (h *heartbeat) Report(context.Context, api.Cycle) { h.start() }

func (h *heartbeat) check(*http.Request) error {
	last := h.last.Load()
	if last == 0 {
		return nil // waiting to lead is healthy
	}
	if age := time.Since(time.Unix(0, last)); age > h.limit {
		return fmt.Errorf("the last cycle ended %v ago, more than %v", age.Round(time.Second), h.limit)
	}
	return nil
}

// cycleLog writes every cycle as a line of JSON.
type cycleLog struct {
	enc    *json.Encoder
	logger *slog.Logger
}

func newCycleLog(w io.Writer, logger *slog.Logger) cycleLog {
	return cycleLog{json.NewEncoder(w), logger}
}

// Report implements mash2.Reporter.
func (l cycleLog) Report(_ context.Context, c api.Cycle) {
	if err := l.enc.Encode(c); err != nil {
		l.logger.Error("writing the cycle log", "error", err)
	}
}
