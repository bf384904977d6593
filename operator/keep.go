package operator

import (
	"fmt"

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

// closeLog closes what keep has opened.
func (c Config) closeLog(log *record.Writer) {
	if log == nil {
		return
	}
	if err := log.Close(); err != nil {
		c.Logger.Error("closing the records", "error", err)
	}
}
