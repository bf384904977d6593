package gke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/container/apiv1/containerpb"
	"google.golang.org/api/iterator"

	"github.com/mash2-io/mash2/api"
)

// concurrentReads bounds the calls for instance groups that are under way at
// once.
const concurrentReads = 8

// Pools returns the cluster's node pools in order of name, with the sizes that
// GKE holds as their targets. One reading takes two calls, one for each
// instance group, and one more for each group that is deleting instances.
//
// Allocatable is GKE's documented formula, for pools without a node to look at;
// Overhead and NodeStartup are left to who watches nodes. Errors: ErrAutopilot,
// ErrPermission, ErrNotFound, ErrUnavailable.
func (p *Provider) Pools(ctx context.Context) ([]api.Pool, error) {
	cluster, err := p.containers.GetCluster(ctx, &containerpb.GetClusterRequest{Name: p.cluster()})
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s: %w", p.cfg.Cluster, classify(err))
	}
	if cluster.GetAutopilot().GetEnabled() {
		return nil, ErrAutopilot
	}
	listed, err := p.containers.ListOperations(ctx, &containerpb.ListOperationsRequest{Parent: p.parent()})
	if err != nil {
		return nil, fmt.Errorf("listing operations: %w", classify(err))
	}
	operations := p.operations(listed.GetOperations())

	states, err := p.readGroups(ctx, cluster.GetNodePools())
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	resizeOnly := !p.removalDenied.IsZero() && time.Since(p.removalDenied) < deniedFor
	p.mu.Unlock()
	known := map[string][]group{}
	var pools []api.Pool
	for _, np := range cluster.GetNodePools() {
		pool := p.describe(np, states[np.GetName()])
		pool.Hold = cmp.Or(pool.Hold, hold(cluster, np, operations))
		pool.Error = p.newest(pool.Name, p.dated(pool.Name, failure(np, states[np.GetName()], operations[np.GetName()])))
		pool.ResizeOnly = resizeOnly
		pool.ResizedAt = resizedAt(operations[np.GetName()])
		pools = append(pools, pool)
		for _, s := range states[np.GetName()] {
			known[np.GetName()] = append(known[np.GetName()], s.group)
		}
	}
	slices.SortFunc(pools, func(a, b api.Pool) int { return strings.Compare(a.Name, b.Name) })
	p.mu.Lock()
	p.known = known
	p.mu.Unlock()
	return pools, nil
}

// groupState is an instance group as read.
type groupState struct {
	group
	target   int32
	stable   bool
	deleting []string // names of instances
}

// readGroups reads the instance groups of all pools, by pool.
func (p *Provider) readGroups(ctx context.Context, pools []*containerpb.NodePool) (map[string][]groupState, error) {
	type job struct {
		pool  string
		group group
	}
	var jobs []job
	for _, np := range pools {
		for _, url := range np.GetInstanceGroupUrls() {
			g, err := parseGroupURL(url)
			if err != nil {
				return nil, fmt.Errorf("pool %s: %w", np.GetName(), err)
			}
			jobs = append(jobs, job{np.GetName(), g})
		}
	}
	states := make([]groupState, len(jobs))
	errs := make([]error, len(jobs))
	slots := make(chan struct{}, concurrentReads)
	var wg sync.WaitGroup
	for i, j := range jobs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			states[i], errs[i] = p.readGroup(ctx, j.group)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out := map[string][]groupState{}
	for i, j := range jobs {
		out[j.pool] = append(out[j.pool], states[i])
	}
	return out, nil
}

func (p *Provider) readGroup(ctx context.Context, g group) (groupState, error) {
	mig, err := p.groups.Get(ctx, &computepb.GetInstanceGroupManagerRequest{
		Project: p.cfg.Project, Zone: g.zone, InstanceGroupManager: g.name,
	})
	if err != nil {
		return groupState{}, fmt.Errorf("reading instance group %s: %w", g.name, classify(err))
	}
	g.base = cmp.Or(mig.GetBaseInstanceName(), strings.TrimSuffix(g.name, "-grp"))
	state := groupState{group: g, target: mig.GetTargetSize(), stable: mig.GetStatus().GetIsStable()}
	if mig.GetCurrentActions().GetDeleting() == 0 {
		return state, nil
	}
	it := p.groups.ListManagedInstances(ctx, &computepb.ListManagedInstancesInstanceGroupManagersRequest{
		Project: p.cfg.Project, Zone: g.zone, InstanceGroupManager: g.name,
	})
	for {
		m, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return state, nil
		}
		if err != nil {
			return groupState{}, fmt.Errorf("listing instances of %s: %w", g.name, classify(err))
		}
		if m.GetCurrentAction() == computepb.ManagedInstance_DELETING.String() {
			state.deleting = append(state.deleting, path.Base(m.GetInstance()))
		}
	}
}

