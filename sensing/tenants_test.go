package sensing

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tenant is a world with one workload whose query Prometheus doesn't come to an end
// with; others are answered at once.
type tenant struct {
	*world
	mu      sync.Mutex
	asked   int // for the query
	own     int // the cycle's queries
	release chan struct{}
}

func newTenant(t *testing.T, change func(*Config)) *tenant {
	n := &tenant{release: make(chan struct{})}
	prom := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		slow := strings.Contains(r.Form.Get("query"), "slow")
		n.mu.Lock()
		if slow {
			n.asked++
		} else {
			n.own++
		}
		n.mu.Unlock()
		if slow {
			select {
			case <-n.release:
			case <-r.Context().Done():
				return
			}
		}
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	}))
	t.Cleanup(prom.Close)
	n.world = newWorld(t, func(cfg *Config) {
		cfg.PrometheusURL = prom.URL
		cfg.BackfillWait = 0
		change(cfg)
	})
	n.shop("web", 3)
	mw := managed("web")
	mw.Spec.Triggers = []v1alpha1.Trigger{{
		Name: "q", Type: v1alpha1.TriggerPrometheus, Target: averageValue("5"),
		Prometheus: &v1alpha1.PrometheusTrigger{Query: `sum(slow)`},
	}}
	n.put(mw)
	return n
}

// look observes, putting the clock forward for as long as that waits.
func (n *tenant) look() api.Snapshot {
	n.t.Helper()
	done := make(chan api.Snapshot)
	go func() {
		s, err := n.Observe(n.t.Context())
		if err != nil {
			n.t.Error(err)
		}
		done <- s
	}()
	for {
		select {
		case s := <-done:
			return s
		case <-time.After(time.Millisecond):
			if n.clock.HasWaiters() {
				n.clock.Step(100 * time.Millisecond)
			}
		}
	}
}

func (n *tenant) counts() (asked, own int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked, n.own
}

// A query that is still being evaluated is not asked for again, and the cycles'
// own queries don't wait for it.
func TestTenantsQueriesAreAskedOnce(t *testing.T) {
	n := newTenant(t, func(cfg *Config) { cfg.QueryTimeout = time.Hour })
	for i := range 4 {
		n.clock.Step(15 * time.Second) // another sample is due
		_, before := n.counts()
		s := n.look()
		if !s.Metrics.Reachable {
			t.Errorf("cycle %d: its own query has failed: %s", i, s.Metrics.Error)
		}
		asked, own := n.counts()
		if asked != 1 || own == before {
			t.Errorf("after cycle %d: %d tenants' queries and %d of its own, want 1 and some", i, asked, own-before)
		}
		if missing := s.Workloads[0].Triggers[0].Missing; missing == "" {
			t.Errorf("cycle %d has a value", i)
		}
	}
	close(n.release)
	for asked, _ := n.counts(); asked < 2; asked, _ = n.counts() {
		n.look()
	}
}

// One that is too much for Prometheus is asked for ever more seldom.
func TestTenantsQueriesBackOff(t *testing.T) {
	n := newTenant(t, func(cfg *Config) { cfg.QueryTimeout = 20 * time.Millisecond })
	var at []time.Duration
	before := 0
	for now := time.Duration(0); now <= 4*time.Hour; now += 15 * time.Second {
		n.clock.SetTime(epoch.Add(now))
		s, err := n.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if asked, _ := n.counts(); asked > before {
			at, before = append(at, now), asked
		}
		if missing := s.Workloads[0].Triggers[0].Missing; !strings.Contains(missing, "the query is too slow") {
			t.Fatalf("at %v: %q", now, missing)
		}
	}
	var waits []time.Duration
	for i := 1; i < len(at); i++ {
		waits = append(waits, at[i]-at[i-1])
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}
	for i, w := range want {
		if i >= len(waits) || waits[i] != w*time.Minute {
			t.Fatalf("waits are %v, want %d minutes", waits, want)
		}
	}
}

// Namespaces whose triggers are slow keep those of others waiting at no time, be they of
// Prometheus or not.
func TestSlowTriggersLeavePlaces(t *testing.T) {
	for _, kind := range []v1alpha1.TriggerType{v1alpha1.TriggerPrometheus, v1alpha1.TriggerExternal} {
		synctest.Test(t, func(t *testing.T) {
			s := &readings{}
			s.makePlaces()
			life, end := context.WithCancel(t.Context())
			defer end()
			for i := range 8 * namespaceAtOnce {
				go s.turn(life, trigger{kind: kind}, fmt.Sprintf("slow-%d", i%8), true)
			}
			synctest.Wait()
			served := false
			go func() {
				s.turn(life, trigger{kind: kind}, "shop", false)()
				served = true
			}()
			if synctest.Wait(); !served {
				t.Errorf("%s: a trigger that is answered at once waits for slow ones", kind)
			}
		})
	}
}

func TestTriggersEscape(t *testing.T) {
	// A selector's values are data, not part of the address.
	x := external("queue", "20")
	x.External.Metric.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	w, a, _ := triggered(t, x)
	w.observe()
	if len(a.asked) != 1 {
		t.Fatal(a.asked)
	}
	u, err := url.Parse(a.asked[0])
	if err != nil || u.Path != "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue" || u.Query().Get("labelSelector") != "a=b" {
		t.Errorf("%v, %v", u, err)
	}
}

func TestAnExpensiveQueryIsTheTriggersFault(t *testing.T) {
	_, err := triggersOf(&v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: ns}, Spec: v1alpha1.ManagedWorkloadSpec{Triggers: []v1alpha1.Trigger{{
		Name: "q", Type: v1alpha1.TriggerPrometheus, Target: averageValue("1"),
		Prometheus: &v1alpha1.PrometheusTrigger{Query: `sum_over_time(vector(1)[365d:1s])`},
	}}}}, DefaultConfig())
	if err == nil || !strings.HasPrefix(err.Error(), "spec.triggers[0].prometheus.query: the range of a subquery is 1y, more than 1h") {
		t.Errorf("error = %v, want the field's path and the limit", err)
	}
}
