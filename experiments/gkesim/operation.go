package gkesim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/container/apiv1/containerpb"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// operation is a GKE operation.
type operation struct {
	name       string
	kind       containerpb.Operation_Type
	pool       *pool // nil: the whole cluster
	status     containerpb.Operation_Status
	start, end time.Time
	// err is set when it ended in an error; detail and conditions go with it.
	err        *status.Status
	detail     string
	conditions []*containerpb.StatusCondition
	// work is what it does once RUNNING. It ends the operation by s.done.
	work func()

	// Of a resize: the instances it waits for, and how many nodes it wants.
	created, removed []*instance
	refusedAt        time.Time // when it first found instances refused
}

// begin starts an operation on p, or on the cluster if p is nil, unless another
// one is in the way. s.mu is held.
func (s *Server) begin(kind containerpb.Operation_Type, p *pool) (*operation, error) {
	if s.clusterOp != nil {
		return nil, incompatible(s.clusterOp.name)
	}
	for _, other := range s.pools {
		if other.op != nil && (p == nil || p == other) {
			return nil, incompatible(other.op.name)
		}
	}
	now := s.cfg.Clock.Now()
	op := &operation{
		name: fmt.Sprintf("operation-%d-%08x-%04x-4%03x-8%03x-%012x", now.UnixMilli(),
			s.rng.Uint32(), s.rng.IntN(1<<16), s.rng.IntN(1<<12), s.rng.IntN(1<<12), s.rng.Uint64N(1<<48)),
		kind:   kind,
		pool:   p,
		status: containerpb.Operation_PENDING,
		start:  now,
	}
	s.operations = append(s.operations, op)
	if p == nil {
		s.clusterOp = op
	} else {
		p.op = op
	}
	s.after(s.cfg.OperationLatency, func(context.Context) {
		s.mu.Lock()
		defer s.mu.Unlock()
		op.status = containerpb.Operation_RUNNING
		site := faultSite{}
		if p != nil {
			site.pool = p.Name
		}
		site.kind = OperationError
		if s.takeFault(site) != nil {
			s.endWith(op, &failure{canonical: code.Code_INTERNAL, message: "An internal error has occurred."})
			return
		}
		site.kind = SlowOperation
		if f := s.takeFault(site); f != nil {
			s.after(f.Delay, func(context.Context) {
				s.mu.Lock()
				defer s.mu.Unlock()
				op.work()
			})
			return
		}
		op.work()
	})
	return op, nil
}

// incompatible is GKE's answer to a second operation.
func incompatible(running string) error {
	st := status.Newf(codes.FailedPrecondition, "Cluster is running incompatible operation %s.", running)
	if detailed, err := st.WithDetails(&errdetails.ErrorInfo{
		Reason: "CLUSTER_ALREADY_HAS_OPERATION",
		Domain: "container.googleapis.com",
	}); err == nil {
		st = detailed
	}
	return st.Err()
}

// done ends op well. s.mu is held.
func (s *Server) done(op *operation) {
	op.status = containerpb.Operation_DONE
	op.end = s.cfg.Clock.Now()
	if op.pool != nil {
		op.pool.op = nil
	} else {
		s.clusterOp = nil
	}
}

// endWith ends op in an error. s.mu is held.
func (s *Server) endWith(op *operation, f *failure) {
	op.err = status.New(codes.Code(f.canonical), f.message)
	if op.detail == "" {
		op.detail = f.message
	}
	op.conditions = []*containerpb.StatusCondition{f.condition()}
	s.done(op)
}

func (f *failure) condition() *containerpb.StatusCondition {
	return &containerpb.StatusCondition{
		Code:          f.code, //nolint:staticcheck // deprecated, but GKE fills it
		CanonicalCode: f.canonical,
		Message:       f.message,
	}
}

