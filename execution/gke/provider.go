// Package gke reads and resizes the node pools of a Google Kubernetes Engine
// cluster. It is the only place that knows Google's clients.
//
// A pool's size is per zone: SetNodePoolSize(n) gives n nodes in each zone that
// the pool spans. The present size is the target size of the pool's managed
// instance groups, one per zone. Exactly one node is removed by telling its
// group to delete that instance; a resize lets GKE choose.
package gke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	container "cloud.google.com/go/container/apiv1"
	"cloud.google.com/go/container/apiv1/containerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/provider"
)

// Config names a cluster and how it is reached.
type Config struct {
	// Project, Location (a region or a zone) and Cluster name the cluster.
	Project, Location, Cluster string
	// Endpoint (host:port) and ComputeEndpoint (base URL) are those of a
	// simulator, spoken to without TLS and without credentials. Both are empty
	// for Google's own.
	Endpoint, ComputeEndpoint string
	// MachineTypes adds to the catalogue and overrides it, by name: other
	// regions' prices, committed use, custom machines, measured speeds.
	MachineTypes map[string]MachineType
}

// Validate reports the first field that can't be used.
func (c Config) Validate() error {
	switch {
	case c.Project == "":
		return errors.New("gke config: Project is empty")
	case c.Location == "":
		return errors.New("gke config: Location is empty")
	case c.Cluster == "":
		return errors.New("gke config: Cluster is empty")
	case (c.Endpoint == "") != (c.ComputeEndpoint == ""):
		return errors.New("gke config: Endpoint and ComputeEndpoint go together")
	}
	for name, m := range c.MachineTypes {
		if err := m.validate(); err != nil {
			return fmt.Errorf("gke config: MachineTypes[%s]: %w", name, err)
		}
	}
	return nil
}

// Provider is a cluster's node pools. Its methods may be called concurrently.
type Provider struct {
	cfg        Config
	containers *container.ClusterManagerClient
	groups     *compute.InstanceGroupManagersClient

	mu sync.Mutex
	// known are the instance groups of the last reading, by pool.
	known map[string][]group
	// removalDenied is when RemoveNode was last not permitted.
	removalDenied time.Time
	// refused are resizes that were refused at once for want of quota or machines, by pool.
	refused map[string]api.PoolError
	// undated are failures of pools that GKE tells no time of, as first seen.
	undated map[string]api.PoolError
}

// group is a managed instance group: a pool's nodes in one zone.
type group struct {
	zone, name string
	// base is what its instances' names begin with.
	base string
}

// New connects to the APIs; it makes no call yet. Google's own are called with
// Application Default Credentials.
func New(ctx context.Context, cfg Config) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var forContainers, forCompute []option.ClientOption
	if cfg.Endpoint != "" {
		forContainers = append(forContainers, option.WithEndpoint(cfg.Endpoint), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
		forCompute = append(forCompute, option.WithEndpoint(cfg.ComputeEndpoint), option.WithHTTPClient(&http.Client{}))
	}
	containers, err := container.NewClusterManagerClient(ctx, forContainers...)
	if err != nil {
		return nil, fmt.Errorf("container API: %w", err)
	}
	groups, err := compute.NewInstanceGroupManagersRESTClient(ctx, forCompute...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compute API: %w", err), containers.Close())
	}
	return &Provider{cfg: cfg, containers: containers, groups: groups, known: map[string][]group{}, refused: map[string]api.PoolError{}, undated: map[string]api.PoolError{}}, nil
}

// Close ends the connections.
func (p *Provider) Close() error {
	return errors.Join(p.containers.Close(), p.groups.Close())
}

func (p *Provider) parent() string {
	return fmt.Sprintf("projects/%s/locations/%s", p.cfg.Project, p.cfg.Location)
}

func (p *Provider) cluster() string { return p.parent() + "/clusters/" + p.cfg.Cluster }

func (p *Provider) pool(name string) string { return p.cluster() + "/nodePools/" + name }

// Apply carries out the actions on pools: ResizePool and RemoveNode.
func (p *Provider) Apply(ctx context.Context, a api.Action) error {
	switch a := a.(type) {
	case api.ResizePool:
		return p.Resize(ctx, a.Pool, a.To)
	case api.RemoveNode:
		return p.RemoveNode(ctx, a)
	default:
		return fmt.Errorf("gke: can't %s", a.Kind())
	}
}

// Resize asks for a size per zone. It returns once GKE has accepted it; nodes
// come and go afterwards, and what becomes of it is seen in Pools. Errors:
// ErrBusy, ErrQuota, ErrStockout, ErrPermission, ErrNotFound, ErrUnavailable.
func (p *Provider) Resize(ctx context.Context, pool string, sizePerZone int32) error {
	_, err := p.containers.SetNodePoolSize(ctx, &containerpb.SetNodePoolSizeRequest{
		Name: p.pool(pool), NodeCount: sizePerZone,
	})
	err = classify(err)
	p.noteRefusal(pool, err)
	if err != nil {
		return fmt.Errorf("resizing pool %s to %d per zone: %w", pool, sizePerZone, err)
	}
	return nil
}

