package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	provisioning "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// problem is the part of what "mash2 pack" reads that can be told to Karpenter
// without rules on where pods may go: anything else is refused.
type problem struct {
	Pods []struct {
		Name      string              `json:"name"`
		Count     int                 `json:"count"`
		CPU       resource.Quantity   `json:"cpu"`
		Memory    resource.Quantity   `json:"memory"`
		Resources corev1.ResourceList `json:"resources"`
	} `json:"pods"`
	NodeTypes []struct {
		Name      string              `json:"name"`
		CPU       resource.Quantity   `json:"cpu"`
		Memory    resource.Quantity   `json:"memory"`
		MaxPods   *int64              `json:"maxPods"`
		Resources corev1.ResourceList `json:"resources"`
		Overhead  corev1.ResourceList `json:"overhead"`
		Price     float64             `json:"price"`
	} `json:"nodeTypes"`
}

// answer is what Karpenter would launch.
type answer struct {
	Version    string         `json:"version"` // of the module sigs.k8s.io/karpenter
	CPUSeconds float64        `json:"cpuSeconds"`
	Seconds    float64        `json:"seconds"` // by the clock on the wall
	Nodes      int            `json:"nodes"`
	Cost       float64        `json:"cost"` // sum of the nodes' prices
	Unplaced   map[string]int `json:"unplaced"`
	Loads      []load         `json:"loads"` // one a node
}

type load struct {
	Type string         `json:"type"`
	Pods map[string]int `json:"pods"`
}

const (
	pool      = "packing"
	zone      = "zone-a"
	shapeName = "shape"
)

// pack reads a problem, has Karpenter's provisioning scheduler place all its pods at
// once in an empty cluster and writes what it would launch: for each claim the
// cheapest of the types that it leaves open, which is what its provider launches.
//
// The scheduler is made as its authors' benchmark makes it
// (pkg/controllers/provisioning/scheduling/scheduling_benchmark_test.go) with the
// options that its provisioner gives it (provisioner.go, Schedule), all flags at their
// defaults. Two things differ from a running Karpenter, to its favour in cost: there is
// no limit of a minute on one Solve, and all pods come in one batch.
func pack(in io.Reader, out io.Writer) error {
	var p problem
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("reading the problem: %w", err)
	}
	log.SetLogger(logging.NopLogger)
	ctx, err := withDefaults(injection.WithControllerName(context.Background(), "provisioner"))
	if err != nil {
		return err
	}
	nodePool := &v1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: pool, UID: pool},
		Spec: v1.NodePoolSpec{Template: v1.NodeClaimTemplate{Spec: v1.NodeClaimTemplateSpec{
			NodeClassRef: &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: pool},
		}}},
	}
	machines := p.machines()
	pods := p.pending()
	perPool := map[string][]*cloudprovider.InstanceType{pool: machines}
	client := fake.NewClientBuilder().Build()
	cluster := state.NewCluster(clock.RealClock{}, client, kwok.NewCloudProvider(ctx, client, machines))
	opts := []provisioning.Options{
		provisioning.DisableReservedCapacityFallback,
		provisioning.NumConcurrentReconciles(int(math.Ceil(float64(options.FromContext(ctx).CPURequests) / 1000))),
		provisioning.MinValuesPolicy(options.FromContext(ctx).MinValuesPolicy),
	}
	topology, err := provisioning.NewTopology(ctx, client, cluster, nil, []*v1.NodePool{nodePool}, perPool, pods, opts...)
	if err != nil {
		return fmt.Errorf("making the topology: %w", err)
	}
	scheduler := provisioning.NewScheduler(ctx, client, []*v1.NodePool{nodePool}, cluster, nil, topology, perPool, nil,
		events.NewRecorder(&record.FakeRecorder{}), clock.RealClock{}, nil, opts...)

	runtime.GC() // what was made so far is not collected at the scheduler's expense
	begun, start := time.Now(), cpu()
	results, err := scheduler.Solve(ctx, pods)
	used, took := cpu()-start, time.Since(begun)
	if err != nil {
		return fmt.Errorf("scheduling: %w", err)
	}
	a := answer{Version: version(), CPUSeconds: used.Seconds(), Seconds: took.Seconds(), Nodes: len(results.NewNodeClaims), Unplaced: map[string]int{}}
	for pod := range results.PodErrors {
		a.Unplaced[pod.Labels[shapeName]]++
	}
	for _, claim := range results.NewNodeClaims {
		cheapest := claim.InstanceTypeOptions.OrderByPrice(claim.Requirements)[0]
		a.Cost += cheapest.Offerings[0].Price
		l := load{Type: cheapest.Name, Pods: map[string]int{}}
		for _, pod := range claim.Pods {
			l.Pods[pod.Labels[shapeName]]++
		}
		a.Loads = append(a.Loads, l)
	}
	return json.NewEncoder(out).Encode(a)
}

