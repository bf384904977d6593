package sensing

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/mash2-io/mash2/api"
)

// TestNewEnough: versions are compared as numbers, and what is none only with its equal.
func TestNewEnough(t *testing.T) {
	for name, c := range map[string]struct {
		had, want string
		is        bool
	}{
		"the same":                         {"7", "7", true},
		"later":                            {"10", "9", true},
		"earlier":                          {"9", "10", false},
		"the same number, written else":    {"07", "7", true},
		"the same, no number":              {"x", "x", true},
		"no number beside 0":               {"x", "0", false},
		"a number beside none":             {"7", "x", false},
		"nothing beside a number":          {"", "0", false},
		"none that is wanted is no number": {"7", "", false},
	} {
		if is := newEnough(c.had, c.want); is != c.is {
			t.Errorf("%s: newEnough(%q, %q) = %v", name, c.had, c.want, is)
		}
	}
}

// TestProof: what a cache's version, the API server's and a watch's failures say of the
// cache, step by step.
func TestProof(t *testing.T) {
	failure := errors.New("too many requests")
	const fails, old = "the watch fails: too many requests", "not proven current for "
	type step struct {
		at      time.Duration
		asked   string // the API server's version; empty: not asked
		version string // the cache's
		failure error
		want    string
	}
	for name, steps := range map[string][]step{
		"what was filled just now is current": {{at: 0}},
		"a proof lasts to its end, and no longer": {
			{at: provenFor},
			{at: provenFor + 1, want: old + "2m0s"},
			{at: 3*time.Minute + 400*time.Millisecond, want: old + "3m0s"},
		},
		"a cache that reaches what the API server had was current then": {
			{at: time.Minute, asked: "9", version: "8"},
			{at: 2 * time.Minute, asked: "12", version: "9"},
			{at: 3 * time.Minute, version: "9"},
			{at: 3*time.Minute + 1, version: "9", want: old + "2m0s"},
			{at: 4 * time.Minute, version: "12"},
			{at: 4*time.Minute + 1, version: "12", want: old + "2m0s"},
		},
		"the newest of several that are reached counts": {
			{at: time.Minute, asked: "9"}, {at: 2 * time.Minute, asked: "10"},
			{at: 4 * time.Minute, version: "11"},
		},
		"what is reached counts once": {
			{at: time.Minute, asked: "9", version: "8"},
			{at: 90 * time.Second, asked: "20", version: "9"},
			{at: 3*time.Minute + 1, version: "9", want: old + "2m0s"},
		},
		"a cache that has followed no watch proves nothing": {
			{at: 90 * time.Second, asked: "", version: ""},
			{at: provenFor + time.Second, version: "", want: old + "2m1s"},
		},
		"a failure lasts while the cache stands still": {
			{at: time.Second, version: "5", failure: failure, want: fails},
			{at: 10 * time.Minute, version: "5", asked: "5", want: fails},
		},
		"and for a minute after it was seen": {
			{at: time.Second, version: "5", failure: failure, want: fails},
			{at: 2 * time.Second, version: "6", asked: "6", want: fails},
			{at: time.Second + failingFor, version: "7", asked: "7", want: fails},
			{at: 2*time.Second + failingFor, version: "7", asked: "7"},
		},
		"each failure begins it anew": {
			{at: time.Second, version: "5", failure: failure, want: fails},
			{at: time.Minute, version: "6", failure: failure, want: fails},
			{at: 90 * time.Second, version: "7", asked: "7", want: fails},
			{at: time.Minute + failingFor + 1, version: "6", asked: "6", want: fails},
			{at: time.Minute + failingFor + 1, version: "7", asked: "7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &proof{at: epoch}
			for i, s := range steps {
				now := epoch.Add(s.at)
				p.watched(now, s.version, s.failure)
				if s.asked != "" {
					p.asked(now, s.asked)
				}
				p.reached(s.version)
				if got := p.doubt(now); got != s.want {
					t.Errorf("step %d: %q, want %q", i, got, s.want)
				}
			}
		})
	}
	t.Run("a version that nobody told is none", func(t *testing.T) {
		p := &proof{at: epoch}
		p.asked(epoch.Add(time.Hour), "")
		p.reached("")
		if !p.at.Equal(epoch) {
			t.Errorf("proven at %v", p.at)
		}
	})
	t.Run("the newest probes are kept", func(t *testing.T) {
		p := &proof{at: epoch}
		for i := range maxProbes + 3 {
			p.asked(epoch.Add(time.Duration(i)*time.Second), strconv.Itoa(100+i))
			if want := min(i+1, maxProbes); len(p.probes) != want {
				t.Fatalf("after %d probes %d are kept, want %d", i+1, len(p.probes), want)
			}
		}
		if first := p.probes[0].version; first != "103" {
			t.Errorf("the oldest kept is %s, want 103", first)
		}
		p.reached("104")
		if len(p.probes) != maxProbes-2 || !p.at.Equal(epoch.Add(4*time.Second)) {
			t.Errorf("%d probes are left, proven at %v", len(p.probes), p.at)
		}
	})
}

