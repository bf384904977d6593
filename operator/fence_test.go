package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
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
