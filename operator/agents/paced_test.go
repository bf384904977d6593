package agents

import (
	"context"
	"errors"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/vertical"
)

// asked is a cluster that counts what it is asked for, and renews its readings every so often.
type asked struct {
	clock            *testclock.FakeClock
	every            time.Duration
	lists, reads     int
	listErr, readErr error
	joined           []Pod
}

func (a *asked) Observe(context.Context) ([]Pod, []Refused, error) {
	a.lists++
	return a.joined, nil, a.listErr
}

func (a *asked) Read(context.Context, []Pod) (map[string]Usage, error) {
	a.reads++
	return map[string]Usage{"uid": {At: a.clock.Now().Truncate(a.every)}}, a.readErr
}

func (a *asked) Apply(context.Context, api.Action) error { return nil }

func newAsked(every time.Duration) (*asked, *paced) {
	a := &asked{clock: testclock.NewFakeClock(start.Add(4 * time.Second)), every: every, joined: []Pod{{Pod: vertical.Pod{ID: "uid"}}}}
	return a, &paced{observer: a, meter: a, actuator: a, clock: a.clock}
}

// Readings are there as soon as whose who asks each second has them, for a fraction of the
// questions, whatever they are renewed at.
func TestReadingsAreAskedForWhenTheyMayBeNew(t *testing.T) {
	for every, most := range map[time.Duration]int{15 * time.Second: 150, 30 * time.Second: 120, 60 * time.Second: 150, time.Second: 600, 2 * time.Second: 600} {
		a, p := newAsked(every)
		for second := range 600 {
			got, err := p.Read(t.Context(), nil)
			if want := a.clock.Now().Truncate(every); err != nil || !got["uid"].At.Equal(want) {
				t.Fatalf("renewed every %v: at second %d the reading is of %v, there is one of %v (%v)", every, second, got["uid"].At, want, err)
			}
			a.clock.Step(time.Second)
		}
		if a.reads > most {
			t.Errorf("renewed every %v: asked for %d times in 600 s", every, a.reads)
		}
	}
	// Where they come more often than before, that is seen within a few of them.
	a, p := newAsked(15 * time.Second)
	look := func(seconds int) (age time.Duration) {
		for range seconds {
			a.clock.Step(time.Second)
			got, _ := p.Read(t.Context(), nil)
			age = a.clock.Since(got["uid"].At)
		}
		return age
	}
	look(120)
	a.every = time.Second
	look(60)
	if first, second := look(1), look(1); max(first, second) > early {
		t.Error("readings that are renewed each second since a minute are asked for as before")
	}
}

// An error is told and asked again at once.
func TestReadingsThatFail(t *testing.T) {
	a, p := newAsked(15 * time.Second)
	for range 60 {
		_, _ = p.Read(t.Context(), nil)
		a.clock.Step(time.Second)
	}
	a.readErr = errors.New("no")
	for range 20 {
		a.clock.Step(time.Second)
		_, _ = p.Read(t.Context(), nil)
	}
	before := a.reads
	if _, err := p.Read(t.Context(), nil); err == nil || a.reads != before+1 {
		t.Errorf("%v after %d more", err, a.reads-before)
	}
	a.readErr = nil
	if got, err := p.Read(t.Context(), nil); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// Pods are listed every few seconds, and at once after a write and after an error.
func TestPodsAreListedAnewAfterAWrite(t *testing.T) {
	a, p := newAsked(time.Minute)
	look := func() {
		t.Helper()
		if pods, _, err := p.Observe(t.Context()); err != nil || len(pods) != len(a.joined) {
			t.Errorf("%d pods, %v", len(pods), err)
		}
	}
	for range 50 {
		look()
		a.clock.Step(time.Second)
	}
	if a.lists != 10 {
		t.Errorf("listed %d times in 50 s", a.lists)
	}
	look()
	a.joined = append(a.joined, Pod{Pod: vertical.Pod{ID: "another"}})
	if err := p.Apply(t.Context(), api.ResizePod{}); err != nil {
		t.Fatal(err)
	}
	look()
	a.listErr = errors.New("no")
	a.clock.Step(podsFor)
	for range 2 {
		if _, _, err := p.Observe(t.Context()); err == nil {
			t.Error("an error that isn't told")
		}
	}
	a.listErr = nil
	before := a.lists
	look()
	if a.lists != before+1 {
		t.Error("after an error they are not listed at once")
	}
	// A resize that has not come about is looked after.
	a.clock.Step(podsFor)
	a.joined[0].Limit, a.joined[0].Held = 200, 100
	before = a.lists
	look()
	look()
	a.joined[0].Held = 200
	look()
	look()
	if a.lists != before+3 {
		t.Errorf("listed %d times until the resize had come about, and then once more", a.lists-before)
	}
	// Whose list it is may write into it.
	pods, _, _ := p.Observe(t.Context())
	pods[0].Usage = 7
	if again, _, _ := p.Observe(t.Context()); again[0].Usage != 0 {
		t.Error("what a tick writes is in the list of the next")
	}
}
