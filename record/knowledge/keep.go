package knowledge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
)

const (
	// between two writings of the file.
	between = 30 * time.Second
	// mostPast is how much of the records is read at a start: what a process did not write
	// before it died is half a minute's.
	mostPast = 2 * time.Hour
	// mostWaiting entries are kept while the file can't be written; the oldest go.
	mostWaiting = 20_000
)

// ReasonNotKept is of a knowledge base that can't be written.
const ReasonNotKept = "KnowledgeNotKept"

// Recorder keeps records.
type Recorder interface {
	Record(r api.Record) []api.Finding
}

// Keeper adds what records tell to a store, on their way to a Recorder. Nothing is written
// in a cycle's time: [Keeper.Run] does.
type Keeper struct {
	Store *Store
	Next  Recorder // nil for none
	Clock clock.Clock

	mu      sync.Mutex
	gather  Gatherer
	waiting []Entry
	lost    int
	failed  error
}

// Record implements mash2.Recorder.
func (k *Keeper) Record(r api.Record) []api.Finding {
	var notes []api.Finding
	if k.Next != nil {
		notes = k.Next.Record(r)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.add(k.gather.Next(r))
	if k.failed != nil {
		text := fmt.Sprintf("the knowledge base can't be written; mash2 goes on without: %v", k.failed)
		if k.lost > 0 {
			text = fmt.Sprintf("%s; %d entries are lost", text, k.lost)
		}
		notes = append(notes, api.Finding{Severity: api.Warning, Agent: api.StrategicAgent, Reason: ReasonNotKept, Object: api.CycleRef, Message: text})
	}
	return notes
}

func (k *Keeper) add(entries []Entry) {
	k.waiting = append(k.waiting, entries...)
	if n := len(k.waiting) - mostWaiting; n > 0 {
		k.waiting = append([]Entry{}, k.waiting[n:]...)
		k.lost += n
	}
}

// Run writes what waits until ctx ends, and then once more. Past, which may be nil, are
// records of which the store may not have all: of a process that ended before it wrote.
func (k *Keeper) Run(ctx context.Context, past *record.Log, began ...Entry) {
	k.mu.Lock()
	k.add(began)
	k.mu.Unlock()
	if err := k.catchUp(past); err != nil {
		k.fail(err)
	}
	for {
		select {
		case <-ctx.Done():
			k.write()
			return
		case <-k.Clock.After(between):
			k.write()
		}
	}
}

// catchUp adds what records tell since the newest entry.
func (k *Keeper) catchUp(past *record.Log) error {
	if past == nil {
		return k.Store.Claim()
	}
	from, err := k.Store.Newest()
	if err == nil {
		err = k.Store.Claim()
	}
	if err != nil {
		return err
	}
	// All of them would take minutes at a start.
	if most := k.Clock.Now().Add(-mostPast); from.Before(most) {
		from = most
	}
	// What comes before a part that can't be read is known all the same.
	entries, unread := Of(past, from)
	for len(entries) > 0 && err == nil {
		n := min(len(entries), 1000)
		err = k.Store.Add(entries[:n]...)
		entries = entries[n:]
	}
	return errors.Join(err, unread)
}

func (k *Keeper) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = err
}

func (k *Keeper) write() {
	k.mu.Lock()
	entries := k.waiting
	k.waiting = nil
	k.mu.Unlock()
	if len(entries) == 0 {
		return
	}
	err := k.Store.Add(entries...)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed = err; err != nil {
		later := k.waiting
		k.waiting = entries
		k.add(later)
		return
	}
	k.lost = 0
}
