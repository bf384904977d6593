package gkesim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/container/apiv1/containerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
)

func (s *Server) parent() string {
	return fmt.Sprintf("projects/%s/locations/%s", s.cfg.Project, s.cfg.Location)
}

func (s *Server) clusterName() string { return s.parent() + "/clusters/" + s.cfg.Cluster }

// ListClusters lists the one cluster there is.
func (s *Server) ListClusters(ctx context.Context, req *containerpb.ListClustersRequest) (*containerpb.ListClustersResponse, error) {
	if err := s.checkParent(req.GetParent(), s.parent()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &containerpb.ListClustersResponse{Clusters: []*containerpb.Cluster{s.cluster()}}, nil
}

// GetCluster reads the cluster with its pools.
func (s *Server) GetCluster(ctx context.Context, req *containerpb.GetClusterRequest) (*containerpb.Cluster, error) {
	if err := s.checkParent(req.GetName(), s.clusterName()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster(), nil
}

// ListNodePools lists the pools.
func (s *Server) ListNodePools(ctx context.Context, req *containerpb.ListNodePoolsRequest) (*containerpb.ListNodePoolsResponse, error) {
	if err := s.checkParent(req.GetParent(), s.clusterName()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &containerpb.ListNodePoolsResponse{NodePools: s.nodePools()}, nil
}

// GetNodePool reads one pool.
func (s *Server) GetNodePool(ctx context.Context, req *containerpb.GetNodePoolRequest) (*containerpb.NodePool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.poolOf(req.GetName())
	if err != nil {
		return nil, err
	}
	return s.nodePool(p), nil
}

// SetNodePoolSize brings every zone of a pool to the given size.
func (s *Server) SetNodePoolSize(ctx context.Context, req *containerpb.SetNodePoolSizeRequest) (*containerpb.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.poolOf(req.GetName())
	if err != nil {
		return nil, err
	}
	if req.GetNodeCount() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid value for field \"node_count\": %d. Node count must be at least 0.", req.GetNodeCount())
	}
	op, err := s.begin(containerpb.Operation_SET_NODE_POOL_SIZE, p)
	if err != nil {
		return nil, err
	}
	op.work = func() {
		for _, g := range p.groups {
			created, removed := s.resize(g, req.GetNodeCount())
			op.created = append(op.created, created...)
			op.removed = append(op.removed, removed...)
		}
		s.watchResize(op)
	}
	return s.operationProto(op), nil
}

// SetNodePoolAutoscaling switches a pool's autoscaling and its bounds.
func (s *Server) SetNodePoolAutoscaling(ctx context.Context, req *containerpb.SetNodePoolAutoscalingRequest) (*containerpb.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.poolOf(req.GetName())
	if err != nil {
		return nil, err
	}
	want := req.GetAutoscaling()
	if want.GetEnabled() {
		perZone := want.GetMaxNodeCount() > 0 && want.GetMinNodeCount() >= 0 && want.GetMinNodeCount() <= want.GetMaxNodeCount()
		total := want.GetTotalMaxNodeCount() > 0 && want.GetTotalMinNodeCount() >= 0 && want.GetTotalMinNodeCount() <= want.GetTotalMaxNodeCount()
		if perZone == total {
			return nil, status.Error(codes.InvalidArgument, "Autoscaling needs either min_node_count ≤ max_node_count or total_min_node_count ≤ total_max_node_count.")
		}
	}
	op, err := s.begin(containerpb.Operation_UPDATE_CLUSTER, p)
	if err != nil {
		return nil, err
	}
	op.work = func() {
		p.autoscaling = &containerpb.NodePoolAutoscaling{}
		if want.GetEnabled() {
			p.autoscaling = &containerpb.NodePoolAutoscaling{
				Enabled:           true,
				MinNodeCount:      want.GetMinNodeCount(),
				MaxNodeCount:      want.GetMaxNodeCount(),
				TotalMinNodeCount: want.GetTotalMinNodeCount(),
				TotalMaxNodeCount: want.GetTotalMaxNodeCount(),
				LocationPolicy:    want.GetLocationPolicy(),
			}
			def(&p.autoscaling.LocationPolicy, containerpb.NodePoolAutoscaling_BALANCED)
		}
		s.after(s.cfg.OperationLatency, func(context.Context) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.done(op)
		})
	}
	return s.operationProto(op), nil
}

// GetOperation reads one operation.
func (s *Server) GetOperation(ctx context.Context, req *containerpb.GetOperationRequest) (*containerpb.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := strings.TrimPrefix(req.GetName(), s.parent()+"/operations/")
	i := slices.IndexFunc(s.operations, func(op *operation) bool { return op.name == id })
	if i < 0 {
		return nil, notFound(req.GetName())
	}
	return s.operationProto(s.operations[i]), nil
}

