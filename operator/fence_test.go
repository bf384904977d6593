package operator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
)

// counting is an actuator that counts.
type counting struct{ applied int }

func (c *counting) Apply(context.Context, api.Action) error {
	c.applied++
	return nil
}

// TestFence: an action goes through only while the lease names this process, by an
// answer that is not older than a second.
func TestFence(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	client := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "mash2-system", Name: LeaseName}})
	lease := client.CoordinationV1().Leases("mash2-system")
	hold := func(who *string) {
		l, err := lease.Get(t.Context(), LeaseName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l.Spec.HolderIdentity = who
		if _, err := lease.Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	unreadable := false
	client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if unreadable {
			return true, nil, errors.New("connection refused")
		}
		return false, nil, nil
	})
	var world counting
	f := &fence{Actuator: &world, leases: lease, self: "a", now: func() time.Time { return now }}
	apply := func(want string) {
		t.Helper()
		before := world.applied
		err := f.Apply(t.Context(), api.CordonNode{Node: "n"})
		var left *api.NotTriedError
		switch {
		case want == "":
			if err != nil || world.applied != before+1 {
				t.Fatalf("it leads, and applies: %v", err)
			}
		case !errors.As(err, &left) || left.Reason != ReasonNotLeading || !strings.Contains(left.Why, want):
			t.Fatalf("%v, want it left because %q", err, want)
		case world.applied != before:
			t.Fatal("it was applied all the same")
		}
	}
	apply("nobody leads")
	hold(ptr.To("b"))
	apply("b leads")
	hold(ptr.To("a"))
	apply("")
	hold(ptr.To("b"))
	now = now.Add(serves - time.Millisecond)
	apply("") // by the same answer
	now = now.Add(time.Millisecond)
	apply("b leads") // asked again
	apply("b leads") // what was refused serves nobody
	hold(ptr.To("a"))
	apply("")
	unreadable = true
	apply("") // by the same answer
	now = now.Add(serves)
	apply("connection refused")
	// A clock that was set back tells nothing of an answer's age.
	unreadable = false
	apply("")
	hold(ptr.To(""))
	now = now.Add(-time.Hour)
	apply("nobody leads")
}

// slowLeases answers when it is let.
type slowLeases struct {
	coordinationclient.LeaseInterface
	asked  chan struct{}
	answer chan struct{}
}

func (s slowLeases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	s.asked <- struct{}{}
	<-s.answer
	return s.LeaseInterface.Get(ctx, name, o)
}

// TestActionsShareASlowAnswer: actions that wait for one question to the API server ask once more
// between them and not one after the other, unless its answer was too long in coming.
func TestActionsShareASlowAnswer(t *testing.T) {
	for took, questions := range map[time.Duration]int{serves: 2, servesWaiting - time.Millisecond: 2, servesWaiting: 5} {
		client := fake.NewClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "mash2-system", Name: LeaseName}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a")},
		})
		leases := slowLeases{client.CoordinationV1().Leases("mash2-system"), make(chan struct{}), make(chan struct{})}
		var mu sync.Mutex
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		waiting := make(chan struct{}, 5)
		f := &fence{Actuator: nobody{}, leases: leases, self: "a", now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			select {
			case waiting <- struct{}{}: // each looks at the clock before it waits
			default:
			}
			return now
		}}
		var group sync.WaitGroup
		apply := func() {
			group.Go(func() {
				if err := f.Apply(t.Context(), api.CordonNode{Node: "n"}); err != nil {
					t.Error(err)
				}
			})
		}
		apply()
		<-leases.asked
		mu.Lock()
		now = now.Add(time.Millisecond) // the others begin after the question
		mu.Unlock()
		<-waiting // its two looks
		<-waiting
		for range 4 {
			apply()
		}
		for range 4 {
			<-waiting
		}
		asked := 1
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		answer := func() {
			mu.Lock()
			now = now.Add(took)
			mu.Unlock()
			leases.answer <- struct{}{}
		}
		answer()
		for ended := false; !ended; {
			select {
			case <-leases.asked:
				asked++
				answer()
			case <-done:
				ended = true
			}
		}
		if asked != questions {
			t.Errorf("answers that take %v: %d questions, want %d", took, asked, questions)
		}
	}
}

// nobody is an actuator that does nothing.
type nobody struct{}

func (nobody) Apply(context.Context, api.Action) error { return nil }
