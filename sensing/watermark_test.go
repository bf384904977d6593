package sensing

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mash2-io/mash2/api"
)

func TestObserveWaitsForOurWrites(t *testing.T) {
	web := api.Key{Namespace: ns, Name: "web"}
	tests := map[string]struct {
		kind    string
		key     api.Key
		version string // that we wrote; the cache has 7
		wantErr error
	}{
		"the cache has it":                  {kindDeployment, web, "7", nil},
		"the cache has a later one":         {kindDeployment, web, "6", nil},
		"later as numbers, not as text":     {kindDeployment, web, "10", ErrCacheBehind},
		"the cache has an earlier one":      {kindDeployment, web, "8", ErrCacheBehind},
		"a version that is no number":       {kindDeployment, web, "x8", ErrCacheBehind},
		"the object is gone":                {kindDeployment, api.Key{Namespace: ns, Name: "gone"}, "8", nil},
		"a node, without namespace":         {kindNode, api.Key{Name: "node-1"}, "8", ErrCacheBehind},
		"a kind that is not watched":        {"Secret", web, "8", nil},
		"a write whose version nobody told": {kindDeployment, web, "", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.CacheWait, c.CachePoll = time.Second, time.Second })
			d, n := deployment("web", 1, "100m"), node("node-1", "e2")
			d.ResourceVersion, n.ResourceVersion = "7", "7"
			w.put(d, n)
			w.NoteWrite(tt.kind, tt.key, tt.version)
			_, err := observeStepping(w)
			if !errors.Is(err, tt.wantErr) {
				t.Fatalf("error = %v, want %v", err, tt.wantErr)
			}
			if tt.wantErr == nil {
				return
			}
			d.ResourceVersion, n.ResourceVersion = "12", "12"
			w.put(d, n)
			if _, err := observeStepping(w); err != nil {
				t.Errorf("once the cache has it: %v", err)
			}
		})
	}
	t.Run("an older answer that comes late doesn't count", func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.CacheWait, c.CachePoll = time.Second, time.Second })
		d := deployment("web", 1, "100m")
		d.ResourceVersion = "7"
		w.put(d)
		w.NoteWrite(kindDeployment, web, "9")
		w.NoteWrite(kindDeployment, web, "8")
		d.ResourceVersion = "8"
		w.put(d)
		if _, err := observeStepping(w); !errors.Is(err, ErrCacheBehind) {
			t.Errorf("error = %v, want %v", err, ErrCacheBehind)
		}
	})
	t.Run("the end of the context ends the wait", func(t *testing.T) {
		w := newWorld(t, nil)
		w.put(deployment("web", 1, "100m"))
		w.NoteWrite(kindDeployment, web, "9")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := w.Observe(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want %v", err, context.Canceled)
		}
	})
}

// observeStepping lets the clock go on whenever Observe waits for it.
func observeStepping(w *world) (api.Snapshot, error) {
	type result struct {
		s   api.Snapshot
		err error
	}
	done := make(chan result, 1)
	go func() {
		s, err := w.Observe(context.Background())
		done <- result{s, err}
	}()
	for {
		select {
		case r := <-done:
			return r.s, r.err
		default:
			stepIfWaiting(w.clock)
		}
	}
}

func stepIfWaiting(c *clocktesting.FakeClock) {
	if c.HasWaiters() {
		c.Step(time.Second)
		return
	}
	time.Sleep(time.Millisecond) // until it waits or is done
}
