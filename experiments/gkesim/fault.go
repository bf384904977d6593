package gkesim

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// FaultKind is a way in which GKE fails.
type FaultKind string

const (
	// Unavailable fails calls with code Unavailable (REST: 503).
	Unavailable FaultKind = "Unavailable"
	// DeadlineExceeded fails calls with code DeadlineExceeded (REST: 504).
	DeadlineExceeded FaultKind = "DeadlineExceeded"
	// ResourceExhausted fails calls with code ResourceExhausted (REST: 403 with reason
	// rateLimitExceeded): the API's own rate limit.
	ResourceExhausted FaultKind = "ResourceExhausted"
	// OperationInProgress fails calls as if another operation were running.
	OperationInProgress FaultKind = "OperationInProgress"
	// PermissionDenied fails calls as if a role were missing (REST: 403).
	PermissionDenied FaultKind = "PermissionDenied"
	// QuotaRefused fails calls as GKE does when it sees beforehand that a quota
	// doesn't allow what is asked for (REST: 403).
	QuotaRefused FaultKind = "QuotaRefused"
	// SlowCall delays calls by Delay.
	SlowCall FaultKind = "SlowCall"

	// OperationError ends operations on a pool in an error before they did
	// anything.
	OperationError FaultKind = "OperationError"
	// SlowOperation keeps operations on a pool RUNNING for Delay longer.
	SlowOperation FaultKind = "SlowOperation"

	// Stockout refuses instances: ZONE_RESOURCE_POOL_EXHAUSTED.
	Stockout FaultKind = "Stockout"
	// Quota refuses instances: QUOTA_EXCEEDED.
	Quota FaultKind = "Quota"
	// SlowBoot adds Delay to the boot of instances.
	SlowBoot FaultKind = "SlowBoot"
	// NeverRegisters boots instances whose node never comes.
	NeverRegisters FaultKind = "NeverRegisters"
)

// Fault is a failure to be had. Empty Method, Pool and Zone mean any.
type Fault struct {
	Kind FaultKind
	// Method restricts a fault of calls: SetNodePoolSize, GetNodePool, …, and of
	// Compute Engine InstanceGroupManagers.Get, .ListManagedInstances,
	// .DeleteInstances, ZoneOperations.Get, .Wait.
	Method string
	// Pool restricts a fault of operations and instances, Zone one of instances.
	Pool, Zone string
	// Skip that many occasions first, then fail Times of them; Times 0 fails
	// them all until the fault is cleared.
	Skip, Times int
	// Applied lets a call that fails take effect: only its answer is lost.
	Applied bool
	// Delay, in scenario time, of the Slow kinds.
	Delay time.Duration
}

type fault struct {
	Fault
	seen int
}

// faultSite is an occasion to fail.
type faultSite struct {
	kind               FaultKind
	method, pool, zone string
}

// Fail makes f happen from now on, until the returned function is called or f
// has happened f.Times times.
func (s *Server) Fail(f Fault) (clear func()) {
	state := &fault{Fault: f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, state)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.DeleteFunc(s.faults, func(other *fault) bool { return other == state })
	}
}

// takeFault returns the fault that strikes at site, or nil. s.mu is held.
func (s *Server) takeFault(site faultSite) *Fault {
	for _, f := range s.faults {
		if f.Kind != site.kind ||
			f.Method != "" && f.Method != site.method ||
			f.Pool != "" && f.Pool != site.pool ||
			f.Zone != "" && f.Zone != site.zone {
			continue
		}
		if f.Times > 0 && f.seen >= f.Skip+f.Times {
			continue
		}
		f.seen++
		if f.seen > f.Skip {
			return &f.Fault
		}
	}
	return nil
}

// callFault is how a call fails.
type callFault struct {
	err     error
	applied bool
}

// takeCallFault waits out slow calls and returns the failure of this one, or nil.
func (s *Server) takeCallFault(ctx context.Context, method string) *callFault {
	s.mu.Lock()
	slow := s.takeFault(faultSite{kind: SlowCall, method: method})
	var struck *Fault
	for _, kind := range []FaultKind{Unavailable, DeadlineExceeded, ResourceExhausted, OperationInProgress, PermissionDenied, QuotaRefused} {
		if struck = s.takeFault(faultSite{kind: kind, method: method}); struck != nil {
			break
		}
	}
	s.mu.Unlock()

	if slow != nil {
		timer := s.cfg.Clock.NewTimer(s.real(slow.Delay))
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			return &callFault{err: status.FromContextError(ctx.Err()).Err()}
		}
	}
	if struck == nil {
		return nil
	}
	f := &callFault{applied: struck.Applied}
	switch struck.Kind {
	case Unavailable:
		f.err = status.Error(codes.Unavailable, "The service is currently unavailable.")
	case DeadlineExceeded:
		f.err = status.Error(codes.DeadlineExceeded, "Deadline expired before operation could complete.")
	case ResourceExhausted:
		f.err = status.Error(codes.ResourceExhausted, "Quota exceeded for quota metric 'Cluster write requests' of service 'container.googleapis.com'.")
	case PermissionDenied:
		f.err = status.Error(codes.PermissionDenied, `Required "container.clusters.update" permission(s) for the cluster.`)
	case QuotaRefused:
		f.err = status.Error(codes.PermissionDenied, `Insufficient regional quota to satisfy request: resource "CPUS": request requires '4.0' and is short '4.0'.`)
	case OperationInProgress:
		f.err = incompatible(fmt.Sprintf("operation-%d-00000000-0000-4000-8000-000000000000", s.cfg.Clock.Now().UnixMilli()))
	}
	return f
}

// interceptRPC lets gRPC calls fail.
func (s *Server) interceptRPC(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	f := s.takeCallFault(ctx, method)
	if f == nil {
		return handler(ctx, req)
	}
	if f.applied {
		if _, err := handler(ctx, req); err != nil {
			return nil, err
		}
	}
	return nil, f.err
}

// httpStatus is the HTTP status that the Google APIs give for a gRPC code.
func httpStatus(c codes.Code) int {
	switch c {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument, codes.FailedPrecondition:
		return http.StatusBadRequest
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.ResourceExhausted:
		return http.StatusForbidden // what Compute Engine says of its rate limits
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}
