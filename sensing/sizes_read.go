package sensing

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

const (
	// sizesAtOnce is how many workloads' usage by container is asked for at the same time:
	// it is hours old when it matters, and never waited for.
	sizesAtOnce = 2
	// sizesRead is how much of the history is asked for at once.
	sizesRead = 24 * time.Hour
	// sizesGap is how many steps may be missing in a row without being a gap.
	sizesGap = 2
	// sizesKept is the number of parts that the history is kept in, the largest of each.
	sizesKept = 96
	// tailOf is how likely a day is whose largest working set exceeds what sizes are told.
	tailOf = 1e-5
	// mostMemory is what no container has, bytes: the largest machines have half of it.
	mostMemory = 1 << 46
	// residentMetric is cAdvisor's of memory that is not kept from files, bytes.
	residentMetric = "container_memory_rss"
	// labelSizing tells memory and CPU apart in the one answer that has both.
	labelSizing = "mash2_sizing"
)

// sizeReadings reads what containers use, where their sizes are to be chosen: one range
// query for each workload in every SizingStep, in the background.
type sizeReadings struct {
	prom   *prometheus
	cfg    Config
	places chan struct{}
	known  map[targetID]*sizeState
}

// sizeState is what is known of a workload's containers.
type sizeState struct {
	mu         sync.Mutex // guards what is below: questions outlive cycles
	busy       bool
	next       int64 // step to be asked for next; 0 before the first answer
	steps      int64 // to ask for at once; fewer once that was too much for Prometheus
	again      time.Time
	containers map[string]*containerHistory
}

// containerHistory is the usage of one container by parts of the history.
type containerHistory struct {
	since, until int64 // steps: known without a gap
	live         int64 // the newest step in which metrics.k8s.io was read, 0 for none
	parts        [sizesKept]containerPart
}

// containerPart is the most of a part of the history, and the sum of n means of CPU.
type containerPart struct {
	of                    int64 // number of the part, 0 for none
	memory, resident, cpu float64
	mean                  float64
	n                     int32
}

func newSizeReadings(cfg Config, prom *prometheus) *sizeReadings {
	return &sizeReadings{prom: prom.coarse(cfg.SizingStep), cfg: cfg, places: make(chan struct{}, sizesAtOnce), known: map[targetID]*sizeState{}}
}

// read asks for what is new of every workload whose sizes are to be chosen. Nobody waits.
func (s *sizeReadings) read(life context.Context, now time.Time, v *view) {
	for id := range s.known {
		if r := v.first(id); r == nil || r.sizing == nil {
			delete(s.known, id)
		}
	}
	newest := s.grid().At(now.Add(-s.cfg.EvaluationDelay))
	for id, m := range v.managed {
		r := m.first
		if r.sizing == nil || r.workload.Mode == api.ModeOff || v.targets[id] == nil {
			continue
		}
		state := s.known[id]
		if state == nil {
			state = &sizeState{steps: int64(max(1, sizesRead/s.cfg.SizingStep)), containers: map[string]*containerHistory{}}
			s.known[id] = state
		}
		state.mu.Lock()
		due := !state.busy && newest >= state.next && !now.Before(state.again)
		if due {
			select {
			case s.places <- struct{}{}:
				state.busy = true
			default:
				due = false // others come first; this one's turn is in a later cycle
			}
		}
		from := max(state.next, newest-int64(s.cfg.SizingHistory/s.cfg.SizingStep)+1)
		to := min(newest, from+state.steps-1)
		state.mu.Unlock()
		if !due {
			continue
		}
		go func() {
			defer func() { <-s.places }()
			err := s.cfg.guarded("the usage of containers", api.Key{Namespace: id.namespace, Name: id.name}, func() error {
				got, err := s.prom.queryRange(life, s.query(id), from, to, s.cfg.BackfillTimeout)
				if err != nil {
					return err
				}
				state.mu.Lock()
				defer state.mu.Unlock()
				s.fold(state, got, from, to)
				return nil
			})
			state.mu.Lock()
			defer state.mu.Unlock()
			state.busy = false
			if err != nil {
				if classify(err) == tooMuch {
					state.steps = max(1, state.steps/2)
				}
				state.again = now.Add(s.cfg.SizingStep / 2)
				return
			}
			state.next = to + 1
		}()
	}
}

func (s *sizeReadings) grid() demand.Grid { return demand.Grid{Step: s.cfg.SizingStep} }

// perPart is how many steps a part of the history has.
func (s *sizeReadings) perPart() int64 {
	return int64(s.cfg.SizingHistory/s.cfg.SizingStep)/sizesKept + 1
}

