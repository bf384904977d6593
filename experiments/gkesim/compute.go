package gkesim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/ptr"
)

// zoneOperation is an operation of Compute Engine.
type zoneOperation struct {
	name, zone, kind string
	id               uint64
	target           string
	inserted         time.Time
	done             chan struct{} // closed when it is DONE
}

// computeURL is the self link of a zonal resource.
func (s *Server) computeURL(zone, collection, name string) string {
	return fmt.Sprintf("https://www.googleapis.com/compute/v1/projects/%s/zones/%s/%s/%s", s.cfg.Project, zone, collection, name)
}

// computeHandler serves the Compute Engine REST API.
func (s *Server) computeHandler() http.Handler {
	const zone = "/compute/v1/projects/{project}/zones/{zone}/"
	mux := http.NewServeMux()
	handle := func(pattern, method string, h func(*http.Request) (proto.Message, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := s.compute(r, method, h)
			writeCompute(w, answer, err)
		})
	}
	handle("GET "+zone+"instanceGroupManagers/{name}", "InstanceGroupManagers.Get", s.getGroup)
	handle("POST "+zone+"instanceGroupManagers/{name}/listManagedInstances", "InstanceGroupManagers.ListManagedInstances", s.listInstances)
	handle("POST "+zone+"instanceGroupManagers/{name}/deleteInstances", "InstanceGroupManagers.DeleteInstances", s.deleteInstances)
	handle("GET "+zone+"operations/{name}", "ZoneOperations.Get", s.getZoneOperation)
	handle("POST "+zone+"operations/{name}/wait", "ZoneOperations.Wait", s.waitZoneOperation)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeCompute(w, nil, status.Errorf(codes.NotFound, "The requested URL %s %s was not found on this server.", r.Method, r.URL.Path))
	})
	return mux
}

func (s *Server) compute(r *http.Request, method string, h func(*http.Request) (proto.Message, error)) (proto.Message, error) {
	f := s.takeCallFault(r.Context(), method)
	if f == nil {
		return h(r)
	}
	if f.applied {
		if _, err := h(r); err != nil {
			return nil, err
		}
	}
	return nil, f.err
}

// writeCompute writes an answer or an error as the Google APIs do.
func writeCompute(w http.ResponseWriter, answer proto.Message, err error) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	var body []byte
	if err == nil {
		body, err = protojson.Marshal(answer)
	}
	if err != nil {
		st := status.Convert(err)
		reasons := map[codes.Code]string{codes.NotFound: "notFound", codes.InvalidArgument: "invalid", codes.ResourceExhausted: "rateLimitExceeded", codes.PermissionDenied: "forbidden"}
		reason := "backendError"
		if known, ok := reasons[st.Code()]; ok {
			reason = known
		}
		type item struct {
			Message string `json:"message"`
			Domain  string `json:"domain"`
			Reason  string `json:"reason"`
		}
		type failed struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
			Errors  []item `json:"errors"`
		}
		code := httpStatus(st.Code())
		// Marshalling strings and integers does not fail.
		body, _ = json.Marshal(map[string]failed{"error": {Code: code, Message: st.Message(), Errors: []item{{st.Message(), "global", reason}}}})
		w.WriteHeader(code)
	}
	_, _ = w.Write(body) // the client may be gone
}

// groupOf finds the instance group that a request names. s.mu is held.
func (s *Server) groupOf(r *http.Request) (*group, error) {
	if r.PathValue("project") == s.cfg.Project {
		for _, p := range s.pools {
			for _, g := range p.groups {
				if g.zone == r.PathValue("zone") && g.name == r.PathValue("name") {
					return g, nil
				}
			}
		}
	}
	return nil, computeNotFound(r, "instanceGroupManagers")
}

func computeNotFound(r *http.Request, collection string) error {
	return status.Errorf(codes.NotFound, "The resource 'projects/%s/zones/%s/%s/%s' was not found",
		r.PathValue("project"), r.PathValue("zone"), collection, r.PathValue("name"))
}

func (s *Server) getGroup(r *http.Request) (proto.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.groupOf(r)
	if err != nil {
		return nil, err
	}
	var creating, deleting, none int32
	for _, inst := range g.instances {
		switch inst.phase {
		case refused, provisioning:
			creating++
		case stopping:
			deleting++
		default:
			none++
		}
	}
	return &computepb.InstanceGroupManager{
		Kind:             ptr.To("compute#instanceGroupManager"),
		Name:             &g.name,
		BaseInstanceName: &g.base,
		SelfLink:         ptr.To(s.computeURL(g.zone, "instanceGroupManagers", g.name)),
		InstanceGroup:    ptr.To(s.computeURL(g.zone, "instanceGroups", g.name)),
		Zone:             ptr.To(fmt.Sprintf("https://www.googleapis.com/compute/v1/projects/%s/zones/%s", s.cfg.Project, g.zone)),
		TargetSize:       ptr.To(g.target()),
		CurrentActions:   &computepb.InstanceGroupManagerActionsSummary{Creating: &creating, Deleting: &deleting, None: &none},
		Status:           &computepb.InstanceGroupManagerStatus{IsStable: ptr.To(creating+deleting == 0)},
	}, nil
}

