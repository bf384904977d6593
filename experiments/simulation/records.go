package simulation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/record"
)

// recording is the log of one simulated run.
type recording struct {
	dir     string // empty: nothing is recorded
	version string // of the program
	writer  *record.Writer
	err     error
}

// begin returns what opens the log, nil where there is none.
func (l *recording) begin() func(core.Config) (mash2.Recorder, error) {
	if l.dir == "" {
		return nil
	}
	return func(c core.Config) (mash2.Recorder, error) {
		if _, err := record.Open(os.DirFS(l.dir)); err == nil {
			return nil, Input(fmt.Errorf("--records: %s holds records already: name another folder", l.dir))
		}
		w, err := c.Records(record.Config{Dir: l.dir, Program: l.version})
		if err != nil {
			return nil, err
		}
		l.writer = w
		return l, nil
	}
}

// Record implements mash2.Recorder. A simulation, other than an operator, fails when it
// can't record.
func (l *recording) Record(r api.Record) []api.Finding {
	for _, f := range l.writer.Record(r) {
		if f.Reason == record.ReasonStopped {
			l.err = errors.New(f.Message)
		}
	}
	return nil
}

func (l *recording) failed() error { return l.err }

func (l *recording) close() {
	if l.writer != nil {
		_ = l.writer.Close() // each record is written
	}
}

// recorded is how many runs are.
func (o Options) recorded() int {
	runs := 0
	for _, s := range o.Scalers {
		if kind, _, err := sim.ParseScaler(s); err == nil && sim.Recorded(kind) {
			runs += o.Seeds * len(o.Fidelities)
		}
	}
	return runs
}

// recordsOf is the folder of one run's records: that of the flag where it is the only
// one that is recorded.
func (o Options) recordsOf(scaler, fidelity string, seed uint64) string {
	if o.Records == "" || o.recorded() == 1 {
		return o.Records
	}
	name := fmt.Sprintf("%s-seed-%d", strings.ReplaceAll(scaler, ":", "-"), seed)
	if len(o.Fidelities) > 1 {
		name += "-" + fidelity
	}
	return filepath.Join(o.Records, name)
}