// query is the most of any replica's memory, with files and without, and CPU, and the mean CPU
// of all, by container. Replicas of the past are told by their names.
func (s *sizeReadings) query(id targetID) string {
	pods := strings.Replace(podOfDeployment, "(.+)", regexp.QuoteMeta(id.name), 1)
	if id.kind == kindStatefulSet {
		pods = strings.Replace(podOfStatefulSet, "(.+)", regexp.QuoteMeta(id.name), 1)
	}
	matchers := []string{`container!=""`, `container!="POD"`, fmt.Sprintf("namespace=%q", id.namespace), fmt.Sprintf("pod=~%q", pods)}
	if s.cfg.Matchers != "" {
		matchers = append(matchers, s.cfg.Matchers)
	}
	of := "{" + strings.Join(matchers, ",") + "}"
	memory, resident := s.cfg.MemoryMetric+of, residentMetric+of
	cpu := s.cfg.CPUMetric + "{" + strings.Join(append(matchers, `cpu=~"total|"`), ",") + "}"
	step, window := model.Duration(s.cfg.SizingStep), model.Duration(s.cfg.RateWindow)
	as := func(name, q string) string {
		return fmt.Sprintf("label_replace(%s, %q, %q, %q, %q)", q, labelSizing, name, "", "")
	}
	return as("memory", fmt.Sprintf("max by (container) (max_over_time(%s[%s]))", memory, step)) +
		" or " + as("resident", fmt.Sprintf("max by (container) (max_over_time(%s[%s]))", resident, step)) +
		" or " + as("cpu", fmt.Sprintf("max by (container) (max_over_time(rate(%s[%s])[%s:%s]))", cpu, window, step, window)) +
		" or " + as("mean", fmt.Sprintf("avg by (container) (rate(%s[%s]))", cpu, step))
}

// fold adds an answer.
func (s *sizeReadings) fold(state *sizeState, got answer, from, to int64) {
	perPart := s.perPart()
	for _, series := range got.series {
		name := shared(string(series.Metric["container"]))
		c := state.containers[name]
		if c == nil {
			c = &containerHistory{}
			state.containers[name] = c
		}
		what := string(series.Metric[labelSizing])
		s.prom.samples(series.Values, from, to, func(step int64, v float64) {
			if !(v >= 0) || math.IsInf(v, 0) || (what == "memory" || what == "resident") && v > mostMemory {
				return
			}
			p := c.part(step / perPart)
			switch what {
			case "memory":
				p.memory = math.Max(p.memory, v)
				if step > c.until+sizesGap {
					c.since = step
				}
				if step > c.until {
					c.until = step
				}
			case "resident":
				p.resident = math.Max(p.resident, v)
			case "cpu":
				p.cpu = math.Max(p.cpu, v)
			default:
				p.mean, p.n = p.mean+v, p.n+1
			}
		})
	}
}

// part is the i-th of all parts.
func (c *containerHistory) part(i int64) *containerPart {
	p := &c.parts[(i+1)%sizesKept]
	if p.of != i+1 {
		*p = containerPart{of: i + 1}
	}
	return p
}

// look adds what metrics.k8s.io says of the memory of a target's containers now: what
// Prometheus says of them is minutes old, and a request must not be lowered below what was
// taken since.
func (s *sizeReadings) look(id targetID, readings []podUsage) {
	state := s.known[id]
	if state == nil {
		return
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	perPart := s.perPart()
	for _, m := range readings {
		step := s.grid().At(m.at)
		for _, u := range m.containers {
			c := state.containers[u.name]
			if c == nil || c.until == 0 || step <= c.until-int64(s.cfg.SizingHistory/s.cfg.SizingStep) || !(u.memory >= 0) || u.memory > mostMemory {
				continue
			}
			c.live = max(c.live, step)
			p := c.part(step / perPart)
			p.memory = math.Max(p.memory, u.memory)
		}
	}
}

// fill writes down what is known of the containers of a target.
func (s *sizeReadings) fill(id targetID, containers []api.ContainerUse) {
	state := s.known[id]
	if state == nil {
		return
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	perPart := s.perPart()
	for i := range containers {
		u := &containers[i]
		c := state.containers[u.Name]
		if c == nil || c.until == 0 {
			continue
		}
		// The first step of a stretch is what was used in the step before it.
		u.Since, u.Until = s.grid().Time(c.since-1), s.grid().Time(c.until)
		var mean float64
		n := int32(0)
		maxima := make([]float64, 0, sizesKept)
		newest := max(c.until, c.live)/perPart + 1
		for number := max(1, newest-sizesKept+1); number <= newest; number++ {
			p := c.parts[number%sizesKept]
			if p.of != number {
				continue
			}
			u.MemoryPeak = max(u.MemoryPeak, int64(math.Ceil(p.memory)))
			u.MemoryResident = max(u.MemoryResident, int64(math.Ceil(p.resident)))
			u.CPUPeak = max(u.CPUPeak, int64(math.Ceil(1000*p.cpu)))
			mean, n = mean+p.mean, n+p.n
			if p.memory > 0 {
				maxima = append(maxima, p.memory)
			}
		}
		if n > 0 {
			u.CPUMean = int64(math.Ceil(1000 * mean / float64(n)))
		}
		part := time.Duration(perPart) * s.cfg.SizingStep
		day := int(s.cfg.SizingHistory/8/part) + 1
		u.MemoryTail, u.MemoryKnown = int64(math.Ceil(demand.ReturnLevel(maxima, day, tailOf))), time.Duration(len(maxima))*part
	}
}