// watchResize ends a resize once its instances are there and gone, or gives up.
// s.mu is held.
func (s *Server) watchResize(op *operation) {
	var refusals []*failure
	silent, booting, leaving, up := 0, 0, 0, 0
	for _, inst := range op.created {
		switch {
		case inst.phase == stopping: // somebody took it away meanwhile
		case inst.phase == refused:
			refusals = append(refusals, inst.failure)
		case inst.phase == provisioning:
			booting++
		case inst.silent:
			silent++
		default:
			up++
		}
	}
	for _, inst := range op.removed {
		if inst.group.find(inst.name) == inst {
			leaving++
		}
	}
	now := s.cfg.Clock.Now()
	switch {
	case len(refusals) > 0 && op.refusedAt.IsZero():
		op.refusedAt = now
	case len(refusals) == 0:
		op.refusedAt = time.Time{}
	}
	switch {
	case len(refusals)+silent+booting+leaving == 0:
		s.done(op)
	case len(refusals) > 0 && now.Sub(op.refusedAt) >= s.real(s.cfg.GiveUpAfter):
		op.detail = s.igmDetail(op, refusals, up, now)
		s.endWith(op, refusals[0])
	case silent > 0 && booting+leaving+len(refusals) == 0 && now.Sub(op.start) >= s.real(s.cfg.RegisterTimeout):
		s.endWith(op, &failure{
			canonical: code.Code_UNKNOWN,
			message: fmt.Sprintf("All cluster resources were brought up, but: only %d nodes out of %d have registered; this is likely due to Nodes failing to start correctly; try re-creating the cluster or contact support if that doesn't work.",
				up, len(op.created)),
		})
	default:
		s.after(s.cfg.OperationLatency, func(context.Context) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.watchResize(op)
		})
	}
}

// igmDetail is how GKE words instances that could not be created.
func (s *Server) igmDetail(op *operation, refusals []*failure, up int, now time.Time) string {
	var current []string
	for _, f := range refusals {
		current = append(current, fmt.Sprintf("[%s]: %s", f.code, f.message))
	}
	slices.Sort(current)
	waited := time.Duration(float64(now.Sub(op.start)) * s.cfg.Speed)
	detail := fmt.Sprintf("Not all instances running in IGM after %v. Expected %d, running %d, transitioning %d. Current errors: %s",
		waited, len(op.created), up, len(op.created)-up, strings.Join(current, "; "))
	if refusals[0].code == containerpb.StatusCondition_GCE_QUOTA_EXCEEDED {
		return "Insufficient quota to satisfy the request: " + detail
	}
	return "Google Compute Engine: " + detail
}

// Occupy starts an operation that does nothing for d of scenario time but keep
// others off the pool, or off the whole cluster if pool is empty: an upgrade, a
// repair. It returns the operation's name.
func (s *Server) Occupy(kind containerpb.Operation_Type, pool string, d time.Duration) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.findPool(pool)
	if p == nil && pool != "" {
		return "", fmt.Errorf("gkesim: no pool %q", pool)
	}
	op, err := s.begin(kind, p)
	if err != nil {
		return "", err
	}
	op.work = func() {
		s.after(d, func(context.Context) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.done(op)
		})
	}
	return op.name, nil
}

// proto renders op. s.mu is held.
func (s *Server) operationProto(op *operation) *containerpb.Operation {
	target := "https://container.googleapis.com/v1/" + s.clusterName()
	if op.pool != nil {
		target += "/nodePools/" + op.pool.Name
	}
	out := &containerpb.Operation{
		Name:               op.name,
		Location:           s.cfg.Location,
		OperationType:      op.kind,
		Status:             op.status,
		Detail:             op.detail,
		SelfLink:           fmt.Sprintf("https://container.googleapis.com/v1/%s/operations/%s", s.parent(), op.name),
		TargetLink:         target,
		StartTime:          op.start.UTC().Format(time.RFC3339Nano),
		NodepoolConditions: op.conditions, //nolint:staticcheck // deprecated, but GKE fills it
	}
	if !op.end.IsZero() {
		out.EndTime = op.end.UTC().Format(time.RFC3339Nano)
	}
	if op.err != nil {
		out.Error = op.err.Proto()
		out.StatusMessage = op.detail //nolint:staticcheck // deprecated, but GKE fills it and gcloud shows it
	}
	return out
}
