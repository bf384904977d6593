package agents

import (
	"fmt"
	"maps"
	"time"

	"github.com/mash2-io/mash2/planning/vertical"
	"github.com/mash2-io/mash2/planning/vertical/rehearsal"
)

// trial is how a learned mind comes to act. Readings are recorded while the rule decides; when
// the mind is better in a simulation of them, both act in turn; when it is better then, it
// acts, and is compared on. One that is demoted begins anew.
type trial struct {
	online    *vertical.Trial
	config    rehearsal.Config
	recording rehearsal.Recording
	result    *rehearsal.Result       // of the last rehearsal; nil before it
	passed    bool                    // it
	acts      bool                    // the learned mind, until readings are renewed
	read      map[string]time.Time    // reading of each pod
	fresh     map[string]vertical.Pod // as they were when a newer reading came than the one that counted last
	seed      uint64
}

func newTrial(seed uint64) *trial {
	return &trial{
		online: vertical.NewTrial(vertical.DefaultTrial(), seed), config: rehearsal.DefaultConfig(), seed: seed,
		fresh: map[string]vertical.Pod{},
	}
}

// learned reports whether the learned mind acts in this tick, of which there is one every so
// often.
func (t *trial) learned(in vertical.Input, every time.Duration) bool {
	if !t.passed {
		t.recording.Add(in, every)
		return false
	}
	pods := t.renewed(in.Pods)
	if len(pods) == 0 {
		return t.acts
	}
	before := t.online.Demoted()
	t.acts = t.online.Learned(vertical.Cost(pods))
	if t.online.Demoted() != before {
		t.passed, t.result, t.acts = false, nil, false
	}
	return t.acts
}

// renewed are the pods whose readings are newer than those that counted last, with the limits
// that they had then; none until these are half of all that have a reading. metrics.k8s.io
// renews readings once in 10 to 60 ticks. Until then nobody decides anew, and an old reading
// beside a new limit is nobody's cost.
func (t *trial) renewed(pods []vertical.Pod) []vertical.Pod {
	var out []vertical.Pod
	count, read := 0, make(map[string]time.Time, len(pods))
	for i := range pods {
		p := &pods[i]
		read[p.ID] = t.read[p.ID]
		if p.At.IsZero() {
			continue
		}
		count++
		if p.At.After(read[p.ID]) {
			read[p.ID], t.fresh[p.ID] = p.At, *p
		}
		if f, ok := t.fresh[p.ID]; ok {
			out = append(out, f)
		}
	}
	if t.read = read; 2*len(out) < count {
		return nil
	}
	clear(t.fresh)
	return out
}

// text of where it is.
func (t *trial) text() string {
	switch {
	case t.recording.Full():
		return "there are too many pods to record them for a simulation (660 at one decision a second); the rule decides"
	case t.online.Trusted():
		return "it was better than the rule in simulation and here; it acts, and one block in five is the rule's"
	case t.passed:
		return t.result.String() + "; now both act here in turn"
	case t.result != nil:
		return t.result.String() + fmt.Sprintf("; the rule decides, and the simulation is made again every %.0f minutes", t.config.Duration.Minutes())
	}
	return fmt.Sprintf("%.0f minutes of readings are recorded, for a simulation of these pods to try it in; the rule decides", t.config.Duration.Minutes())
}

// rehearse the learned mind when enough has been recorded. It belongs to the goroutine of Run,
// as minds do.
func (l *Loop) rehearse() {
	l.mu.Lock()
	t, config := l.trial, l.config
	if t == nil || t.passed || !t.recording.Enough(t.config) {
		l.mu.Unlock()
		return
	}
	recording := t.recording
	t.recording = rehearsal.Recording{}
	t.seed++
	mind := l.minds
	mind.of = maps.Clone(mind.of)
	l.mu.Unlock()
	// A part of a second: nobody who asks for the state waits for it.
	result := rehearsal.Of(t.config, config, &recording, &mind, vertical.DefaultRule(), t.seed)
	l.mu.Lock()
	defer l.mu.Unlock()
	t.result, t.passed = &result, result.Passed
}