// withDefaults has Karpenter's options as they are when nothing is set.
func withDefaults(ctx context.Context) (context.Context, error) {
	o := &options.Options{}
	fs := &options.FlagSet{FlagSet: flag.NewFlagSet("karpenter", flag.ContinueOnError)}
	o.AddFlags(fs)
	if err := o.Parse(fs); err != nil {
		return nil, fmt.Errorf("Karpenter's options: %w", err)
	}
	return o.ToContext(ctx), nil
}

// machines are the node types, each on demand in one zone.
func (p *problem) machines() []*cloudprovider.InstanceType {
	var out []*cloudprovider.InstanceType
	for _, t := range p.NodeTypes {
		capacity := corev1.ResourceList{corev1.ResourceCPU: t.CPU, corev1.ResourceMemory: t.Memory}
		capacity[corev1.ResourcePods] = *resource.NewQuantity(math.MaxInt32, resource.DecimalSI)
		if t.MaxPods != nil {
			capacity[corev1.ResourcePods] = *resource.NewQuantity(*t.MaxPods, resource.DecimalSI)
		}
		for name, q := range t.Resources {
			capacity[name] = q
		}
		out = append(out, &cloudprovider.InstanceType{
			Name: t.Name,
			Requirements: scheduling.NewRequirements(
				scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, t.Name),
				scheduling.NewRequirement(corev1.LabelArchStable, corev1.NodeSelectorOpIn, v1.ArchitectureAmd64),
				scheduling.NewRequirement(corev1.LabelOSStable, corev1.NodeSelectorOpIn, string(corev1.Linux)),
				scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zone),
				scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, v1.CapacityTypeOnDemand),
			),
			Offerings: cloudprovider.Offerings{{
				Available: true, Price: t.Price,
				Requirements: scheduling.NewLabelRequirements(map[string]string{
					v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand, corev1.LabelTopologyZone: zone,
				}),
			}},
			Capacity: capacity,
			Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: t.Overhead},
		})
	}
	return out
}

// pending are the pods as the scheduler finds them in the cluster.
func (p *problem) pending() []*corev1.Pod {
	var out []*corev1.Pod
	for _, s := range p.Pods {
		requests := corev1.ResourceList{corev1.ResourceCPU: s.CPU, corev1.ResourceMemory: s.Memory}
		for name, q := range s.Resources {
			requests[name] = q
		}
		for range s.Count {
			name := fmt.Sprintf("pod-%07d", len(out))
			out = append(out, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{shapeName: s.Name}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app", Resources: corev1.ResourceRequirements{Requests: requests}}}},
				Status: corev1.PodStatus{
					Phase:      corev1.PodPending,
					Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: corev1.PodReasonUnschedulable, Status: corev1.ConditionFalse}},
				},
			})
		}
	}
	return out
}

// version of Karpenter that is built in.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "sigs.k8s.io/karpenter" {
				return m.Version
			}
		}
	}
	return "unknown"
}

// cpu is the time this process has run, user and system.
func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
