package operator

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
)

// LeaseName is that of the Lease by which one of several replicas leads.
const LeaseName = "operator." + api.Group

// identity names this process among those that would lead.
func identity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("naming this process: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// lock is the Lease under that name; who gets it is told as an Event.
func lock(client kubernetes.Interface, namespace, self string) (resourcelock.Interface, error) {
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&coreclient.EventSinkImpl{Interface: client.CoreV1().Events(namespace)})
	return resourcelock.New(resourcelock.LeasesResourceLock, namespace, LeaseName, client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{
			Identity: self, EventRecorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: self}),
		})
}

// fence lets an action through only while the API server has this process as the
// leader. A process that was frozen goes on where it was before it learns that another
// one leads by now; it must not act by what it saw then.
//
// What remains is the time from the question to the write: serves, or an answer that took
// longer, and what the write itself takes. The next leader begins no sooner than 15 s after the last sign of life
// of this one.
type fence struct {
	mash2.Actuator
	leases coordinationclient.LeaseInterface
	self   string
	now    func() time.Time

	mu    sync.Mutex
	asked time.Time // when the last answer was asked for that this process leads
}

const (
	// serves is for how long an answer of the API server does: the actions of a cycle
	// share it.
	serves = time.Second
	// servesWaiting is for how long one does for actions that had begun when it was asked
	// for: they waited for it, and need not ask one after the other.
	servesWaiting = 5 * time.Second
)

// ReasonNotLeading of a finding: another process leads, and an action was left to it.
const ReasonNotLeading = "NotLeading"

// Apply implements mash2.Actuator.
func (f *fence) Apply(ctx context.Context, a api.Action) error {
	if err := f.leads(ctx); err != nil {
		return err
	}
	return f.Actuator.Apply(ctx, a)
}

// leads asks the API server, unless it has just been asked.
func (f *fence) leads(ctx context.Context) error {
	began := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	now, most := f.now(), serves
	if !f.asked.Before(began) {
		most = servesWaiting
	}
	if age := now.Sub(f.asked); !f.asked.IsZero() && age >= 0 && age < most {
		return nil
	}
	lease, err := f.leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if err != nil {
		return &api.NotTriedError{Why: fmt.Sprintf("the leader can't be read: %v", err), Reason: ReasonNotLeading}
	}
	holder := "nobody"
	if h := lease.Spec.HolderIdentity; h != nil && *h != "" {
		holder = *h
	}
	if holder != f.self {
		f.asked = time.Time{}
		return &api.NotTriedError{Why: holder + " leads, not this process", Reason: ReasonNotLeading}
	}
	f.asked = now
	return nil
}
