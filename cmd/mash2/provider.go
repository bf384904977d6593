package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/clusterapi"
	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/execution/kind"
	"github.com/mash2-io/mash2/execution/provider"
)

// providerFlags say who has the node pools.
type providerFlags struct {
	name      string
	readOnly  bool
	poolLabel string

	gkeProject, gkeLocation, gkeCluster string
	gkeEndpoint, gkeComputeEndpoint     string

	clusterAPIKubeconfig, clusterAPINamespace, clusterAPICluster string
}

func (p *providerFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.name, "provider", "none", "who resizes node pools: gke, clusterapi (MachineDeployments), kind (parks nodes that are there), or none to plan replicas only")
	f.BoolVar(&p.readOnly, "provider-read-only", false, "read node pools, and leave them alone")
	f.StringVar(&p.poolLabel, "pool-label", "", "label of nodes that names their pool; the provider's own if empty")
	f.StringVar(&p.gkeProject, "gke-project", "", "project of the GKE cluster")
	f.StringVar(&p.gkeLocation, "gke-location", "", "location of the GKE cluster: a region or a zone")
	f.StringVar(&p.gkeCluster, "gke-cluster", "", "name of the GKE cluster")
	f.StringVar(&p.gkeEndpoint, "gke-endpoint", "", "address of another container API, spoken to without TLS and credentials (a simulator)")
	f.StringVar(&p.gkeComputeEndpoint, "gke-compute-endpoint", "", "URL of another compute API, spoken to without credentials (a simulator)")
	f.StringVar(&p.clusterAPIKubeconfig, "clusterapi-kubeconfig", "", "kubeconfig of Cluster API's management cluster; this cluster if empty")
	f.StringVar(&p.clusterAPINamespace, "clusterapi-namespace", "", "namespace of the Cluster object")
	f.StringVar(&p.clusterAPICluster, "clusterapi-cluster", "", "name of the Cluster object")
}

// validate reports the first flag that can't be used.
func (p *providerFlags) validate() error {
	needed := map[string]string{}
	switch p.name {
	case "none":
		if p.readOnly {
			return usagef("--provider-read-only needs a --provider that reads pools")
		}
	case "kind":
	case "gke":
		needed = map[string]string{"gke-project": p.gkeProject, "gke-location": p.gkeLocation, "gke-cluster": p.gkeCluster}
	case "clusterapi":
		needed = map[string]string{"clusterapi-namespace": p.clusterAPINamespace, "clusterapi-cluster": p.clusterAPICluster}
	default:
		return usagef("--provider must be gke, clusterapi, kind or none, not %q", p.name)
	}
	for _, name := range []string{"gke-project", "gke-location", "gke-cluster", "clusterapi-namespace", "clusterapi-cluster"} {
		if value, ok := needed[name]; ok && value == "" {
			return usagef("--provider %s needs --%s", p.name, name)
		}
	}
	if (p.gkeEndpoint == "") != (p.gkeComputeEndpoint == "") {
		return usagef("--gke-endpoint and --gke-compute-endpoint go together")
	}
	return nil
}

// label of nodes that names their pool.
func (p *providerFlags) label() string {
	own := map[string]string{"clusterapi": clusterapi.LabelPool, "kind": kind.LabelPool}
	return cmp.Or(p.poolLabel, own[p.name], api.LabelNodePool)
}

// open reaches the provider, nil for none. It fails where the provider says that
// nodes can't be managed; one that can't be reached now may be later.
func (p *providerFlags) open(ctx context.Context, cfg *rest.Config, client kubernetes.Interface) (nodes provider.Provider, closeIt func() error, err error) {
	closeIt = func() error { return nil }
	switch p.name {
	case "none":
		return nil, closeIt, nil
	case "kind":
		nodes = kind.New(client)
	case "clusterapi":
		management := cfg
		if p.clusterAPIKubeconfig != "" {
			if management, err = clientcmd.BuildConfigFromFlags("", p.clusterAPIKubeconfig); err != nil {
				return nil, closeIt, usagef("--clusterapi-kubeconfig: %v", err)
			}
		}
		nodes, err = clusterapi.New(clusterapi.Config{REST: management, Namespace: p.clusterAPINamespace, Cluster: p.clusterAPICluster})
		if err != nil {
			return nil, closeIt, err
		}
	case "gke":
		google, err := gke.New(ctx, gke.Config{
			Project: p.gkeProject, Location: p.gkeLocation, Cluster: p.gkeCluster,
			Endpoint: p.gkeEndpoint, ComputeEndpoint: p.gkeComputeEndpoint,
		})
		if err != nil {
			return nil, closeIt, fmt.Errorf("reaching GKE cluster %s/%s/%s: %w", p.gkeProject, p.gkeLocation, p.gkeCluster, err)
		}
		nodes, closeIt = google, google.Close
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := nodes.Pools(ctx); errors.Is(err, provider.ErrUnsupported) {
		return nil, closeIt, errors.Join(fmt.Errorf("--provider %s: %w", p.name, err), closeIt())
	}
	if p.readOnly {
		nodes = provider.ReadOnly{Provider: nodes}
	}
	return nodes, closeIt, nil
}