// server answers lists of metadata.
type server struct {
	metadata.Getter
	resource string
	mu       *sync.Mutex
	answers  map[string]*metav1.PartialObjectMetadataList // by resource; nil: an error
	takes    time.Duration
	asked    map[string][]metav1.ListOptions
}

func newServer() *server {
	return &server{mu: &sync.Mutex{}, answers: map[string]*metav1.PartialObjectMetadataList{}, asked: map[string][]metav1.ListOptions{}}
}

func (s *server) Resource(r schema.GroupVersionResource) metadata.Getter {
	of := *s
	of.resource = r.Resource
	return &of
}

func (s *server) List(_ context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[s.resource] = append(s.asked[s.resource], o)
	if a := s.answers[s.resource]; a != nil {
		return a, nil
	}
	return nil, errors.New("not today")
}

// listOf objects by key and version, at a version of the list.
func listOf(version string, objects map[api.Key]string) *metav1.PartialObjectMetadataList {
	out := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for key, v := range objects {
		out.Items = append(out.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: v}})
	}
	return out
}

// TestEqual: a cache has what the API server has, or it is not a proof.
func TestEqual(t *testing.T) {
	a, b := api.Key{Namespace: ns, Name: "a"}, api.Key{Namespace: ns, Name: "b"}
	for name, c := range map[string]struct {
		cached map[api.Key]string
		list   *metav1.PartialObjectMetadataList
		want   bool
	}{
		"the same":                        {map[api.Key]string{a: "5", b: "6"}, listOf("6", map[api.Key]string{a: "5", b: "6"}), true},
		"nothing on either side":          {nil, listOf("6", nil), true},
		"one is missing":                  {map[api.Key]string{a: "5"}, listOf("9", map[api.Key]string{a: "5", b: "6"}), false},
		"one is missing, of no version":   {nil, listOf("9", map[api.Key]string{a: ""}), false},
		"one is older":                    {map[api.Key]string{a: "5", b: "6"}, listOf("9", map[api.Key]string{a: "7", b: "6"}), false},
		"one is newer than the list":      {map[api.Key]string{a: "5", b: "11"}, listOf("9", map[api.Key]string{a: "5", b: "6"}), true},
		"one is gone":                     {map[api.Key]string{a: "5", b: "6"}, listOf("9", map[api.Key]string{a: "5"}), false},
		"one is gone by the last deed":    {map[api.Key]string{a: "5", b: "9"}, listOf("9", map[api.Key]string{a: "5"}), false},
		"one came after the list":         {map[api.Key]string{a: "5", b: "10"}, listOf("9", map[api.Key]string{a: "5"}), true},
		"no answer":                       {map[api.Key]string{a: "5"}, nil, false},
		"the last one that was changed":   {map[api.Key]string{a: "9"}, listOf("9", map[api.Key]string{a: "9"}), true},
		"all are gone, and the cache old": {map[api.Key]string{a: "5"}, listOf("9", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			w, api := newWorld(t, nil), newServer()
			api.answers["pods"] = c.list
			for key, version := range c.cached {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: version}}
				w.put(p)
			}
			current := &currency{client: api}
			if got := current.equal(t.Context(), kindPod, w.caches); got != c.want {
				t.Errorf("equal is %v", got)
			}
			if o := api.asked["pods"]; len(o) != 1 || o[0].FieldSelector != "status.phase!=Succeeded,status.phase!=Failed" {
				t.Errorf("asked for %+v", o)
			}
		})
	}
	t.Run("objects without a namespace", func(t *testing.T) {
		w, server := newWorld(t, nil), newServer()
		server.answers["nodes"] = listOf("9", map[api.Key]string{{Name: "n"}: "5"})
		n := node("n", "e2")
		n.ResourceVersion = "5"
		w.put(n)
		if !(&currency{client: server}).equal(t.Context(), kindNode, w.caches) {
			t.Error("not equal")
		}
		if o := server.asked["nodes"]; len(o) != 1 || o[0].FieldSelector != "" {
			t.Errorf("asked for %+v", o)
		}
	})
	t.Run("one that left the cache meanwhile", func(t *testing.T) {
		w, server := newWorld(t, nil), newServer()
		server.answers["pods"] = listOf("9", nil)
		// It has a key and nothing behind it.
		if err := w.caches.informers[kindPod].GetStore().Add(cache.DeletedFinalStateUnknown{Key: "shop/gone"}); err != nil {
			t.Fatal(err)
		}
		if !(&currency{client: server}).equal(t.Context(), kindPod, w.caches) {
			t.Error("not equal")
		}
	})
	t.Run("a large cache is not compared", func(t *testing.T) {
		w, server := newWorld(t, nil), newServer()
		objects := map[api.Key]string{}
		for i := range maxCompared + 1 {
			if len(objects) == maxCompared {
				server.answers["pods"] = listOf("9", objects)
				if !(&currency{client: server}).equal(t.Context(), kindPod, w.caches) {
					t.Error("the largest that is to be compared isn't")
				}
			}
			key := api.Key{Namespace: ns, Name: fmt.Sprintf("p%d", i)}
			objects[key] = "5"
			w.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: "5"}})
		}
		server.answers["pods"] = listOf("9", objects)
		if (&currency{client: server}).equal(t.Context(), kindPod, w.caches) {
			t.Error("a larger one is")
		}
	})
}