// parseGroupURL reads …/zones/ZONE/instanceGroupManagers/NAME; older pools name
// instanceGroups instead, with the same name.
func parseGroupURL(url string) (group, error) {
	parts := strings.Split(url, "/")
	n := len(parts)
	if n < 4 || parts[n-4] != "zones" || !strings.HasPrefix(parts[n-2], "instanceGroup") || parts[n-3] == "" || parts[n-1] == "" {
		return group{}, fmt.Errorf("instance group URL %q has no zone and name", url)
	}
	return group{zone: parts[n-3], name: parts[n-1]}, nil
}

// describe is a pool without its operations.
func (p *Provider) describe(np *containerpb.NodePool, groups []groupState) api.Pool {
	config := np.GetConfig()
	pool := api.Pool{
		Name:        np.GetName(),
		MachineType: config.GetMachineType(),
		Zones:       slices.Sorted(slices.Values(np.GetLocations())),
		Autoscaled:  np.GetAutoscaling().GetEnabled(),
		Labels:      labels(np),
	}
	if pool.Autoscaled {
		pool.AutoscaledBy = "GKE's autoscaling of the node pool"
	}
	pool.Sizes = make([]int32, len(pool.Zones))
	for _, g := range groups {
		if i, ok := slices.BinarySearch(pool.Zones, g.zone); ok {
			pool.Sizes[i] += g.target
		}
		pool.Deleting = append(pool.Deleting, g.deleting...)
	}
	slices.Sort(pool.Deleting)
	for _, t := range config.GetTaints() {
		pool.Taints = append(pool.Taints, api.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: taintEffects[t.GetEffect()]})
	}
	// GKE taints Arm nodes by itself, and has pods tolerate that which ask for them by selector or affinity.
	if of := pool.Labels[archLabel]; of != archX86 && config.GetTaintConfig().GetArchitectureTaintBehavior() != containerpb.TaintConfig_NONE &&
		!slices.ContainsFunc(pool.Taints, func(t api.Taint) bool { return t.Key == archLabel }) {
		pool.Taints = append(pool.Taints, api.Taint{Key: archLabel, Value: of, Effect: "NoSchedule"})
	}
	machine, ok := p.cfg.MachineTypes[pool.MachineType]
	if !ok {
		machine, ok = LookupMachineType(pool.MachineType)
	}
	if !ok {
		pool.Hold = fmt.Sprintf("machine type %s is not in the catalogue: its size, price and speed have to be configured", pool.MachineType)
		return pool
	}
	pool.Allocatable = machine.allocatable(int64(config.GetDiskSizeGb()), np.GetMaxPodsConstraint().GetMaxPodsPerNode())
	pool.Cores = machine.MilliCPU
	pool.CPUSpeed = machine.CPUSpeed
	spot := api.DescribeSpot(&pool, pool.Labels)
	price, err := api.PriceLabel(pool)
	if err := errors.Join(spot, err); err != nil {
		pool.Hold = err.Error()
	}
	if pool.Price = machine.Price; pool.Spot {
		pool.Price *= api.SpotPriceRatio
	}
	pool.Price = cmp.Or(price, pool.Price)
	return pool
}

var taintEffects = map[containerpb.NodeTaint_Effect]string{
	containerpb.NodeTaint_NO_SCHEDULE:        "NoSchedule",
	containerpb.NodeTaint_PREFER_NO_SCHEDULE: "PreferNoSchedule",
	containerpb.NodeTaint_NO_EXECUTE:         "NoExecute",
}

// labels are those that every node of the pool bears.
func labels(np *containerpb.NodePool) map[string]string {
	out := maps.Clone(np.GetConfig().GetLabels())
	if out == nil {
		out = map[string]string{}
	}
	machine := np.GetConfig().GetMachineType()
	series, _, _ := strings.Cut(machine, "-")
	out[api.LabelNodePool] = np.GetName()
	out["node.kubernetes.io/instance-type"] = machine
	out["beta.kubernetes.io/instance-type"] = machine
	out["cloud.google.com/machine-family"] = series
	out["kubernetes.io/os"] = "linux"
	out[archLabel] = arch(series)
	if zones := np.GetLocations(); len(zones) > 0 {
		if i := strings.LastIndex(zones[0], "-"); i > 0 {
			out["topology.kubernetes.io/region"] = zones[0][:i]
		}
		if len(zones) == 1 {
			out[api.LabelZone] = zones[0]
		}
	}
	const provisioning = "cloud.google.com/gke-provisioning"
	switch {
	case np.GetConfig().GetSpot():
		out["cloud.google.com/gke-spot"], out[provisioning] = "true", "spot"
	case np.GetConfig().GetPreemptible():
		out["cloud.google.com/gke-preemptible"], out[provisioning] = "true", "preemptible"
	default:
		out[provisioning] = "standard"
	}
	return out
}

