package agents

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/mash2-io/mash2/api"
)

// single is a world of one pod as the API server has it: what is written to it is what it is
// taken as in the next tick.
type single struct {
	pod         *corev1.Pod
	cpu, memory float64 // used: millicores, bytes
	clock       *testclock.FakeClock
}

func (s *single) Observe(context.Context) ([]Pod, []Refused, error) {
	p, err := Takes(s.pod, "")
	return []Pod{p}, nil, err
}

func (s *single) Read(_ context.Context, pods []Pod) (map[string]Usage, error) {
	return map[string]Usage{pods[0].ID: {MilliCPU: s.cpu, Memory: s.memory, At: s.clock.Now()}}, nil
}

func (s *single) Apply(_ context.Context, a api.Action) error {
	r := a.(api.ResizePod)
	is := &s.pod.Spec.Containers[0].Resources
	for to, amounts := range map[*corev1.ResourceList]api.Amounts{&is.Requests: r.To, &is.Limits: r.Limits} {
		if amounts.MilliCPU > 0 {
			(*to)[corev1.ResourceCPU] = *resource.NewMilliQuantity(amounts.MilliCPU, resource.DecimalSI)
		}
		if amounts.Memory > 0 {
			(*to)[corev1.ResourceMemory] = *resource.NewQuantity(amounts.Memory, resource.BinarySI)
		}
	}
	return nil
}

func newSingle(requests, limits corev1.ResourceList) *single {
	return &single{clock: testclock.NewFakeClock(start), pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}}
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func (s *single) ticks(t *testing.T, l *Loop, count int) {
	for range count {
		l.tick(t.Context())
		s.clock.Step(time.Second)
	}
}

// A request that its author wrote below the limit stays as it is, however low the limit was
// meanwhile.
func TestALowerRequestStays(t *testing.T) {
	const mi = 1 << 20
	s := newSingle(amounts("100m", "64Mi"), amounts("500m", "512Mi"))
	l, err := New(Options{
		Observer: s, Meter: s, Actuator: s, Minds: Rules(), Algorithm: ProportionalMind, Budget: 2000, Floor: 50, Interval: time.Second, Clock: s.clock,
		Memory: api.MemoryBounds{Budget: 1024 * mi, Least: 8 * mi}, MemoryWindow: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range []struct {
		cpu, memory float64
		limits      string
	}{{5, 5 * mi, "101m, 65Mi"}, {450, 400 * mi, "701m, 500Mi"}, {5, 5 * mi, "101m, 65Mi"}} {
		s.cpu, s.memory = use.cpu, use.memory
		s.ticks(t, l, 90)
		is := s.pod.Spec.Containers[0].Resources
		if got := is.Requests.Cpu().String() + ", " + is.Requests.Memory().String(); got != "100m, 64Mi" {
			t.Errorf("it requests %s", got)
		}
		if got := is.Limits.Cpu().String() + ", " + is.Limits.Memory().String(); got != use.limits {
			t.Errorf("at a usage of %gm its limits are %s, want %s", use.cpu, got, use.limits)
		}
	}
}

// A rise that a full node has deferred is taken back when it is needed no more, so that it does
// not come about an hour later.
func TestADeferredRiseIsTakenBack(t *testing.T) {
	s := newSingle(amounts("500m", "64Mi"), amounts("500m", "64Mi"))
	s.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}}
	has := amounts("200m", "64Mi")
	s.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Resources: &corev1.ResourceRequirements{Requests: has, Limits: has}}}
	l, err := New(Options{Observer: s, Meter: s, Actuator: s, Minds: Rules(), Algorithm: ProportionalMind, Budget: 2000, Floor: 50, Interval: time.Second, Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	limit := func() string { return s.pod.Spec.Containers[0].Resources.Limits.Cpu().String() }
	s.cpu = 190
	if s.ticks(t, l, 20); limit() != "500m" {
		t.Errorf("while it is needed the limit is %s", limit())
	}
	s.cpu = 5
	for i := 0; limit() == "500m" && i < 20; i++ {
		s.ticks(t, l, 1)
	}
	if is := s.pod.Spec.Containers[0].Resources; limit() != "200m" || is.Requests.Cpu().String() != "200m" {
		t.Errorf("it asks for %s, up to %s", is.Requests.Cpu(), limit())
	}
}
