package external

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mash2-io/mash2/api/v1alpha1"
	pb "github.com/mash2-io/mash2/serve/external/externalscaler"
)

var epoch = time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)

// managed is a ManagedWorkload for KEDA to scale, planned ten seconds ago.
func managed(planned, current int32) *v1alpha1.ManagedWorkload {
	at := metav1.NewTime(epoch.Add(-10 * time.Second))
	return &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 3},
		Spec:       v1alpha1.ManagedWorkloadSpec{Actuator: v1alpha1.ActuatorKEDA, Mode: v1alpha1.ModeFull},
		Status: v1alpha1.ManagedWorkloadStatus{
			ObservedGeneration: 3, PlannedReplicas: &planned, CurrentReplicas: &current, LastCycleTime: &at,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Forecast"}},
		},
	}
}

func ready(w *v1alpha1.ManagedWorkload, s metav1.ConditionStatus, reason string) {
	w.Status.Conditions[0].Status, w.Status.Conditions[0].Reason = s, reason
}

var asked = &pb.ScaledObjectRef{Namespace: "shop", Name: "web"}

// served is a server of objects, and a client of it through gRPC.
func served(t *testing.T, objects ...client.Object) (*Server, client.Client, pb.ExternalScalerClient) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	s := &Server{Reader: c, Changes: &Changes{}, MaxAge: 4 * time.Minute, Now: func() time.Time { return epoch }}
	pipe := bufconn.Listen(1 << 16)
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) })
	return s, c, serve(t, &Listener{Server: s, Listener: pipe}, dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func serve(t *testing.T, l *Listener, options ...grpc.DialOption) pb.ExternalScalerClient {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Start(ctx) }()
	conn, err := grpc.NewClient("passthrough:///x", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	return pb.NewExternalScalerClient(conn)
}

// TestAnswers: what KEDA is told of a plan, and what it is not told.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(w *v1alpha1.ManagedWorkload, ref *pb.ScaledObjectRef)
		planned int32 // 0 for the current 5
		want    int64
		value   float64
		code    codes.Code
		says    string
	}{
		"as many as there are": {want: 5, value: 5},
		"more":                 {planned: 8, want: 8, value: 8},
		"fewer":                {planned: 3, want: 3, value: 2.001},
		"by the name in the metadata": {
			change: func(_ *v1alpha1.ManagedWorkload, ref *pb.ScaledObjectRef) {
				ref.Name, ref.ScalerMetadata = "web-scaled", map[string]string{"managedWorkload": "web", "scalerAddress": "x:1"}
			}, want: 5, value: 5,
		},
		"the mode that the API server fills in": {
			change: func(w *v1alpha1.ManagedWorkload, _ *pb.ScaledObjectRef) { w.Spec.Mode = "" }, want: 5, value: 5,
		},
		"another namespace's": {
			change: func(_ *v1alpha1.ManagedWorkload, ref *pb.ScaledObjectRef) { ref.Namespace = "bank" },
			code:   codes.NotFound, says: "no ManagedWorkload bank/web",
		},
		"a path in the name": {
			change: func(_ *v1alpha1.ManagedWorkload, ref *pb.ScaledObjectRef) {
				ref.Namespace, ref.ScalerMetadata = "bank", map[string]string{"managedWorkload": "shop/web"}
			}, code: codes.NotFound, says: "no ManagedWorkload",
		},
		"no name": {
			change: func(_ *v1alpha1.ManagedWorkload, ref *pb.ScaledObjectRef) { ref.Name = "" },
			code:   codes.InvalidArgument, says: "no name",
		},
		"one that mash2 scales": {
			change: func(w *v1alpha1.ManagedWorkload, _ *pb.ScaledObjectRef) { w.Spec.Actuator = v1alpha1.ActuatorMash2 },
			code:   codes.FailedPrecondition, says: "spec.actuator is not KEDA",
		},
		"one in Shadow": {
			change: func(w *v1alpha1.ManagedWorkload, _ *pb.ScaledObjectRef) { w.Spec.Mode = v1alpha1.ModeShadow },
			code:   codes.FailedPrecondition, says: "spec.mode is Shadow",
		},
		"one that is not planned yet": {
			change: func(w *v1alpha1.ManagedWorkload, _ *pb.ScaledObjectRef) { w.Status = v1alpha1.ManagedWorkloadStatus{} },
			code:   codes.Unavailable, says: "not been planned yet",
		},
		"a changed spec": {
			change: func(w *v1alpha1.ManagedWorkload, _ *pb.ScaledObjectRef) { w.Generation = 4 },
			code:   codes.Unavailable, says: "since its spec was changed",
		},
		"an old plan": {
			change: func(w *v1alpha1.ManagedWorkload, _ *pb.ScaledObjectRef) {
				w.Status.LastCycleTime = &metav1.Time{Time: epoch.Add(-5 * time.Minute)}
			}, code: codes.Unavailable, says: "5m0s old, more than 4m0s",
		},
		"no condition": {
			change: func(w *v1alpha1.ManagedWorkload, _ *pb.ScaledObjectRef) { w.Status.Conditions = nil },
			code:   codes.Unavailable, says: "nothing of its plan",
		},
		"a paused mash2": {
			change: func(w *v1alpha1.ManagedWorkload, _ *pb.ScaledObjectRef) { ready(w, metav1.ConditionFalse, "Paused") },
			code:   codes.Unavailable, says: "held (Paused)",
		},
		"a conflict": {
			change: func(w *v1alpha1.ManagedWorkload, _ *pb.ScaledObjectRef) { ready(w, metav1.ConditionFalse, "Conflict") },
			code:   codes.Unavailable, says: "held (Conflict)",
		},
		"stale demand still raises": {
			change: func(w *v1alpha1.ManagedWorkload, _ *pb.ScaledObjectRef) {
				ready(w, metav1.ConditionFalse, "DemandStale")
			},
			planned: 7, want: 7, value: 7,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, ref := managed(5, 5), &pb.ScaledObjectRef{Namespace: "shop", Name: "web"}
			if c.planned != 0 {
				w.Status.PlannedReplicas = &c.planned
			}
			if c.change != nil {
				c.change(w, ref)
			}
			_, _, keda := served(t, w)
			got, err := keda.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: ref, MetricName: MetricName})
			if status.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %v saying %q", err, c.code, c.says)
			}
			active, activeErr := keda.IsActive(t.Context(), ref)
			if status.Code(activeErr) != c.code {
				t.Errorf("IsActive: %v", activeErr)
			}
			if c.code != codes.OK {
				return
			}
			if v := got.MetricValues[0]; len(got.MetricValues) != 1 || v.MetricName != MetricName || v.MetricValue != c.want || v.MetricValueFloat != c.value {
				t.Errorf("metrics %v, want %d and %g", got.MetricValues, c.want, c.value)
			}
			if !active.Result {
				t.Error("not active")
			}
			spec, err := keda.GetMetricSpec(t.Context(), ref)
			if err != nil || len(spec.MetricSpecs) != 1 || spec.MetricSpecs[0].MetricName != MetricName || spec.MetricSpecs[0].TargetSizeFloat != 1 {
				t.Errorf("spec %v, %v", spec, err)
			}
		})
	}
}

