package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/record/knowledge"
)

// Knowledge bounds the knowledge base, which is kept beside the records.
type Knowledge struct {
	// MaxAge of entries, and MaxBytes of all of them; see [knowledge.Store]. Without
	// MaxBytes there is no knowledge base.
	MaxAge   time.Duration
	MaxBytes int64
}

// knowledge is the store beside the records; nil where none is kept. Who reads and who
// writes share one.
func (c Config) knowledge() *knowledge.Store {
	if c.store != nil {
		return c.store
	}
	if c.Records.Dir == "" || c.Knowledge.MaxBytes <= 0 {
		return nil
	}
	s := knowledge.Open(c.Records.Dir)
	s.MaxAge, s.MaxBytes = c.Knowledge.MaxAge, c.Knowledge.MaxBytes
	return s
}

// learn keeps what the loop's records tell, and those of the past, until ctx ends. The
// function returned waits for the last entries to be written.
func (c Config) learn(ctx context.Context, loop *mash2.Loop, self string, past *record.Log) (func(), error) {
	store := c.knowledge()
	if store == nil {
		return func() {}, nil
	}
	began, err := c.began(self, time.Now())
	if err != nil {
		return nil, err
	}
	k := &knowledge.Keeper{Store: store, Next: loop.Recorder, Clock: clock.RealClock{}}
	loop.Recorder = k
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx, past, began...)
	}()
	return func() { stop(); <-done }, nil
}

// began are the entries of a process that begins to lead: its run, and the models it has.
func (c Config) began(self string, at time.Time) ([]knowledge.Entry, error) {
	about := knowledge.About{Kind: "operator", Name: self}
	out := []knowledge.Entry{{
		Kind: knowledge.KindRun, Time: at, About: about, Name: "operator", Text: "begins to lead",
		Params: map[string]string{"version": c.Version, "forecaster": c.Core.Forecaster, "solver": c.Core.Solver},
	}}
	models, err := c.modelEntries(at)
	return append(out, models...), err
}

// modelEntries are those of the models that there are.
func (c Config) modelEntries(at time.Time) ([]knowledge.Entry, error) {
	var out []knowledge.Entry
	model := func(name, use string, data []byte, params map[string]string) {
		sum := sha256.Sum256(data)
		if params == nil {
			params = map[string]string{}
		}
		params["use"], params["sha256"], params["bytes"] = use, hex.EncodeToString(sum[:]), fmt.Sprint(len(data))
		out = append(out, knowledge.Entry{Kind: knowledge.KindModel, Time: at, About: knowledge.About{Kind: "model", Name: name}, Name: name, Params: params})
	}
	asked, err := c.Core.StrategyModels()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Core.QoS)) {
		model(name, "strategies", c.Core.QoS[name], map[string]string{"features": strings.Join(asked[name].Features(), " ")})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Core.Models)) {
		model(name, "replicas", c.Core.Models[name], nil)
	}
	return out, nil
}