// TestCurrency: which caches are not proven current is said in each cycle, of all of them,
// once the API server has answered for all.
func TestCurrency(t *testing.T) {
	w := newWorld(t, nil)
	w.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a", ResourceVersion: "5"}})
	setup := func() (*currency, *server) {
		s := newServer()
		c := &currency{client: s, kinds: map[string]*proof{}}
		c.begin(epoch)
		return c, s
	}
	all := func(version string) map[string]string {
		return map[string]string{kindPod: version, kindNode: version, kindBudget: version}
	}
	t.Run("versions are those of the caches that count", func(t *testing.T) {
		c, _ := setup()
		versions := c.versions(w.caches)
		if len(versions) != len(provenKinds) {
			t.Errorf("versions of %v", versions)
		}
	})
	t.Run("before the caches are started nothing is in doubt", func(t *testing.T) {
		c := &currency{client: newServer(), kinds: map[string]*proof{}}
		if why := c.observe(t.Context(), epoch.Add(time.Hour), w.caches, nil, nil); why != "" {
			t.Error(why)
		}
	})
	t.Run("all that is in doubt is named, in order", func(t *testing.T) {
		for range 20 {
			c, _ := setup()
			why := c.observe(t.Context(), epoch.Add(provenFor+time.Second), w.caches, all("5"), map[string]error{kindNode: errors.New("no watch")})
			const old = ": not proven current for 2m1s"
			if want := "Node: the watch fails: no watch; Pod" + old + "; PodDisruptionBudget" + old; why != want {
				t.Fatalf("%q, want %q", why, want)
			}
		}
	})
	t.Run("an answer that the caches have reached is a proof, however long it takes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := setup()
			s.takes = time.Second
			for _, r := range provenKinds {
				s.answers[r.Resource] = listOf("7", nil)
			}
			if why := c.observe(t.Context(), epoch.Add(50*time.Second), w.caches, all("7"), nil); why != "" {
				t.Fatal(why)
			}
			if why := c.observe(t.Context(), epoch.Add(50*time.Second+compareAfter), w.caches, all("8"), nil); why != "" {
				t.Fatal(why)
			}
			for resource, asked := range s.asked {
				for _, o := range asked {
					if o.Limit != 1 {
						t.Errorf("%s were listed in whole: %+v", resource, o)
					}
				}
			}
		})
	})
	t.Run("a cache that is behind the answer proves nothing", func(t *testing.T) {
		c, s := setup()
		for _, r := range provenKinds {
			s.answers[r.Resource] = listOf("9", map[api.Key]string{{Namespace: ns, Name: "later"}: "9"})
		}
		why := c.observe(t.Context(), epoch.Add(provenFor+time.Second), w.caches, all("7"), nil)
		for kind := range provenKinds {
			if !strings.Contains(why, kind+": not proven") {
				t.Errorf("%s is not in doubt: %q", kind, why)
			}
		}
	})
	t.Run("a quiet cache is compared when its proof grows old", func(t *testing.T) {
		c, s := setup()
		s.answers["pods"] = listOf("9", map[api.Key]string{{Namespace: ns, Name: "a"}: "5"})
		s.answers["nodes"], s.answers["poddisruptionbudgets"] = listOf("9", nil), listOf("9", nil)
		later := epoch.Add(provenFor)
		if why := c.observe(t.Context(), later, w.caches, all("5"), nil); why != "" {
			t.Fatal(why)
		}
		// Two minutes on, by an API server that says nothing: the comparison was the proof.
		s.answers = map[string]*metav1.PartialObjectMetadataList{}
		if why := c.observe(t.Context(), later.Add(provenFor), w.caches, all("5"), nil); why != "" {
			t.Error(why)
		}
		if why := c.observe(t.Context(), later.Add(provenFor+1), w.caches, all("5"), nil); why == "" {
			t.Error("a proof lasts for ever")
		}
	})
	t.Run("and not before", func(t *testing.T) {
		for after, whole := range map[time.Duration]bool{compareAfter: false, compareAfter + 1: true} {
			c, s := setup()
			for _, r := range provenKinds {
				s.answers[r.Resource] = listOf("9", nil)
			}
			c.observe(t.Context(), epoch.Add(after), w.caches, all("7"), nil)
			for resource, asked := range s.asked {
				if got := len(asked) > 1; got != whole {
					t.Errorf("after %v: %s are compared: %v", after, resource, got)
				}
			}
		}
	})
	t.Run("a watch that failed is told until it has recovered", func(t *testing.T) {
		c, s := setup()
		for _, r := range provenKinds {
			s.answers[r.Resource] = listOf("7", nil)
		}
		failed := map[string]error{kindPod: errors.New("no watch")}
		if why := c.observe(t.Context(), epoch.Add(time.Second), w.caches, all("7"), failed); why != "Pod: the watch fails: no watch" {
			t.Error(why)
		}
		if why := c.observe(t.Context(), epoch.Add(2*time.Second), w.caches, all("7"), nil); why != "Pod: the watch fails: no watch" {
			t.Errorf("in the next cycle: %q", why)
		}
	})
}

// TestWritesThatAreMissed: the latest write counts, and those that the caches miss are
// named, in order.
func TestWritesThatAreMissed(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.CacheWait, c.CachePoll = time.Second, time.Second })
	put := func(version string) {
		for _, name := range []string{"a", "b", "c"} {
			d := deployment(name, 1, "100m")
			d.ResourceVersion = version
			var o runtime.Object = d
			w.put(o)
		}
	}
	put("7")
	for _, name := range []string{"c", "a", "b"} {
		w.NoteWrite(kindDeployment, api.Key{Namespace: ns, Name: name}, "7")
		w.NoteWrite(kindDeployment, api.Key{Namespace: ns, Name: name}, "8")
	}
	_, err := observeStepping(w)
	want := "after 1s: Deployment " + ns + "/a, Deployment " + ns + "/b, Deployment " + ns + "/c"
	if !errors.Is(err, ErrCacheBehind) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error = %v, want one that ends with %q", err, want)
	}
}