// ListOperations lists all operations so far.
func (s *Server) ListOperations(ctx context.Context, req *containerpb.ListOperationsRequest) (*containerpb.ListOperationsResponse, error) {
	if err := s.checkParent(req.GetParent(), s.parent()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &containerpb.ListOperationsResponse{}
	for _, op := range s.operations {
		out.Operations = append(out.Operations, s.operationProto(op))
	}
	return out, nil
}

func (s *Server) checkParent(got, want string) error {
	if got != want {
		return notFound(got)
	}
	return nil
}

func notFound(name string) error { return status.Errorf(codes.NotFound, "Not found: %s.", name) }

// poolOf resolves the resource name of a pool. s.mu is held.
func (s *Server) poolOf(name string) (*pool, error) {
	id, ok := strings.CutPrefix(name, s.clusterName()+"/nodePools/")
	if p := s.findPool(id); ok && p != nil {
		return p, nil
	}
	return nil, notFound(name)
}

// cluster renders the cluster. s.mu is held.
func (s *Server) cluster() *containerpb.Cluster {
	out := &containerpb.Cluster{
		Name:                 s.cfg.Cluster,
		Location:             s.cfg.Location,
		SelfLink:             "https://container.googleapis.com/v1/" + s.clusterName(),
		CurrentMasterVersion: s.cfg.Version,
		Status:               containerpb.Cluster_RUNNING,
		NodePools:            s.nodePools(),
		Autopilot:            &containerpb.Autopilot{Enabled: s.cfg.Autopilot},
	}
	if s.clusterOp != nil {
		out.Status = containerpb.Cluster_RECONCILING
	}
	nodes := int32(0)
	for _, p := range s.pools {
		if p.op != nil {
			out.Status = containerpb.Cluster_RECONCILING
		}
		for _, g := range p.groups {
			nodes += g.target()
			out.Locations = append(out.Locations, g.zone)
		}
	}
	slices.Sort(out.Locations)
	out.Locations = slices.Compact(out.Locations)
	out.CurrentNodeCount = nodes //nolint:staticcheck // deprecated, but GKE fills it
	return out
}

// nodePools renders all pools. s.mu is held.
func (s *Server) nodePools() []*containerpb.NodePool {
	var out []*containerpb.NodePool
	for _, p := range s.pools {
		out = append(out, s.nodePool(p))
	}
	return out
}

// nodePool renders p. s.mu is held.
func (s *Server) nodePool(p *pool) *containerpb.NodePool {
	out := &containerpb.NodePool{
		Name:             p.Name,
		SelfLink:         fmt.Sprintf("https://container.googleapis.com/v1/%s/nodePools/%s", s.clusterName(), p.Name),
		Version:          s.cfg.Version,
		InitialNodeCount: p.Size,
		Locations:        slices.Clone(p.Zones),
		Status:           containerpb.NodePool_RUNNING,
		Config: &containerpb.NodeConfig{
			MachineType: p.MachineType,
			DiskSizeGb:  int32(p.DiskGiB),
			DiskType:    "pd-balanced",
			ImageType:   "COS_CONTAINERD",
			Labels:      p.Labels,
			Spot:        p.Spot,
		},
		Autoscaling: &containerpb.NodePoolAutoscaling{
			Enabled:           p.autoscaling.GetEnabled(),
			MinNodeCount:      p.autoscaling.GetMinNodeCount(),
			MaxNodeCount:      p.autoscaling.GetMaxNodeCount(),
			TotalMinNodeCount: p.autoscaling.GetTotalMinNodeCount(),
			TotalMaxNodeCount: p.autoscaling.GetTotalMaxNodeCount(),
			LocationPolicy:    p.autoscaling.GetLocationPolicy(),
		},
		Management:        &containerpb.NodeManagement{AutoUpgrade: true, AutoRepair: true},
		MaxPodsConstraint: &containerpb.MaxPodsConstraint{MaxPodsPerNode: maxPods},
	}
	for _, t := range p.Taints {
		out.Config.Taints = append(out.Config.Taints, &containerpb.NodeTaint{Key: t.Key, Value: t.Value, Effect: taintEffects[t.Effect]})
	}
	for _, g := range p.groups {
		out.InstanceGroupUrls = append(out.InstanceGroupUrls, s.computeURL(g.zone, "instanceGroupManagers", g.name))
		for _, inst := range g.instances {
			if inst.phase == refused && inst.failure != nil {
				out.Conditions = append(out.Conditions, inst.failure.condition())
				break // one per group is what GKE tells
			}
		}
	}
	switch {
	case p.op != nil:
		out.Status = containerpb.NodePool_RECONCILING
	case len(out.Conditions) > 0:
		out.Status = containerpb.NodePool_RUNNING_WITH_ERROR
	}
	return out
}

var taintEffects = map[corev1.TaintEffect]containerpb.NodeTaint_Effect{
	corev1.TaintEffectNoSchedule:       containerpb.NodeTaint_NO_SCHEDULE,
	corev1.TaintEffectPreferNoSchedule: containerpb.NodeTaint_PREFER_NO_SCHEDULE,
	corev1.TaintEffectNoExecute:        containerpb.NodeTaint_NO_EXECUTE,
}
