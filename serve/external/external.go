// Package external is an external scaler of KEDA: mash2 plans, KEDA carries the plan out.
//
// It answers from the status of ManagedWorkloads, where the last plan is, and so every
// replica of the operator can answer, leading or not. It writes nothing. Whatever is not
// known is an error: KEDA and its HorizontalPodAutoscaler then change nothing.
//
// The answer is one metric with a target of 1 for each replica, of the type AverageValue
// that KEDA takes by default. A HorizontalPodAutoscaler at S replicas makes of a value v
//
//	S         where |v/S − 1| is within its tolerance,
//	⌈v/1⌉     otherwise
//
// (GetExternalPerPodMetricReplicas in Kubernetes' replica_calculator.go), so every v in
// (N−1, N] stands for N replicas. With a tolerance of 0 that is exact. With another one
// no value is: see [Value].
package external

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	pb "github.com/mash2-io/mash2/serve/external/externalscaler"
)

const (
	// MetricName is that of the one metric; KEDA puts an index before it.
	MetricName = "mash2-planned-replicas"
	// Target is what one replica stands for.
	Target = 1
	// MetadataWorkload is the key of a trigger's metadata that names the ManagedWorkload
	// of the ScaledObject's namespace; without it, it has the ScaledObject's name.
	MetadataWorkload = "managedWorkload"
)

// Server answers KEDA. Its methods may be called at the same time.
type Server struct {
	pb.UnimplementedExternalScalerServer
	// Reader reads ManagedWorkloads, from a cache.
	Reader client.Reader
	// Changes tells when one may have changed; nil where streams send only what is known
	// when they are opened.
	Changes *Changes
	// MaxAge is the age of a plan from which it is not answered with.
	MaxAge time.Duration
	// Now is the time.
	Now func() time.Time
}

// plan is what a ManagedWorkload's status says.
type plan struct{ planned, current int32 }

// Value is the metric's value for so many planned replicas beside the current ones. It is
// always in (planned−1, planned], and as far from current as that allows, so that a
// HorizontalPodAutoscaler's tolerance swallows as few changes as possible: of the usual
// 10 %, none up to 10 replicas upwards and up to 18 downwards. Beyond them a change by one
// is within the tolerance whatever the value is.
func Value(planned, current int32) float64 {
	if planned > 0 && current > planned {
		return float64(planned) - 0.999
	}
	return float64(max(planned, 0))
}

// IsActive reports whether replicas are planned.
func (s *Server) IsActive(ctx context.Context, ref *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	p, err := s.plan(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &pb.IsActiveResponse{Result: p.planned > 0}, nil
}

// GetMetricSpec describes the one metric.
func (s *Server) GetMetricSpec(ctx context.Context, ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	// A plan that is late changes nothing about its metric: KEDA would make its HPA anew.
	if _, err := s.workload(ctx, ref); err != nil {
		return nil, err
	}
	return metricSpec(), nil
}

func metricSpec() *pb.GetMetricSpecResponse {
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{{MetricName: MetricName, TargetSize: Target, TargetSizeFloat: Target}}}
}

// GetMetrics is the value of the metric.
func (s *Server) GetMetrics(ctx context.Context, in *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	if name := in.GetMetricName(); name != MetricName {
		return nil, status.Errorf(codes.InvalidArgument, "metricName: there is only %s, not %q", MetricName, name)
	}
	p, err := s.plan(ctx, in.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{{
		MetricName: MetricName, MetricValue: int64(p.planned), MetricValueFloat: Value(p.planned, p.current),
	}}}, nil
}

// StreamIsActive sends whether replicas are planned, as soon as that is known and whenever it
// changes. While it is not known nothing is sent, and the stream stays open.
func (s *Server) StreamIsActive(ref *pb.ScaledObjectRef, stream pb.ExternalScaler_StreamIsActiveServer) error {
	changed, stop := s.Changes.subscribe(s.name(ref))
	defer stop()
	var sent, active bool
	for {
		p, err := s.plan(stream.Context(), ref)
		switch now := p.planned > 0; {
		case status.Code(err) == codes.Unavailable:
			// It will be known. KEDA opens a stream that failed again, but later each time.
		case err != nil:
			return err
		case !sent || now != active:
			sent, active = true, now
			if err := stream.Send(&pb.IsActiveResponse{Result: active}); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-changed:
		}
	}
}

