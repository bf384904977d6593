package serve

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// write of an object's status.
type write struct {
	key   string
	of    client.Object
	patch client.Patch
}

// writing is what statuses are written with, and in which time: Status says what its fields mean.
type writing struct {
	client client.Client
	logger *slog.Logger
	period time.Duration
	now    func() time.Time
}

// most is how long a cycle may write that has begun so long ago.
func (w writing) most(ago time.Duration) time.Duration {
	return min(max(w.period-ago, w.period/8), w.period/2)
}

// turns write statuses that one cycle has no time for in the next one.
type turns struct {
	// last is whose status was begun last, if others were left.
	last string
}

// put writes for as long as a cycle that began then may, several at once, from where the
// cycle before had to end. What has begun has a quarter of the period at least, and is given
// up after that: it is due again when its turn comes.
func (t *turns) put(ctx context.Context, w writing, began time.Time, all []write) {
	const parallel = 16
	now := w.now
	if now == nil {
		now = time.Now
	}
	slices.SortFunc(all, func(a, b write) int { return strings.Compare(a.key, b.key) })
	first, _ := slices.BinarySearchFunc(all, t.last+"\x00", func(x write, after string) int { return strings.Compare(x.key, after) })
	all, t.last = slices.Concat(all[first:], all[:first]), ""
	begin := now()
	most := w.most(begin.Sub(began))
	if w.period > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(most, w.period/4))
		defer cancel()
	}
	var late atomic.Int64
	var group sync.WaitGroup
	room := make(chan struct{}, parallel)
	begun := 0
	for i, x := range all {
		room <- struct{}{} // what takes it ends with the context
		if i > 0 && w.period > 0 && (late.Load() > 0 || now().Sub(begin) >= most) {
			t.last = all[i-1].key
			break
		}
		begun++
		group.Go(func() {
			defer func() { <-room }()
			switch err := w.client.Status().Patch(ctx, x.of, x.patch); {
			case err == nil || apierrors.IsNotFound(err):
			case strings.Contains(err.Error(), "context deadline"): // over, or nearer than the client's own limit of requests
				late.Add(1)
			default:
				w.logger.Error("writing status", "of", x.key, "error", err)
			}
		})
	}
	group.Wait()
	if n := int(late.Load()); n > 0 || begun < len(all) {
		w.logger.Info("the API server is slow: statuses are left for the next cycle", "written", begun-n, "left", len(all)-begun+n)
	}
}
