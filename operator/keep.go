package operator

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/record"
)

// keep opens the log of records and the checkpoints, those that are asked for, and gives
// them to the loop: only who leads writes. The log is nil where none is kept.
func (c Config) keep(loop *mash2.Loop) (*record.Writer, error) {
	var places newest
	if c.StateDir != "" {
		checkpoints, err := record.NewCheckpoints[planning.Memory](c.StateDir, c.Version)
		if err != nil {
			return nil, fmt.Errorf("--state-dir: %w", err)
		}
		places = append(places, checkpoints)
	}
	if c.StateConfigMap != "" {
		client, err := kubernetes.NewForConfig(c.REST)
		if err != nil {
			return nil, err
		}
		maps, err := newStateMaps(client, c.Policy.Namespace, c.StateConfigMap, c.Version)
		if err != nil {
			return nil, fmt.Errorf("--state-configmap: %w", err)
		}
		places = append(places, maps)
	}
	if len(places) > 0 {
		loop.Checkpoints = places
	}
	if c.Records.Dir == "" {
		return nil, nil
	}
	r := c.Records
	r.Program = c.Version
	log, err := c.core().Records(r)
	if err != nil {
		return nil, fmt.Errorf("--records: %w", err)
	}
	loop.Recorder = log
	return log, nil
}

// past are the records of before; nil where there are none. What can't be read is logged.
func (c Config) past() *record.Log {
	if c.Records.Dir == "" {
		return nil
	}
	l, err := record.Open(os.DirFS(c.Records.Dir))
	switch {
	case errors.Is(err, record.ErrNone):
		return nil
	case err != nil:
		c.Logger.Warn("beginning without the records of before", "error", err)
		return nil
	}
	for _, s := range l.Skipped {
		c.Logger.Warn("beginning without some of the records of before", "segment", s.Name, "error", s.Err)
	}
	return l
}

// closeLog closes what keep has opened.
func (c Config) closeLog(log *record.Writer) {
	if log == nil {
		return
	}
	if err := log.Close(); err != nil {
		c.Logger.Error("closing the records", "error", err)
	}
}
