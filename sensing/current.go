package sensing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/api"
)

// provenKinds are the kinds by which something is done that can't be undone, as
// resources.
var provenKinds = map[string]schema.GroupVersionResource{
	kindPod:    {Version: "v1", Resource: "pods"},
	kindNode:   {Version: "v1", Resource: "nodes"},
	kindBudget: {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
}

const (
	// provenFor is how long a proof that a cache is current lasts: two bookmarks of
	// the API server, which sends one a minute. It is of the machine, not of the
	// world: a world that runs faster has the same bookmarks.
	provenFor = 2 * time.Minute
	// compareAfter is the age of a proof from which a small cache is compared with
	// the API server: a kind of which nothing changes has no events, and not every
	// API server's bookmarks move on then.
	compareAfter = time.Minute
	// maxCompared is the largest cache that is compared. Of more objects some change
	// within a minute.
	maxCompared = 5000
	// failingFor is how long a watch counts as failing after it did: it is tried again
	// after half a minute at the latest, twice that with jitter.
	failingFor = time.Minute
	// probeTimeout bounds the look at one kind.
	probeTimeout = 5 * time.Second
	// maxProbes are kept of a kind.
	maxProbes = 64
)

// currency proves that caches are current: what the API server's version was at a
// time, and that a cache has reached that version since.
type currency struct {
	client metadata.Interface

	mu    sync.Mutex
	kinds map[string]*proof // empty until the caches are started
}

// proof is what is known of one cache.
type proof struct {
	at      time.Time // the cache was current then
	probes  []probe   // of versions it has not reached yet, the oldest first
	failing error     // of the watch, the last one; nil when it has recovered
	failed  time.Time // when it was seen
	stuckAt string    // the cache's version then
}

// probe is the version that the API server had at a time.
type probe struct {
	at      time.Time
	version string
}

func newCurrency(cfg *rest.Config) (*currency, error) {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the metadata client: %w", err)
	}
	return &currency{client: client, kinds: map[string]*proof{}}, nil
}

// begin notes that caches are being filled from now on.
func (c *currency) begin(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for kind := range provenKinds {
		c.kinds[kind] = &proof{at: now}
	}
}

// versions of the caches now.
func (c *currency) versions(caches *caches) map[string]string {
	out := make(map[string]string, len(provenKinds))
	for kind := range provenKinds {
		out[kind] = caches.version(kind)
	}
	return out
}

// observe asks the API server for its versions, compares them with those that the
// caches had before they were looked at and says which caches are not proven current, and why; empty when all of
// them are, and before begin. failures are those of watches since the last call.
func (c *currency) observe(ctx context.Context, now time.Time, caches *caches, versions map[string]string, failures map[string]error) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var group sync.WaitGroup
	for kind, p := range c.kinds {
		group.Go(func() {
			version := versions[kind]
			p.watched(now, version, failures[kind])
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			list, err := c.client.Resource(provenKinds[kind]).List(ctx, metav1.ListOptions{Limit: 1})
			if err == nil {
				p.asked(now, list.ResourceVersion)
			}
			p.reached(version)
			if now.Sub(p.at) > compareAfter && c.equal(ctx, kind, caches) {
				p.at = now
			}
		})
	}
	group.Wait()
	var unproven []string
	for kind, p := range c.kinds {
		if why := p.doubt(now); why != "" {
			unproven = append(unproven, kind+": "+why)
		}
	}
	slices.Sort(unproven)
	return strings.Join(unproven, "; ")
}

// watched notes a failure of the watch, which lasts until the cache has moved on and
// none was seen for a while.
func (p *proof) watched(now time.Time, version string, failure error) {
	switch {
	case failure != nil:
		p.failing, p.failed, p.stuckAt = failure, now, version
	case p.failing != nil && version != p.stuckAt && now.Sub(p.failed) > failingFor:
		p.failing = nil
	}
}

func (p *proof) asked(now time.Time, version string) {
	p.probes = append(p.probes, probe{now, version})
	if extra := len(p.probes) - maxProbes; extra > 0 {
		p.probes = slices.Delete(p.probes, 0, extra)
	}
}

// reached takes the newest probe that a cache's version includes as a proof.
func (p *proof) reached(version string) {
	for i := len(p.probes) - 1; i >= 0; i-- {
		if version != "" && newEnough(version, p.probes[i].version) {
			p.at = p.probes[i].at
			p.probes = slices.Delete(p.probes, 0, i+1)
			return
		}
	}
}

// doubt says why a cache is not proven current; empty if it is.
func (p *proof) doubt(now time.Time) string {
	if p.failing != nil {
		return fmt.Sprintf("the watch fails: %v", p.failing)
	}
	if age := now.Sub(p.at); age > provenFor {
		return fmt.Sprintf("not proven current for %v", age.Round(time.Second))
	}
	return ""
}

// equal reports whether a small cache has what the API server has, to the version.
func (c *currency) equal(ctx context.Context, kind string, caches *caches) bool {
	if len(caches.informers[kind].GetStore().ListKeys()) > maxCompared {
		return false
	}
	o := metav1.ListOptions{}
	if kind == kindPod {
		activePods(&o)
	}
	list, err := c.client.Resource(provenKinds[kind]).List(ctx, o)
	if err != nil {
		return false
	}
	listed := make(map[api.Key]bool, len(list.Items))
	for i := range list.Items {
		m := &list.Items[i]
		key := api.Key{Namespace: m.Namespace, Name: m.Name}
		listed[key] = true
		had, ok := caches.resourceVersion(kind, key)
		if !ok || !newEnough(had, m.ResourceVersion) {
			return false
		}
	}
	for _, name := range caches.informers[kind].GetStore().ListKeys() {
		key := api.Key{Name: name}
		if namespace, rest, ok := strings.Cut(name, "/"); ok {
			key = api.Key{Namespace: namespace, Name: rest}
		}
		if listed[key] {
			continue
		}
		// It is gone, unless it came after the list.
		if had, ok := caches.resourceVersion(kind, key); ok && (had == list.ResourceVersion || !newEnough(had, list.ResourceVersion)) {
			return false
		}
	}
	return true
}
