// Package clusterapi reads and resizes node pools that are MachineDeployments of
// Cluster API, through their scale subresource in the management cluster.
//
// A MachineDeployment is a pool of one zone, its failure domain. Nodes find
// their pool by a label that Cluster API hands down from the machine template:
// LabelPool with the MachineDeployment's name. What a node is like is said by
// the annotations that Cluster Autoscaler reads too (capacity.cluster-autoscaler
// .kubernetes.io/cpu, memory, maxPods, labels, taints), which a pool without nodes needs.
//
// A node is removed by marking its Machine for deletion and asking for one
// replica less, which takes marked Machines first.
package clusterapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/provider"
)

const (
	// LabelPool is the label of nodes that names their MachineDeployment. Its
	// prefix is one of those that Cluster API hands down to nodes.
	LabelPool = "node.cluster.x-k8s.io/pool"

	group             = "cluster.x-k8s.io"
	labelCluster      = group + "/cluster-name"
	labelDeployment   = group + "/deployment-name"
	annotationDelete  = group + "/delete-machine"
	annotationPaused  = group + "/paused"
	annotationMinSize = group + "/cluster-api-autoscaler-node-group-min-size"
	annotationMaxSize = group + "/cluster-api-autoscaler-node-group-max-size"
)

// Config names a cluster of Cluster API.
type Config struct {
	// REST is how the management cluster is reached.
	REST *rest.Config
	// Namespace and Cluster are those of the Cluster object.
	Namespace, Cluster string
}

// Validate reports the first field that can't be used.
func (c Config) Validate() error {
	switch {
	case c.REST == nil:
		return errors.New("clusterapi config: REST is required")
	case c.Namespace == "":
		return errors.New("clusterapi config: Namespace is empty")
	case c.Cluster == "":
		return errors.New("clusterapi config: Cluster is empty")
	}
	return nil
}

// Provider is the MachineDeployments of one cluster.
type Provider struct {
	cfg       Config
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface

	removing sync.Mutex // one removal at a time: each counts the others' marks

	mu      sync.Mutex
	version string            // of the API, once it is known
	known   map[string]string // pool by provider id, as last read
	asked   map[string]asked  // by pool
}

// asked is what this process has asked of a pool. The API server keeps no time of
// it: writes to the scale subresource have none among the managed fields.
type asked struct {
	replicas int32
	at       time.Time
}

// New returns a Provider; it makes no call yet.
func New(cfg Config) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("making the client of the management cluster: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("making the client of the management cluster: %w", err)
	}
	return &Provider{cfg: cfg, dynamic: dyn, discovery: disco, asked: map[string]asked{}}, nil
}

// resource is a collection in the management cluster, of the version that it
// prefers.
func (p *Provider) resource(ctx context.Context, name string) (dynamic.ResourceInterface, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, provider.FromKubernetes(err)
	}
	if p.version == "" {
		groups, err := p.discovery.ServerGroups()
		if err != nil {
			return nil, provider.FromKubernetes(err)
		}
		i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == group })
		if i < 0 {
			return nil, fmt.Errorf("%w: the management cluster has no Cluster API (%s)", provider.ErrNotFound, group)
		}
		p.version = groups.Groups[i].PreferredVersion.Version
	}
	gvr := schema.GroupVersionResource{Group: group, Version: p.version, Resource: name}
	return p.dynamic.Resource(gvr).Namespace(p.cfg.Namespace), nil
}