// StreamMetricSpec sends the one metric, which never changes, and keeps the stream open.
func (s *Server) StreamMetricSpec(ref *pb.ScaledObjectRef, stream pb.ExternalScaler_StreamMetricSpecServer) error {
	if _, err := s.workload(stream.Context(), ref); err != nil {
		return err
	}
	if err := stream.Send(metricSpec()); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// name is that of the ManagedWorkload which a ScaledObject asks about: always one of its
// own namespace.
func (s *Server) name(ref *pb.ScaledObjectRef) types.NamespacedName {
	name := ref.GetScalerMetadata()[MetadataWorkload]
	if name == "" {
		name = ref.GetName()
	}
	return types.NamespacedName{Namespace: ref.GetNamespace(), Name: name}
}

// workload is the ManagedWorkload that a ScaledObject asks about, if it is for KEDA to scale.
func (s *Server) workload(ctx context.Context, ref *pb.ScaledObjectRef) (*v1alpha1.ManagedWorkload, error) {
	key := s.name(ref)
	if key.Namespace == "" || key.Name == "" {
		return nil, status.Error(codes.InvalidArgument, "the ScaledObject has no name or no namespace")
	}
	var w v1alpha1.ManagedWorkload
	switch err := s.Reader.Get(ctx, key, &w); {
	case apierrors.IsNotFound(err):
		return nil, status.Errorf(codes.NotFound, "there is no ManagedWorkload %s; metadata.%s of the trigger names one of the ScaledObject's namespace", key, MetadataWorkload)
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "reading ManagedWorkload %s: %v", key, err)
	case w.Spec.Actuator != v1alpha1.ActuatorKEDA:
		return nil, status.Errorf(codes.FailedPrecondition, "ManagedWorkload %s: spec.actuator is not KEDA: mash2 scales it itself", key)
	case w.Spec.Mode != v1alpha1.ModeFull && w.Spec.Mode != "":
		return nil, status.Errorf(codes.FailedPrecondition, "ManagedWorkload %s: spec.mode is %s, and only plans of %s are carried out", key, w.Spec.Mode, v1alpha1.ModeFull)
	}
	return &w, nil
}

// plan is the last plan for a workload. An error of code Unavailable is one that passes.
func (s *Server) plan(ctx context.Context, ref *pb.ScaledObjectRef) (plan, error) {
	w, err := s.workload(ctx, ref)
	if err != nil {
		return plan{}, err
	}
	key, st := s.name(ref), w.Status
	not := func(format string, args ...any) (plan, error) {
		return plan{}, status.Errorf(codes.Unavailable, "ManagedWorkload %s: %s", key, fmt.Sprintf(format, args...))
	}
	if st.PlannedReplicas == nil || st.LastCycleTime == nil {
		return not("it has not been planned yet")
	}
	if st.ObservedGeneration != w.Generation {
		return not("it has not been planned since its spec was changed")
	}
	if age := s.Now().Sub(st.LastCycleTime.Time); age > s.MaxAge {
		return not("its last plan is %v old, more than %v", age.Round(time.Second), s.MaxAge)
	}
	ready := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return not("its status says nothing of its plan")
	}
	p := plan{planned: *st.PlannedReplicas, current: *st.PlannedReplicas}
	if st.CurrentReplicas != nil {
		p.current = *st.CurrentReplicas
	}
	if ready.Status != metav1.ConditionTrue && !api.PlanStands(ready.Reason) {
		return not("it is held (%s): %s", ready.Reason, ready.Message)
	}
	if most := w.Spec.MaxReplicas; most > 0 {
		p.planned = min(p.planned, most)
	}
	return p, nil
}