// A late plan changes nothing about what the metric is.
func TestSpecOutlivesThePlan(t *testing.T) {
	w := managed(5, 5)
	w.Status = v1alpha1.ManagedWorkloadStatus{}
	_, _, keda := served(t, w)
	if spec, err := keda.GetMetricSpec(t.Context(), asked); err != nil || len(spec.MetricSpecs) != 1 {
		t.Errorf("%v, %v", spec, err)
	}
	if _, err := keda.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: asked, MetricName: "cpu"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another metric: %v", err)
	}
	stream, err := keda.StreamMetricSpec(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	if spec, err := stream.Recv(); err != nil || spec.MetricSpecs[0].MetricName != MetricName {
		t.Errorf("%v, %v", spec, err)
	}
}

// Nothing that a process remembers goes into an answer: one that was not asked before answers
// as one that was.
func TestReplicasOfTheOperatorAnswerAlike(t *testing.T) {
	asksNow, c, _ := served(t, managed(8, 5))
	later := &Server{Reader: c, MaxAge: asksNow.MaxAge, Now: asksNow.Now}
	if _, err := asksNow.plan(t.Context(), asked); err != nil {
		t.Fatal(err)
	}
	update(t, c, func(w *v1alpha1.ManagedWorkload) {
		five := int32(5)
		w.Status.PlannedReplicas = &five
		ready(w, metav1.ConditionFalse, "DemandStale")
	})
	one, err := asksNow.plan(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := later.plan(t.Context(), asked); other != one || err != nil {
		t.Errorf("%+v and %+v, %v", one, other, err)
	}
}

// The spec's maxReplicas counts before a plan that is older.
func TestMaxReplicasBoundTheAnswer(t *testing.T) {
	w := managed(40, 40)
	w.Spec.MaxReplicas = 7
	server, _, _ := served(t, w)
	if p, err := server.plan(t.Context(), asked); p.planned != 7 || err != nil {
		t.Errorf("KEDA is told %d, %v, want 7", p.planned, err)
	}
}

func update(t *testing.T, c client.Client, change func(*v1alpha1.ManagedWorkload)) {
	t.Helper()
	var w v1alpha1.ManagedWorkload
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, &w); err != nil {
		t.Fatal(err)
	}
	change(&w)
	if err := c.Update(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
}

// A stream says at once whether replicas are planned, says it again when that changes, and
// nothing while it isn't known.
func TestPush(t *testing.T) {
	s, c, keda := served(t, managed(0, 0))
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	stream, err := keda.StreamIsActive(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	receive := func(want bool) {
		t.Helper()
		if got, err := stream.Recv(); err != nil || got.Result != want {
			t.Fatalf("received %v, %v; want %v", got, err, want)
		}
	}
	plan := func(n int32, reason string) {
		t.Helper()
		update(t, c, func(w *v1alpha1.ManagedWorkload) {
			w.Status.PlannedReplicas = &n
			ready(w, metav1.ConditionTrue, "Trigger")
			if reason != "" {
				ready(w, metav1.ConditionFalse, reason)
			}
		})
		s.Changes.Tell(key)
	}
	receive(false)
	plan(4, "")
	receive(true)
	plan(0, "Paused") // not known
	plan(6, "")       // still active
	plan(0, "")
	receive(false)
	plan(0, "")
	plan(1, "")
	receive(true)
	// What is refused for good ends the stream.
	update(t, c, func(w *v1alpha1.ManagedWorkload) { w.Spec.Mode = v1alpha1.ModeOff })
	s.Changes.Tell(key)
	if _, err := stream.Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("after Off: %v", err)
	}
	if len(s.Changes.waits) != 0 {
		t.Errorf("%d workloads are waited for", len(s.Changes.waits))
	}
}

// A stream of what isn't known yet waits for it: KEDA would open one that failed again ever later.
func TestPushWaitsForTheFirstPlan(t *testing.T) {
	w := managed(1, 1)
	status := w.Status
	w.Status = v1alpha1.ManagedWorkloadStatus{}
	s, c, keda := served(t, w)
	stream, err := keda.StreamIsActive(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	planned := make(chan error, 1)
	go func() {
		got, err := stream.Recv()
		if err == nil && !got.Result {
			err = errors.New("received that it is not active")
		}
		planned <- err
	}()
	key := client.ObjectKeyFromObject(w)
	s.Changes.Tell(key)
	select {
	case err := <-planned:
		t.Fatalf("before the first plan: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	update(t, c, func(w *v1alpha1.ManagedWorkload) { w.Status = status })
	s.Changes.Tell(key)
	if err := <-planned; err != nil {
		t.Error(err)
	}
}

// KEDA asks by one connection: the streams of a large fleet leave room for its other calls.
func TestStreamsOfALargeFleet(t *testing.T) {
	const fleet = 600
	_, _, keda := served(t, managed(2, 2))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i := range fleet {
		active, err := keda.StreamIsActive(ctx, asked)
		if err == nil {
			_, err = active.Recv()
		}
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if _, err := keda.StreamMetricSpec(ctx, asked); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if got, err := keda.IsActive(ctx, asked); err != nil || !got.Result {
		t.Errorf("%v, %v", got, err)
	}
}

// A panic of one call is an error of that call.
func TestPanic(t *testing.T) {
	var told string
	s := &Server{Now: func() time.Time { return epoch }} // without a Reader
	pipe := bufconn.Listen(1 << 16)
	keda := serve(t, &Listener{Server: s, Listener: pipe, Panicked: func(what string, value any, _ []byte) { told = fmt.Sprint(what, ": ", value) }},
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if _, err := keda.IsActive(t.Context(), asked); status.Code(err) != codes.Internal {
		t.Errorf("%v", err)
	}
	if !strings.Contains(told, "IsActive: runtime error") {
		t.Errorf("told %q", told)
	}
	stream, err := keda.StreamIsActive(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("%v", err)
	}
}

// With TLS, nothing is answered in the clear.
func TestTLS(t *testing.T) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := certutil.NewPoolFromBytes(cert)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &Server{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(managed(2, 2)).Build(), MaxAge: time.Minute, Now: func() time.Time { return epoch }}
	pipe := bufconn.Listen(1 << 16)
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) })
	keda := serve(t, &Listener{Server: s, Listener: pipe, TLS: &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}},
		dial, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "localhost"})))
	if got, err := keda.IsActive(t.Context(), asked); err != nil || !got.Result {
		t.Errorf("%v, %v", got, err)
	}
	conn, err := grpc.NewClient("passthrough:///x", dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got, err := pb.NewExternalScalerClient(conn).IsActive(ctx, asked); err == nil {
		t.Errorf("in the clear: %v", got)
	}
}
