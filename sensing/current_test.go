package sensing

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// aheadClock is the real one, put forward.
type aheadClock struct {
	clock.RealClock
	by atomic.Int64
}

func (c *aheadClock) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

func (c *aheadClock) forward(d time.Duration) { c.by.Add(int64(d)) }

// watches lets requests through, but for the watches of one path, which it can
// hold back or refuse.
type watches struct {
	next http.RoundTripper
	path string

	mu      sync.Mutex
	held    chan struct{} // closed: nothing is held back
	refused bool
	open    []io.Closer
}

func (w *watches) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != w.path || r.URL.Query().Get("watch") == "" {
		return w.next.RoundTrip(r)
	}
	w.mu.Lock()
	refused := w.refused
	w.mu.Unlock()
	if refused {
		return nil, errors.New("no watch today")
	}
	answer, err := w.next.RoundTrip(r)
	if err == nil {
		w.mu.Lock()
		w.open = append(w.open, answer.Body)
		w.mu.Unlock()
		answer.Body = &heldBody{ReadCloser: answer.Body, watches: w}
	}
	return answer, err
}

func (w *watches) hold(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on {
		w.held = make(chan struct{})
	} else {
		close(w.held)
	}
}

// refuse ends the watches there are and lets none begin.
func (w *watches) refuse(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = on
	for _, body := range w.open {
		_ = body.Close()
	}
	w.open = nil
}

// heldBody delivers nothing while its watch is held back: the connection is up,
// and silent.
type heldBody struct {
	io.ReadCloser
	*watches
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	held := b.held
	b.mu.Unlock()
	if held != nil {
		<-held
	}
	return n, err
}

// TestStaleCachesAreNoticed: a watch that fails, and one that silently delivers
// nothing any more, make a snapshot unproven; a quiet one doesn't.
func TestStaleCachesAreNoticed(t *testing.T) {
	c := cluster.ForTest(t)
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	dyn := dynamic.NewForConfigOrDie(c.RESTConfig())
	ahead := &aheadClock{}
	pods := &watches{path: "/api/v1/pods"}
	w := newWorld(t, func(cfg *Config) {
		cfg.REST = c.RESTConfig()
		cfg.REST.QPS = -1
		cfg.REST.Wrap(func(next http.RoundTripper) http.RoundTripper { pods.next = next; return pods })
		cfg.Clock = ahead
		cfg.BackfillWait = 0
	})
	b := &bed{T: t, client: client, dyn: dyn, o: w.Observer}
	b.install()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "quiet"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{}},
	}
	if _, err := client.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.o.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	proven := func(s api.Snapshot) bool { return s.Unproven == "" }
	about := func(what string) func(api.Snapshot) bool {
		return func(s api.Snapshot) bool { return strings.Contains(s.Unproven, kindPod+": "+what) }
	}
	create := func(name string) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.until("a proof at the start", proven)
	// Of two watches that are as silent as one another only one misses something.
	ahead.forward(time.Hour)
	b.until("a proof though nothing happens for an hour", proven)
	pods.hold(true)
	create("unseen")
	ahead.forward(provenFor + time.Second)
	b.until("doubts about a watch that is silent", about("not proven"))
	pods.hold(false)
	b.until("a proof when it goes on", proven)

	pods.refuse(true)
	b.until("doubts about a watch that fails", about("the watch fails"))
	s := b.until("the same in each cycle, between its attempts too", about("the watch fails"))
	if len(s.Pods) == 0 {
		t.Error("what was seen is gone")
	}
	pods.refuse(false)
	create("later")
	b.until("the pod that came since", func(s api.Snapshot) bool { return len(s.Pods) == 2 })
	ahead.forward(failingFor + time.Second)
	create("last")
	b.until("a proof when it works again", proven)
}