// Pools implements provider.Provider. A MachineDeployment with an annotation that can't be
// read is held, and the error has all such.
func (p *Provider) Pools(ctx context.Context) ([]api.Pool, error) {
	deployments, err := p.list(ctx, "machinedeployments")
	if err != nil {
		return nil, err
	}
	machines, err := p.list(ctx, "machines")
	if err != nil {
		return nil, err
	}
	byPool, known := map[string][]machine{}, map[string]string{}
	for i := range machines {
		m := machineOf(&machines[i])
		byPool[m.pool] = append(byPool[m.pool], m)
		known[m.providerID] = m.pool
	}
	var out []api.Pool
	var unread error
	for i := range deployments {
		pool, err := poolOf(&deployments[i], byPool[deployments[i].GetName()])
		out, unread = append(out, pool), errors.Join(unread, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
	for i := range out {
		if a, ok := p.asked[out[i].Name]; ok && a.replicas == out[i].Sizes[0] {
			out[i].ResizedAt = a.at
		}
	}
	return out, unread
}

// list returns objects of the cluster in order of name.
func (p *Provider) list(ctx context.Context, resource string) ([]unstructured.Unstructured, error) {
	in, err := p.resource(ctx, resource)
	if err != nil {
		return nil, err
	}
	list, err := in.List(ctx, metav1.ListOptions{LabelSelector: labelCluster + "=" + p.cfg.Cluster})
	if err != nil {
		return nil, fmt.Errorf("listing %s of cluster %s/%s: %w", resource, p.cfg.Namespace, p.cfg.Cluster, provider.FromKubernetes(err))
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return list.Items, nil
}

// Owns implements provider.Provider.
func (p *Provider) Owns(pool, providerID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return providerID != "" && p.known[providerID] == pool
}

// Apply implements provider.Provider. While a pool grows none of its nodes is
// removed: ErrBusy.
func (p *Provider) Apply(ctx context.Context, a api.Action) error {
	var err error
	switch a := a.(type) {
	case api.ResizePool:
		err = p.scale(ctx, a.Pool, a.To, "")
	case api.RemoveNode:
		p.removing.Lock()
		defer p.removing.Unlock()
		err = p.remove(ctx, a)
	default:
		err = errors.New("not an action on pools")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// scale asks for replicas of a MachineDeployment; with a version only if it is
// still that one.
func (p *Provider) scale(ctx context.Context, name string, replicas int32, version string) error {
	in, err := p.resource(ctx, "machinedeployments")
	if err != nil {
		return err
	}
	d, err := in.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return provider.FromKubernetes(err)
	}
	if of := d.GetLabels()[labelCluster]; of != p.cfg.Cluster {
		return fmt.Errorf("%w: MachineDeployment %s is of cluster %q", provider.ErrNotFound, name, of)
	}
	patch := map[string]any{"spec": map[string]any{"replicas": replicas}}
	if version != "" {
		patch["metadata"] = map[string]any{"resourceVersion": version}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = in.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager}, "scale")
	if err == nil && replicasOf(d) != replicas {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked[name] = asked{replicas, time.Now()}
	}
	return provider.FromKubernetes(err)
}

// remove marks a node's Machine and asks for as many replicas as there are
// Machines without a mark. Both can be done again: killed between them, the next
// call finds the mark and asks.
func (p *Provider) remove(ctx context.Context, a api.RemoveNode) error {
	list, err := p.list(ctx, "machines")
	if err != nil {
		return err
	}
	var victim *machine
	live, marked := map[string]int32{}, map[string]int32{}
	for i := range list {
		m := machineOf(&list[i])
		if !m.deleting {
			live[m.pool]++
			if m.marked {
				marked[m.pool]++
			}
		}
		if m.node == a.Node || m.providerID != "" && m.providerID == a.ProviderID {
			victim = &m
		}
	}
	switch {
	case victim == nil || victim.deleting:
		return nil // gone, or going
	case victim.pool != a.Pool || victim.providerID != a.ProviderID || victim.node != a.Node:
		return fmt.Errorf("%w: node %s is of pool %q with provider id %q", provider.ErrNotFound, victim.node, victim.pool, victim.providerID)
	}
	in, err := p.resource(ctx, "machinedeployments")
	if err != nil {
		return err
	}
	d, err := in.Get(ctx, a.Pool, metav1.GetOptions{})
	if err != nil {
		return provider.FromKubernetes(err)
	}
	replicas, left := replicasOf(d), live[a.Pool]-marked[a.Pool]
	if !victim.marked {
		if replicas != left {
			return fmt.Errorf("%w: pool %s has %d machines and wants %d", provider.ErrBusy, a.Pool, left, replicas)
		}
		if err := p.mark(ctx, victim); err != nil {
			return err
		}
		left--
	}
	if replicas <= left {
		return nil // asked for already
	}
	return p.scale(ctx, a.Pool, left, d.GetResourceVersion())
}

func (p *Provider) mark(ctx context.Context, m *machine) error {
	in, err := p.resource(ctx, "machines")
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.uid, "annotations": map[string]any{annotationDelete: "true"},
	}})
	if err != nil {
		return err
	}
	_, err = in.Patch(ctx, m.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	return provider.FromKubernetes(err)
}