// refusedFor is how long a resize that was refused is told as the pool's error: of one that
// is refused no operation is left to tell it by.
const refusedFor = time.Hour

// noteRefusal remembers that a resize was refused for want of quota or machines, until one
// is accepted.
func (p *Provider) noteRefusal(pool string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		delete(p.refused, pool)
	case errors.Is(err, ErrQuota):
		p.refused[pool] = api.PoolError{Kind: api.PoolQuota, Message: err.Error(), At: time.Now()}
	case errors.Is(err, ErrStockout):
		p.refused[pool] = api.PoolError{Kind: api.PoolStockout, Message: err.Error(), At: time.Now()}
	}
}

// dated is a pool's error with a time: where GKE tells none, when it was first seen. Without
// one it would be of now for ever, and a pool that is never asked for nodes never loses it.
func (p *Provider) dated(pool string, e *api.PoolError) *api.PoolError {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e == nil || !e.At.IsZero() {
		delete(p.undated, pool)
		return e
	}
	first, ok := p.undated[pool]
	if !ok || first.Kind != e.Kind || first.Message != e.Message {
		first = api.PoolError{Kind: e.Kind, Message: e.Message, At: time.Now()}
		p.undated[pool] = first
	}
	return &first
}

// newest is the newer one of a pool's error and a resize of it that was refused.
func (p *Provider) newest(pool string, e *api.PoolError) *api.PoolError {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused, ok := p.refused[pool]
	if !ok || time.Since(refused.At) > refusedFor || e != nil && e.At.After(refused.At) {
		return e
	}
	return &refused
}

// RemoveNode deletes exactly this node's instance and lowers its group's size
// by one. It returns once the deletion is accepted; one that is gone or going
// already is a success. Errors: ErrPermission
// (compute.instanceGroupManagers.update is needed), ErrNotFound, ErrUnavailable.
func (p *Provider) RemoveNode(ctx context.Context, a api.RemoveNode) error {
	zone, name, err := p.instance(a.ProviderID)
	if err != nil {
		return fmt.Errorf("removing node %s: %w", a.Node, err)
	}
	g, err := p.groupOf(ctx, a.Pool, zone, name)
	if err != nil {
		return fmt.Errorf("removing node %s: %w", a.Node, err)
	}
	skip := true // an instance that is gone or going is no error
	_, err = p.groups.DeleteInstances(ctx, &computepb.DeleteInstancesInstanceGroupManagerRequest{
		Project: p.cfg.Project, Zone: zone, InstanceGroupManager: g.name,
		InstanceGroupManagersDeleteInstancesRequestResource: &computepb.InstanceGroupManagersDeleteInstancesRequest{
			Instances:                      []string{fmt.Sprintf("zones/%s/instances/%s", zone, name)},
			SkipInstancesOnValidationError: &skip,
		},
	})
	if err != nil {
		err = classify(err)
		if errors.Is(err, provider.ErrPermission) {
			p.mu.Lock()
			p.removalDenied = time.Now()
			p.mu.Unlock()
		}
		return fmt.Errorf("removing node %s: %w", a.Node, err)
	}
	return nil
}

// deniedFor is how long a removal that was not permitted keeps pools ResizeOnly;
// then it is tried again, as the role may have been given.
const deniedFor = 10 * time.Minute

// Owns tells whether the instance behind a node is one of a pool, as the last
// reading knows its groups. It makes no call.
func (p *Provider) Owns(pool, providerID string) bool {
	zone, name, err := p.instance(providerID)
	if err != nil {
		return false
	}
	_, ok := p.knownGroup(pool, zone, name)
	return ok
}

func (p *Provider) knownGroup(pool, zone, instance string) (group, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.known[pool] {
		if g.zone == zone && strings.HasPrefix(instance, g.base+"-") {
			return g, true
		}
	}
	return group{}, false
}

// instance takes a provider id apart: gce://project/zone/name.
func (p *Provider) instance(providerID string) (zone, name string, err error) {
	rest, ok := strings.CutPrefix(providerID, "gce://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return "", "", fmt.Errorf("provider id %q is not gce://project/zone/name", providerID)
	}
	if parts[0] != p.cfg.Project {
		return "", "", fmt.Errorf("provider id %q is not of project %s", providerID, p.cfg.Project)
	}
	return parts[1], parts[2], nil
}

// groupOf finds the instance group of a pool that an instance belongs to. A
// pool has several in a zone only during a blue-green upgrade.
func (p *Provider) groupOf(ctx context.Context, pool, zone, instance string) (group, error) {
	if g, ok := p.knownGroup(pool, zone, instance); ok {
		return g, nil
	}
	if _, err := p.Pools(ctx); err != nil {
		return group{}, err
	}
	if g, ok := p.knownGroup(pool, zone, instance); ok {
		return g, nil
	}
	return group{}, fmt.Errorf("%w: pool %s has no instance group with %s in %s", ErrNotFound, pool, instance, zone)
}

// parseTime reads GKE's timestamps; zero for an absent one.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t
}
