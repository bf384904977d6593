package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mash2-io/mash2/execution/clusterapi"
	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/operator"
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
	f.StringVar(&p.name, "provider", operator.None, "provider of node pools: gke, clusterapi (MachineDeployments), kind (parks existing nodes), or none to plan replicas only")
	f.BoolVar(&p.readOnly, "provider-read-only", false, "read node pools and do not resize them")
	f.StringVar(&p.poolLabel, "pool-label", "", "node label that names the pool (default: the provider's own)")
	f.StringVar(&p.gkeProject, "gke-project", "", "project of the GKE cluster")
	f.StringVar(&p.gkeLocation, "gke-location", "", "location of the GKE cluster: a region or a zone")
	f.StringVar(&p.gkeCluster, "gke-cluster", "", "name of the GKE cluster")
	f.StringVar(&p.gkeEndpoint, "gke-endpoint", "", "address of a simulated container API, without TLS and credentials")
	f.StringVar(&p.gkeComputeEndpoint, "gke-compute-endpoint", "", "URL of a simulated compute API, without credentials")
	f.StringVar(&p.clusterAPIKubeconfig, "clusterapi-kubeconfig", "", "kubeconfig of Cluster API's management cluster (default: this cluster)")
	f.StringVar(&p.clusterAPINamespace, "clusterapi-namespace", "", "namespace of the Cluster object")
	f.StringVar(&p.clusterAPICluster, "clusterapi-cluster", "", "name of the Cluster object")
}

// validate reports the first flag that can't be used.
func (p *providerFlags) validate() error {
	needed := map[string]string{}
	switch p.name {
	case operator.None:
		if p.readOnly {
			return Usagef("--provider-read-only needs a --provider that reads pools")
		}
	case operator.Kind:
	case operator.GKE:
		needed = map[string]string{"gke-project": p.gkeProject, "gke-location": p.gkeLocation, "gke-cluster": p.gkeCluster}
	case operator.ClusterAPI:
		needed = map[string]string{"clusterapi-namespace": p.clusterAPINamespace, "clusterapi-cluster": p.clusterAPICluster}
	default:
		return Usagef("--provider must be gke, clusterapi, kind or none, not %q", p.name)
	}
	for _, name := range []string{"gke-project", "gke-location", "gke-cluster", "clusterapi-namespace", "clusterapi-cluster"} {
		if value, ok := needed[name]; ok && value == "" {
			return Usagef("--provider %s needs --%s", p.name, name)
		}
	}
	if (p.gkeEndpoint == "") != (p.gkeComputeEndpoint == "") {
		return Usagef("--gke-endpoint and --gke-compute-endpoint must be given together")
	}
	return nil
}

// provider is what the flags say, but for the kubeconfig of a management cluster.
func (p *providerFlags) provider() operator.Provider {
	return operator.Provider{
		Name: p.name, ReadOnly: p.readOnly,
		GKE: gke.Config{
			Project: p.gkeProject, Location: p.gkeLocation, Cluster: p.gkeCluster,
			Endpoint: p.gkeEndpoint, ComputeEndpoint: p.gkeComputeEndpoint,
		},
		ClusterAPI: clusterapi.Config{Namespace: p.clusterAPINamespace, Cluster: p.clusterAPICluster},
	}
}

// management is how Cluster API's management cluster is reached; nil for the
// operator's own.
func (p *providerFlags) management() (*rest.Config, error) {
	if p.clusterAPIKubeconfig == "" {
		return nil, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", p.clusterAPIKubeconfig)
	if err != nil {
		return nil, Usagef("--clusterapi-kubeconfig: %v", err)
	}
	return cfg, nil
}
