package sensing

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/sensing/promql"
)

// maxSignalText is how much of a ConfigMap's key a signal compares, bytes.
const maxSignalText = 256

// signals reads what the policies' signals are. They are asked for beside the cycle, with
// the places and the waiting of triggers.
type signals struct {
	cfg        Config
	readings   *readings
	configMaps corev1client.ConfigMapsGetter
	known      map[signalID]*signalState
}

// signalID tells signals apart; another source is another signal.
type signalID struct{ name, source string }

// signalState is what is known of a signal.
type signalState struct {
	triggerState
	reading api.SignalReading // guarded by mu, as what is embedded
	query   string
	refused error
}

func newSignals(cfg Config, readings *readings) (*signals, error) {
	client, err := corev1client.NewForConfig(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("making the client of signals: %w", err)
	}
	return &signals{cfg: cfg, readings: readings, configMaps: client, known: map[signalID]*signalState{}}, nil
}

// read asks for the signals that are not being asked for already, and returns what is known
// of all of them, in their order.
func (s *signals) read(ctx, life context.Context, now time.Time) []api.SignalReading {
	if s.cfg.Signals == nil {
		return nil
	}
	list := s.cfg.Signals()
	seen := map[signalID]bool{}
	var asked []chan struct{}
	for _, signal := range list {
		id := signalID{signal.Name, signal.Source()}
		seen[id] = true
		state := s.known[id]
		if state == nil {
			state = &signalState{}
			if signal.Query != "" {
				state.query, state.refused = promql.Bound(signal.Query, s.cfg.Matchers)
			}
			s.known[id] = state
		}
		if done := s.ask(life, now, signal, state); done != nil {
			asked = append(asked, done)
		}
	}
	for id := range s.known {
		if !seen[id] {
			delete(s.known, id)
		}
	}
	if len(asked) > 0 {
		await(ctx, s.cfg.Clock.After(triggerWait), asked)
	}
	out := make([]api.SignalReading, len(list))
	for i, signal := range list {
		out[i] = s.of(now, signal)
	}
	return out
}

// await waits for all that was asked, while there is time.
func await(ctx context.Context, enough <-chan time.Time, asked []chan struct{}) {
	for _, done := range asked {
		select {
		case <-done:
		case <-enough:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ask for a signal; nil where there is nothing to wait for.
func (s *signals) ask(life context.Context, now time.Time, signal api.Signal, state *signalState) chan struct{} {
	state.mu.Lock()
	free := state.refused == nil && !state.busy && !now.Before(state.resume)
	state.busy = state.busy || free
	waitFor := free && !state.slow
	state.mu.Unlock()
	if !free {
		return nil
	}
	t := trigger{kind: v1alpha1.TriggerPrometheus}
	ask := func(ctx context.Context) error { return s.readQuery(ctx, state, now) }
	if signal.Query == "" {
		t.kind = v1alpha1.TriggerObject
		ask = func(ctx context.Context) error { return s.readKey(ctx, state, signal, now) }
	}
	done := make(chan struct{})
	go s.readings.ask(life, &state.triggerState, t, s.cfg.SignalsNamespace, false, ask, done)
	if !waitFor {
		return nil
	}
	return done
}

// of is what is known of a signal now.
func (s *signals) of(now time.Time, signal api.Signal) api.SignalReading {
	state := s.known[signalID{signal.Name, signal.Source()}]
	state.mu.Lock()
	defer state.mu.Unlock()
	r := state.reading
	r.Name, r.Source = signal.Name, signal.Source()
	switch {
	case state.refused != nil:
		r.Missing = "prometheus.query: " + state.refused.Error()
	case state.err != nil && (r.At.IsZero() || now.Sub(r.At) > s.cfg.StaleAfter+s.cfg.EvaluationDelay):
		r.Missing = state.err.Error()
	case r.At.IsZero():
		r.Missing = "it was not read yet"
	case now.Sub(r.At) > s.cfg.StaleAfter+s.cfg.EvaluationDelay:
		r.Missing = "there is no recent value"
	}
	return r
}

func (s *signals) readQuery(ctx context.Context, state *signalState, now time.Time) error {
	at := now.Add(-s.cfg.EvaluationDelay)
	value, err := s.readings.prom.one(ctx, state.query, at)
	if err != nil {
		return err
	}
	state.set(api.SignalReading{Value: value, At: at})
	return nil
}

func (s *signals) readKey(ctx context.Context, state *signalState, signal api.Signal, now time.Time) error {
	cm, err := s.configMaps.ConfigMaps(s.cfg.SignalsNamespace).Get(ctx, api.SignalsConfigMap, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", s.cfg.SignalsNamespace, api.SignalsConfigMap, err)
	}
	text, ok := cm.Data[signal.Key]
	if !ok {
		return fmt.Errorf("ConfigMap %s/%s has no key %q", s.cfg.SignalsNamespace, api.SignalsConfigMap, signal.Key)
	}
	if len(text) > maxSignalText {
		return fmt.Errorf("ConfigMap %s/%s: key %q is longer than %d bytes", s.cfg.SignalsNamespace, api.SignalsConfigMap, signal.Key, maxSignalText)
	}
	r := api.SignalReading{At: now}
	if r.Text = strings.TrimSpace(text); signal.Compare != api.CompareEquals {
		value, err := strconv.ParseFloat(r.Text, 64)
		if err != nil {
			return fmt.Errorf("ConfigMap %s/%s: key %q is %q, which is no number", s.cfg.SignalsNamespace, api.SignalsConfigMap, signal.Key, r.Text)
		}
		r.Value, r.Text = value, ""
	}
	state.set(r)
	return nil
}

func (s *signalState) set(r api.SignalReading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = r
}

// one is the one value that a query gives at a time.
func (p *prometheus) one(ctx context.Context, query string, at time.Time) (float64, error) {
	vector, err := p.instant(ctx, query, at)
	switch {
	case err != nil:
		return 0, err
	case len(vector) == 0:
		return 0, errors.New("the query gives no series")
	case len(vector) > 1:
		return 0, fmt.Errorf("the query gives %d series and must give one: sum() combines them", len(vector))
	}
	return float64(vector[0].Value), nil
}