func (s *Server) listInstances(r *http.Request) (proto.Message, error) {
	if filter := r.URL.Query().Get("filter"); filter != "" {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid value for field 'filter': '%s'. Invalid list filter expression.", filter)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.groupOf(r)
	if err != nil {
		return nil, err
	}
	out := &computepb.InstanceGroupManagersListManagedInstancesResponse{}
	for _, inst := range g.instances {
		m := &computepb.ManagedInstance{
			Name:     &inst.name,
			Id:       &inst.id,
			Instance: ptr.To(s.computeURL(g.zone, "instances", inst.name)),
		}
		action := computepb.ManagedInstance_NONE
		state := computepb.ManagedInstance_UNDEFINED_INSTANCE_STATUS
		switch inst.phase {
		case refused:
			action = computepb.ManagedInstance_CREATING
		case provisioning:
			action, state = computepb.ManagedInstance_CREATING, computepb.ManagedInstance_STAGING
		case running:
			state = computepb.ManagedInstance_RUNNING
		case stopping:
			action, state = computepb.ManagedInstance_DELETING, computepb.ManagedInstance_STOPPING
		}
		m.CurrentAction = ptr.To(action.String())
		if state != computepb.ManagedInstance_UNDEFINED_INSTANCE_STATUS {
			m.InstanceStatus = ptr.To(state.String())
		}
		if f := inst.failure; f != nil {
			m.LastAttempt = &computepb.ManagedInstanceLastAttempt{Errors: &computepb.ManagedInstanceLastAttemptErrors{
				Errors: []*computepb.Errors{{Code: &f.reason, Message: &f.message}},
			}}
		}
		out.ManagedInstances = append(out.ManagedInstances, m)
	}
	return out, nil
}

func (s *Server) deleteInstances(r *http.Request) (proto.Message, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 10*mib))
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "reading the request: %v", err)
	}
	req := &computepb.InstanceGroupManagersDeleteInstancesRequest{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, req); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid JSON payload received. %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.groupOf(r)
	if err != nil {
		return nil, err
	}
	var victims []*instance
	for _, url := range req.GetInstances() {
		inst := g.find(path.Base(url))
		switch {
		case inst != nil && inst.phase != stopping:
			victims = append(victims, inst)
		case !req.GetSkipInstancesOnValidationError():
			return nil, status.Errorf(codes.InvalidArgument,
				"Invalid value for field 'instances': '%s'. The instance is not a member of instance group manager '%s' or is being deleted.", url, g.name)
		}
	}
	for _, inst := range victims {
		s.remove(inst)
	}
	// The operation is DONE once the deletions are scheduled, not when they end.
	op := &zoneOperation{
		name: fmt.Sprintf("operation-%d-%013x-%08x-%08x", s.cfg.Clock.Now().UnixMilli(), s.rng.Uint64N(1<<52), s.rng.Uint32(), s.rng.Uint32()),
		zone: g.zone, kind: "compute.instanceGroupManagers.deleteInstances", id: s.nextID(),
		target:   s.computeURL(g.zone, "instanceGroupManagers", g.name),
		inserted: s.cfg.Clock.Now(), done: make(chan struct{}),
	}
	s.zoneOps = append(s.zoneOps, op)
	s.after(s.cfg.OperationLatency, func(context.Context) { close(op.done) })
	return s.zoneOperationProto(op), nil
}

// zoneOperationOf finds the operation that a request names.
func (s *Server) zoneOperationOf(r *http.Request) (*zoneOperation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.zoneOps, func(op *zoneOperation) bool {
		return op.name == r.PathValue("name") && op.zone == r.PathValue("zone")
	})
	if i < 0 || r.PathValue("project") != s.cfg.Project {
		return nil, computeNotFound(r, "operations")
	}
	return s.zoneOps[i], nil
}

func (s *Server) getZoneOperation(r *http.Request) (proto.Message, error) {
	op, err := s.zoneOperationOf(r)
	if err != nil {
		return nil, err
	}
	return s.zoneOperationProto(op), nil
}

// waitZoneOperation answers when the operation is DONE, or after two minutes
// with the state it has then.
func (s *Server) waitZoneOperation(r *http.Request) (proto.Message, error) {
	op, err := s.zoneOperationOf(r)
	if err != nil {
		return nil, err
	}
	timer := s.cfg.Clock.NewTimer(s.real(2 * time.Minute))
	defer timer.Stop()
	select {
	case <-op.done:
	case <-timer.C():
	case <-r.Context().Done():
		return nil, status.FromContextError(r.Context().Err()).Err()
	}
	return s.zoneOperationProto(op), nil
}

func (s *Server) zoneOperationProto(op *zoneOperation) *computepb.Operation {
	state, progress := computepb.Operation_RUNNING, int32(0)
	select {
	case <-op.done:
		state, progress = computepb.Operation_DONE, 100
	default:
	}
	return &computepb.Operation{
		Kind:          ptr.To("compute#operation"),
		Id:            &op.id,
		Name:          &op.name,
		OperationType: &op.kind,
		TargetLink:    &op.target,
		Zone:          ptr.To(fmt.Sprintf("https://www.googleapis.com/compute/v1/projects/%s/zones/%s", s.cfg.Project, op.zone)),
		SelfLink:      ptr.To(s.computeURL(op.zone, "operations", op.name)),
		InsertTime:    ptr.To(op.inserted.UTC().Format(time.RFC3339Nano)),
		Status:        &state,
		Progress:      &progress,
	}
}