const (
	archLabel = "kubernetes.io/arch"
	archX86   = "amd64"
)

// arch of a machine series: Arm ones end in a after the generation.
func arch(series string) string {
	switch series {
	case "t2a", "c4a", "n4a":
		return "arm64"
	}
	return archX86
}

// operations sorts operations by the pool they are on, newest first; those on
// the cluster are under the empty name. Others' are left out.
func (p *Provider) operations(all []*containerpb.Operation) map[string][]*containerpb.Operation {
	out := map[string][]*containerpb.Operation{}
	for _, op := range all {
		_, target, ok := strings.Cut(op.GetTargetLink(), "/clusters/")
		if !ok {
			continue
		}
		cluster, rest, onPool := strings.Cut(target, "/nodePools/")
		if cluster != p.cfg.Cluster {
			continue
		}
		name := ""
		if onPool {
			name = rest
		}
		out[name] = append(out[name], op)
	}
	for _, ops := range out {
		slices.SortStableFunc(ops, func(a, b *containerpb.Operation) int {
			return parseTime(b.GetStartTime()).Compare(parseTime(a.GetStartTime()))
		})
	}
	return out
}

// hold says why a pool can't be resized now; empty if it can.
func hold(cluster *containerpb.Cluster, np *containerpb.NodePool, operations map[string][]*containerpb.Operation) string {
	for _, scope := range []string{"", np.GetName()} {
		for _, op := range operations[scope] {
			if op.GetStatus() != containerpb.Operation_DONE {
				return fmt.Sprintf("%s is %s (%s)", op.GetOperationType(), op.GetStatus(), op.GetName())
			}
		}
	}
	switch cluster.GetStatus() {
	case containerpb.Cluster_PROVISIONING, containerpb.Cluster_STOPPING, containerpb.Cluster_ERROR:
		return "the cluster is " + cluster.GetStatus().String()
	}
	switch np.GetStatus() {
	case containerpb.NodePool_RUNNING, containerpb.NodePool_RUNNING_WITH_ERROR, containerpb.NodePool_STATUS_UNSPECIFIED:
		return ""
	}
	return "the pool is " + np.GetStatus().String()
}

// resizedAt is when the newest resize began, by the operations that GKE still
// lists; zero if none is listed.
func resizedAt(operations []*containerpb.Operation) time.Time {
	for _, op := range operations {
		if op.GetOperationType() == containerpb.Operation_SET_NODE_POOL_SIZE {
			return parseTime(op.GetStartTime())
		}
	}
	return time.Time{}
}

// failure is why a pool doesn't have the size asked for: its conditions say so
// as long as it lasts; failing those, its newest operation does, unless the
// instance groups have got there since.
func failure(np *containerpb.NodePool, groups []groupState, operations []*containerpb.Operation) *api.PoolError {
	var last *containerpb.Operation
	if len(operations) > 0 && operations[0].GetStatus() == containerpb.Operation_DONE && operations[0].GetError() != nil {
		last = operations[0]
	}
	for _, c := range np.GetConditions() {
		if kind, ok := kindOfCondition(c); ok {
			return &api.PoolError{Kind: kind, Message: c.GetMessage(), At: parseTime(last.GetEndTime())}
		}
	}
	if last == nil {
		return nil
	}
	kind := api.PoolOther
	for _, c := range last.GetNodepoolConditions() { //nolint:staticcheck // deprecated, but GKE fills it, and its code says more than the error
		if k, ok := kindOfCondition(c); ok && k != api.PoolOther {
			kind = k
		}
	}
	if kind == api.PoolOther {
		kind = kindOfMessage(last.GetError().GetMessage() + " " + last.GetDetail())
	}
	stable := !slices.ContainsFunc(groups, func(g groupState) bool { return !g.stable })
	if stable && kind != api.PoolOther {
		return nil
	}
	return &api.PoolError{
		Kind: kind, Message: cmp.Or(last.GetDetail(), last.GetError().GetMessage()), At: parseTime(last.GetEndTime()),
	}
}
