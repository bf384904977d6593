package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/record/knowledge"
)

// ModelFiles are learned models by name.
type ModelFiles struct {
	// Learned decide of replicas or of running pods, as rl.Encode writes them; Strategies are
	// asked by users' strategies, as core.Config.QoS has them.
	Learned, Strategies map[string][]byte
}

// Reasons of findings.
const (
	// ReasonModelsRenewed: models have changed, and the changed ones decide from now on.
	ReasonModelsRenewed = "ModelsRenewed"
	// ReasonModelsRefused: they have changed and can't be used, so those of before decide; or they
	// could not be used at the start, and nothing decides in their place.
	ReasonModelsRefused = "ModelsRefused"
)

// modelsEvery is how often models are read again. A kubelet takes about a minute to bring a
// changed ConfigMap to a pod.
const modelsEvery = 30 * time.Second

// renewal reads models again while the operator runs. They are read and checked beside the
// loop, which takes them between two cycles: a cycle is decided by one set of models, and the
// next segment of the records says by which.
type renewal struct {
	config Config // as of the models that decide, or are about to
	fleet  *agents.Fleet

	mu      sync.Mutex
	ready   *renewed // not taken yet
	refused []api.Finding
}

// renewed are models that can be used.
type renewed struct {
	config  Config
	decide  mash2.Decider
	text    json.RawMessage // of the configuration, for records
	changed []string        // names of what differs
}

// renewing has the loop, which is about to begin, renew its models until ctx ends.
func (c Config) renewing(ctx context.Context, loop *mash2.Loop, log *record.Writer, fleet *agents.Fleet) {
	if c.ReadModels == nil {
		return
	}
	r := &renewal{config: c, fleet: fleet}
	loop.Renew = func() []api.Finding { return r.take(loop, log) }
	r.look() // who begins to lead may have read them long ago
	go func() {
		tick := time.NewTicker(modelsEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				r.look()
			}
		}
	}()
}

// look reads models, and prepares those that have changed.
func (r *renewal) look() {
	next, err := r.prepare()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = nil
	if err != nil {
		is := "have changed and can't be used, so those of before go on deciding"
		if r.config.LeftOut != nil {
			is = "can't be used and were left out at the start, so what names them waits"
		}
		r.refused = []api.Finding{{
			Severity: api.Warning, Reason: ReasonModelsRefused, Object: api.ObjectRef{Kind: "models"},
			Message: fmt.Sprintf("models %s: %v", is, err),
		}}
		return
	}
	r.config.LeftOut = nil
	if next != nil {
		if r.ready != nil { // never taken
			next.changed = union(r.ready.changed, next.changed)
		}
		r.config, r.ready = next.config, next
	}
}

// prepare reads models and makes planners of them; nil where none has changed. A file that makes the program
// panic is refused as any other: the process would end of it again after its restart.
func (r *renewal) prepare() (out *renewed, err error) {
	defer func() {
		if value := recover(); value != nil {
			r.config.panicked("reading models", api.Key{}, value, debug.Stack())
			out, err = nil, fmt.Errorf("reading them panicked: %v", value)
		}
	}()
	files, err := r.config.ReadModels()
	if err != nil {
		return nil, err
	}
	changed := union(differing(r.config.Models.Learned, files.Learned), differing(r.config.Models.Strategies, files.Strategies))
	if len(changed) == 0 {
		return nil, nil
	}
	out = &renewed{config: r.config, changed: changed}
	out.config.LeftOut = nil
	out.config.Models, out.config.Core.QoS = files, files.Strategies
	if out.config.Agents, out.config.Core.Models, err = agents.Minds(files.Learned); err != nil {
		return nil, err
	}
	planner, err := out.config.core().Hierarchy()
	if err != nil {
		return nil, err
	}
	planner.Panicked = r.config.panicked
	out.decide.Planner = planner
	if out.decide.Models, err = out.config.Core.StrategyModels(); err != nil {
		return nil, err
	}
	out.text, err = out.config.core().Text()
	return out, err
}

// take gives the loop the models that are ready, and says so.
func (r *renewal) take(loop *mash2.Loop, log *record.Writer) []api.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.ready
	if next == nil {
		return r.refused
	}
	r.ready = nil
	loop.Planner, loop.Models = next.decide.Planner, next.decide.Models
	if log != nil {
		log.Reconfigure(next.text)
	}
	r.fleet.Renew(next.config.Agents, next.changed)
	if store := r.config.knowledge(); store != nil {
		entries, err := next.config.modelEntries(time.Now())
		if err == nil {
			entries = slices.DeleteFunc(entries, func(e knowledge.Entry) bool { return !slices.Contains(next.changed, e.Name) })
			err = store.Add(entries...)
		}
		if err != nil {
			r.config.Logger.Warn("the knowledge base has no note of changed models", "error", err)
		}
	}
	return append([]api.Finding{{
		Severity: api.Normal, Reason: ReasonModelsRenewed, Object: api.ObjectRef{Kind: "models"},
		Message: "changed models decide from now on: " + strings.Join(next.changed, ", "),
	}}, r.refused...)
}

// differing are the names of files that are not the same in both, in order.
func differing(a, b map[string][]byte) []string {
	var out []string
	for name, data := range a {
		if other, ok := b[name]; !ok || !bytes.Equal(data, other) {
			out = append(out, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// union is all of both, in order, once each.
func union(a, b []string) []string {
	all := map[string]bool{}
	for _, name := range append(slices.Clone(a), b...) {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}
