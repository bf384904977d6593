// Package clusterapi reads and resizes node pools that are MachineDeployments of
// Cluster API, through their scale subresource in the management cluster.
//
// A MachineDeployment is a pool of one zone, its failure domain, which clouds need not
// call as they label nodes. Nodes find their pool by a label that Cluster API hands
// down from the machine template: LabelPool with the MachineDeployment's name. What a node is like is said by
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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	labelTopology     = "topology." + group + "/owned"
	managerTopology   = "capi-topology"
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

	changing sync.Mutex // one change at a time: each counts the others' marks

	mu      sync.Mutex
	version string            // of the API, once it is known and as long as it is served
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
		if apierrors.IsNotFound(err) { // an upgrade may have ended this version
			p.mu.Lock()
			p.version = ""
			p.mu.Unlock()
		}
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

// Apply implements provider.Provider. While a pool grows, and while somebody else has marked a
// Machine of it, none of its nodes is removed: ErrBusy. So is a pool not resized that has
// another size than the action says.
func (p *Provider) Apply(ctx context.Context, a api.Action) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	var err error
	switch a := a.(type) {
	case api.ResizePool:
		err = p.resize(ctx, a)
	case api.RemoveNode:
		err = p.remove(ctx, a)
	default:
		err = errors.New("not an action on pools")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// deployment returns a MachineDeployment of the cluster.
func (p *Provider) deployment(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	in, err := p.resource(ctx, "machinedeployments")
	if err != nil {
		return nil, err
	}
	d, err := in.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, provider.FromKubernetes(err)
	}
	if of := d.GetLabels()[labelCluster]; of != p.cfg.Cluster {
		return nil, fmt.Errorf("%w: MachineDeployment %s is of cluster %q", provider.ErrNotFound, name, of)
	}
	return d, nil
}

// resize asks for another size of a pool that has the one which the action knows of.
func (p *Provider) resize(ctx context.Context, a api.ResizePool) error {
	d, err := p.deployment(ctx, a.Pool)
	if err != nil {
		return err
	}
	if now := replicasOf(d); now != a.To {
		if now != a.From {
			return fmt.Errorf("%w: somebody else has asked for %d replicas of MachineDeployment %s", provider.ErrBusy, now, a.Pool)
		}
		if err := p.scale(ctx, d, a.To); err != nil {
			return err
		}
	}
	// Not before: Cluster API would choose another Machine in place of one that is marked.
	of, err := p.machines(ctx, a.Pool)
	if err != nil {
		return err
	}
	_, err = p.takeBack(ctx, of, a.To, "")
	return err
}

// scale asks for replicas of a MachineDeployment, if it is still as it was read.
func (p *Provider) scale(ctx context.Context, d *unstructured.Unstructured, replicas int32) error {
	in, err := p.resource(ctx, "machinedeployments")
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": d.GetResourceVersion()}, "spec": map[string]any{"replicas": replicas},
	})
	if err != nil {
		return err
	}
	if _, err = in.Patch(ctx, d.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager}, "scale"); err != nil {
		return provider.FromKubernetes(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[d.GetName()] = asked{replicas, time.Now()}
	return nil
}

// machines are those of a pool that are not being deleted.
func (p *Provider) machines(ctx context.Context, pool string) ([]machine, error) {
	list, err := p.list(ctx, "machines")
	if err != nil {
		return nil, err
	}
	return liveOf(list, pool), nil
}

func liveOf(list []unstructured.Unstructured, pool string) (out []machine) {
	for i := range list {
		if m := machineOf(&list[i]); m.pool == pool && !m.deleting {
			out = append(out, m)
		}
	}
	return out
}

// takeBack takes mash2's marks off the live Machines of a pool, but for one, where none of them is to
// go: they were to, and stay. It returns those that are marked still, but for that one.
func (p *Provider) takeBack(ctx context.Context, live []machine, replicas int32, but string) (marked []machine, err error) {
	for _, m := range live {
		switch {
		case !m.marked || m.name == but:
			continue
		case m.mark == api.FieldManager && int(replicas) >= len(live):
			if err := p.mark(ctx, &m, nil); err != nil && !errors.Is(err, provider.ErrNotFound) {
				return nil, err
			}
			continue
		}
		marked = append(marked, m)
	}
	return marked, nil
}

// remove marks a node's Machine and asks for one replica less. Both can be done again: killed
// between them, the next call finds the mark and asks.
func (p *Provider) remove(ctx context.Context, a api.RemoveNode) error {
	list, err := p.list(ctx, "machines")
	if err != nil {
		return err
	}
	var victim *machine
	for i := range list {
		if m := machineOf(&list[i]); m.node == a.Node || m.providerID != "" && m.providerID == a.ProviderID {
			victim = &m
		}
	}
	switch {
	case victim == nil || victim.deleting:
		return nil // gone, or going
	case victim.pool != a.Pool || victim.providerID != a.ProviderID || victim.node != a.Node:
		return fmt.Errorf("%w: node %s is of pool %q with provider id %q", provider.ErrNotFound, victim.node, victim.pool, victim.providerID)
	}
	d, err := p.deployment(ctx, a.Pool)
	if err != nil {
		return err
	}
	replicas, live := replicasOf(d), liveOf(list, a.Pool)
	others, err := p.takeBack(ctx, live, replicas, victim.name)
	if err != nil {
		return err
	}
	going, marked := len(live)-int(replicas), len(others)
	if victim.marked {
		marked++
	}
	foreign := slices.IndexFunc(others, func(m machine) bool { return m.mark != api.FieldManager })
	switch {
	case victim.marked && going >= marked:
		return nil // asked for already
	case going == len(others) && (going == 0 || !victim.marked): // exactly the others go
	case going < len(others) && foreign >= 0:
		return fmt.Errorf("%w: Machine %s bears the annotation %s, which isn't mash2's, and would go in place of another: mash2 removes no node of pool %s until the annotation or the Machine is gone",
			provider.ErrBusy, others[foreign].name, annotationDelete, a.Pool)
	default:
		return fmt.Errorf("%w: pool %s has %d machines, %d of them marked to go, and wants %d", provider.ErrBusy, a.Pool, len(live), marked, replicas)
	}
	if !victim.marked {
		if err := p.mark(ctx, victim, api.FieldManager); err != nil {
			return err
		}
	}
	err = p.scale(ctx, d, replicas-1)
	if err != nil && !victim.marked && !errors.Is(err, provider.ErrUnavailable) {
		// Refused: it stays. Where nobody knows, the next change finds out.
		_ = p.mark(ctx, victim, nil)
	}
	return err
}

// mark sets the annotation by which Cluster API chooses the Machines that go; nil takes it off.
func (p *Provider) mark(ctx context.Context, m *machine, value any) error {
	in, err := p.resource(ctx, "machines")
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.uid, "annotations": map[string]any{annotationDelete: value},
	}})
	if err != nil {
		return err
	}
	_, err = in.Patch(ctx, m.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	return provider.FromKubernetes(err)
}
