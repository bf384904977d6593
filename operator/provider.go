package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/clusterapi"
	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/execution/kind"
	"github.com/mash2-io/mash2/execution/provider"
)

// Names of the providers. None plans replicas only; Kind parks nodes that are
// there.
const (
	None       = "none"
	GKE        = "gke"
	ClusterAPI = "clusterapi"
	Kind       = "kind"
)

// Provider says who has the node pools.
type Provider struct {
	// Name is GKE, ClusterAPI, Kind or None; empty is None.
	Name string
	// ReadOnly reads node pools and leaves them alone.
	ReadOnly bool
	// GKE names the cluster for the provider of that name.
	GKE gke.Config
	// ClusterAPI names the Cluster object for the provider of that name; without
	// REST it is in the operator's own cluster.
	ClusterAPI clusterapi.Config
}

// name in logs.
func (p Provider) name() string { return cmp.Or(p.Name, None) }

// Validate reports the first field that can't be used.
func (p Provider) Validate() error {
	switch p.Name {
	case None, "":
		if p.ReadOnly {
			return errors.New("operator config: Provider.ReadOnly needs a provider that reads pools")
		}
	case Kind:
	case GKE:
		return p.GKE.Validate()
	case ClusterAPI:
		cfg := p.ClusterAPI
		cfg.REST = cmp.Or(cfg.REST, &rest.Config{}) // comes with the operator's own
		return cfg.Validate()
	default:
		return fmt.Errorf("operator config: Provider.Name must be %s, %s, %s or %s, not %q", GKE, ClusterAPI, Kind, None, p.Name)
	}
	return nil
}

// PoolLabel is the label of nodes that names their pool.
func (p Provider) PoolLabel() string {
	switch p.Name {
	case ClusterAPI:
		return clusterapi.LabelPool
	case Kind:
		return kind.LabelPool
	}
	return api.LabelNodePool
}

// openPatience is how long the start waits for a provider's first answer.
const openPatience = 10 * time.Second

// open reaches the provider of a cluster, nil for none. It fails where the
// provider says that nodes can't be managed; one that can't be reached now may be
// later. The function returned closes it, and is never nil.
func (p Provider) open(ctx context.Context, cfg *rest.Config, client kubernetes.Interface) (nodes provider.Provider, closeIt func() error, err error) {
	nodes, closeIt, err = p.connect(ctx, cfg, client)
	if nodes == nil || err != nil {
		return nil, closeIt, err
	}
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	if _, err := nodes.Pools(ctx); errors.Is(err, provider.ErrUnsupported) {
		return nil, closeIt, errors.Join(fmt.Errorf("provider %s: %w", p.Name, err), closeIt())
	}
	if p.ReadOnly {
		nodes = provider.ReadOnly{Provider: nodes}
	}
	return nodes, closeIt, nil
}

// connect makes the provider's client.
func (p Provider) connect(ctx context.Context, cfg *rest.Config, client kubernetes.Interface) (provider.Provider, func() error, error) {
	nothing := func() error { return nil }
	switch p.Name {
	case Kind:
		return kind.New(client), nothing, nil
	case ClusterAPI:
		of := p.ClusterAPI
		of.REST = cmp.Or(of.REST, cfg)
		nodes, err := clusterapi.New(of)
		if err != nil {
			return nil, nothing, err
		}
		return nodes, nothing, nil
	case GKE:
		nodes, err := gke.New(ctx, p.GKE)
		if err != nil {
			return nil, nothing, fmt.Errorf("reaching GKE cluster %s/%s/%s: %w", p.GKE.Project, p.GKE.Location, p.GKE.Cluster, err)
		}
		return nodes, nodes.Close, nil
	}
	return nil, nothing, nil
}
