package sensing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/mash2-io/mash2/api"
)

// ErrCacheBehind is returned by Observe when the caches don't contain our own
// last writes in time. The cycle then holds: a picture without them would make
// it do the same things again.
var ErrCacheBehind = errors.New("the caches do not contain the last writes yet")

// watermark remembers which versions our own writes made, until the caches
// have them.
type watermark struct {
	mu     sync.Mutex
	writes map[written]string // → resource version
}

type written struct {
	kind string
	key  api.Key
}

func (w *watermark) note(kind string, key api.Key, resourceVersion string) {
	if resourceVersion == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writes == nil {
		w.writes = map[written]string{}
	}
	at := written{kind, key}
	if known, ok := w.writes[at]; ok && newEnough(known, resourceVersion) {
		return // an answer that came late
	}
	w.writes[at] = resourceVersion
}

// newEnough tells whether the version had includes want. Versions are compared
// as numbers, which Kubernetes allows for one resource; those that aren't
// numbers only tell equal from different.
func newEnough(had, want string) bool {
	if had == want {
		return true
	}
	h, errH := strconv.ParseUint(had, 10, 64)
	w, errW := strconv.ParseUint(want, 10, 64)
	return errH == nil && errW == nil && h >= w
}

// settle forgets the writes that the caches contain and returns the others. An
// object that a cache doesn't have is gone: we only write to what it had.
func (w *watermark) settle(c *caches) []written {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, want := range w.writes {
		had, ok := c.resourceVersion(at.kind, at.key)
		if !ok || newEnough(had, want) {
			delete(w.writes, at)
		}
	}
	return slices.Collect(maps.Keys(w.writes))
}

// dropIncomparable forgets writes whose versions aren't numbers: the cache may
// have passed them without our seeing it, and must not be waited for forever.
func (w *watermark) dropIncomparable() {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.writes, func(_ written, version string) bool {
		_, err := strconv.ParseUint(version, 10, 64)
		return err != nil
	})
}

// wait until the caches contain every write, at most for a while.
func (w *watermark) wait(ctx context.Context, c *caches, clk clock.Clock, limit, poll time.Duration) error {
	deadline := clk.Now().Add(limit)
	for {
		missing := w.settle(c)
		if len(missing) == 0 {
			return nil
		}
		if !clk.Now().Before(deadline) {
			w.dropIncomparable()
			names := make([]string, len(missing))
			for i, m := range missing {
				names[i] = m.kind + " " + m.key.String()
			}
			slices.Sort(names)
			return fmt.Errorf("%w: after %v: %s", ErrCacheBehind, limit, strings.Join(names, ", "))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the caches: %w", ctx.Err())
		case <-clk.After(poll):
		}
	}
}

// NoteWrite tells the Observer that we have written an object: the next Observe
// waits until its cache has that version or a later one. Kinds without a cache
// are ignored. The key of a node has no namespace. It may be called at any time.
func (o *Observer) NoteWrite(kind string, key api.Key, resourceVersion string) {
	if _, ok := o.caches.informers[kind]; ok {
		o.watermark.note(kind, key, resourceVersion)
	}
}
