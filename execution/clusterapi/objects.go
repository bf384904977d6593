package clusterapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/provider"
)

// Annotations of a MachineDeployment.
const (
	// AnnotationPrice is what a node costs, USD per hour. Without it a core
	// costs DefaultCorePrice.
	AnnotationPrice = api.Group + "/price-per-hour"
	// AnnotationSpeed is the work of one of its cores relative to a core of the
	// reference machine. Without it 1.
	AnnotationSpeed = api.Group + "/cpu-speed"
	// AnnotationMinSize and AnnotationMaxSize bound the number of nodes.
	AnnotationMinSize = api.Group + "/min-size"
	AnnotationMaxSize = api.Group + "/max-size"

	annotationCapacity = "capacity.cluster-autoscaler.kubernetes.io/"
)

// DefaultCorePrice in USD per hour is about that of a general-purpose core in a
// public cloud: it only says that fewer cores are better.
const DefaultCorePrice = 0.04

// defaultPods is the kubelet's own limit.
const defaultPods = 110

// machine is what is needed of a Machine.
type machine struct {
	name, uid, pool  string
	node, providerID string
	created          time.Time
	deleting, marked bool
	mark             string // what the annotation says
	failure          string // why there is no infrastructure for it
	failedAt         metav1.Time
}

func machineOf(u *unstructured.Unstructured) machine {
	m := machine{
		name: u.GetName(), uid: string(u.GetUID()), pool: u.GetLabels()[labelDeployment],
		created: u.GetCreationTimestamp().Time, deleting: u.GetDeletionTimestamp() != nil,
	}
	m.mark, m.marked = u.GetAnnotations()[annotationDelete]
	m.providerID, _, _ = unstructured.NestedString(u.Object, "spec", "providerID")
	m.node, _, _ = unstructured.NestedString(u.Object, "status", "nodeRef", "name")
	for _, path := range [][]string{{"status"}, {"status", "deprecated", "v1beta1"}} {
		for _, field := range []string{"failureMessage", "failureReason"} {
			text, _, _ := unstructured.NestedString(u.Object, append(slices.Clone(path), field)...)
			m.failure = cmp.Or(m.failure, text)
		}
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		fields, ok := c.(map[string]any)
		if !ok || fields["type"] != "InfrastructureReady" || fields["status"] != "False" {
			continue
		}
		// A Machine that is being made has a message, too.
		if text, _ := fields["message"].(string); provider.KindOfMessage(text) != api.PoolOther {
			m.failure = text
		}
		if at, _ := fields["lastTransitionTime"].(string); at != "" {
			_ = m.failedAt.UnmarshalQueryParameter(at) // zero if it is no time
		}
	}
	return m
}

func replicasOf(d *unstructured.Unstructured) int32 {
	n, ok, err := unstructured.NestedInt64(d.Object, "spec", "replicas")
	if err != nil || !ok {
		return 1 // Cluster API's default
	}
	return int32(min(max(n, 0), math.MaxInt32))
}

// poolOf makes a pool of a MachineDeployment and its Machines. An annotation that can't be
// read is an error with its path, and holds the pool: a guess would be planned with.
func poolOf(d *unstructured.Unstructured, machines []machine) (api.Pool, error) {
	read := reader{of: d}
	domain, _, _ := unstructured.NestedString(d.Object, "spec", "template", "spec", "failureDomain")
	pool := api.Pool{
		Name: d.GetName(), Sizes: []int32{replicasOf(d)},
		MinPerZone: int32(read.number(AnnotationMinSize, 0)), MaxPerZone: int32(read.number(AnnotationMaxSize, 0)),
		Allocatable: api.Resources{
			MilliCPU: read.quantity(annotationCapacity+"cpu", 1000), Memory: read.quantity(annotationCapacity+"memory", 1),
			Pods: int64(read.number(annotationCapacity+"maxPods", defaultPods)),
		},
		Labels: map[string]string{},
	}
	labels, _, _ := unstructured.NestedStringMap(d.Object, "spec", "template", "metadata", "labels")
	for key, value := range labels { // those that are handed down to nodes
		prefix, _, _ := strings.Cut(key, "/")
		if strings.HasPrefix(key, "node-role.kubernetes.io/") || prefix == "node-restriction.kubernetes.io" ||
			strings.HasSuffix(prefix, ".node-restriction.kubernetes.io") || prefix == "node."+group || strings.HasSuffix(prefix, ".node."+group) {
			pool.Labels[key] = value
		}
	}
	pool.Labels[LabelPool] = pool.Name
	for _, pair := range strings.Split(d.GetAnnotations()[annotationCapacity+"labels"], ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			pool.Labels[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	pool.Zones = []string{cmp.Or(pool.Labels[api.LabelZone], domain)} // of a domain 1 Azure's nodes are labelled eastus-1
	pool.Taints = read.taints(annotationCapacity + "taints")
	infrastructure, _, _ := unstructured.NestedString(d.Object, "spec", "template", "spec", "infrastructureRef", "name")
	pool.MachineType = cmp.Or(pool.Labels["node.kubernetes.io/instance-type"], infrastructure, "machine")
	pool.Price = read.above0(AnnotationPrice, DefaultCorePrice*max(float64(pool.Allocatable.MilliCPU)/1000, 1))
	pool.CPUSpeed = read.above0(AnnotationSpeed, 1)
	for _, key := range []string{api.LabelSpot, api.LabelInterruptions} {
		for _, from := range []map[string]string{labels, d.GetAnnotations()} {
			if value, ok := from[key]; ok {
				pool.Labels[key] = value // beside what the nodes' own labels say
			}
		}
	}
	if err := api.DescribeSpot(&pool, pool.Labels); err != nil && read.err == nil {
		read.err = fmt.Errorf("MachineDeployment %s: %w", d.GetName(), err)
	}
	_, hasMin := d.GetAnnotations()[annotationMinSize]
	_, hasMax := d.GetAnnotations()[annotationMaxSize]
	if hasMin && hasMax {
		pool.Autoscaled, pool.AutoscaledBy = true, "Cluster Autoscaler ("+annotationMinSize+")"
	}
	if pool.Hold = holdOf(d); read.err != nil {
		pool.Hold = read.err.Error()
	}
	pool.ResizedAt = growingSince(d, machines)
	for _, m := range machines {
		if m.deleting {
			pool.Deleting = append(pool.Deleting, cmp.Or(m.node, m.name))
		}
		if m.failure != "" && m.providerID == "" && (pool.Error == nil || pool.Error.At.Before(m.failedAt.Time)) {
			pool.Error = &api.PoolError{Kind: provider.KindOfMessage(m.failure), Message: m.failure, At: m.failedAt.Time}
		}
	}
	slices.Sort(pool.Deleting)
	return pool, read.err
}

// conditionPaths are where the API's versions have the conditions of v1beta2.
var conditionPaths = [][]string{{"status", "conditions"}, {"status", "v1beta2", "conditions"}}

// growingSince is about when the Machines were asked for that have no node yet; zero
// if all have one. While Machines are still to be made, ScalingUp tells; it is over
// with the last one made, and MachinesReady is False from the first one that isn't
// Ready on, so that the newest Machine without a node tells after that. One that a
// health check has replaced is younger than what was asked for: this is never too
// early.
func growingSince(d *unstructured.Unstructured, machines []machine) time.Time {
	var newest time.Time
	for _, path := range conditionPaths {
		if at, ok := conditionSince(d, "ScalingUp", "True", path...); ok && at.After(newest) {
			newest = at
		}
	}
	for _, m := range machines {
		if m.node == "" && !m.deleting && m.created.After(newest) {
			newest = m.created
		}
	}
	return newest
}

// conditionSince is when a condition got the status that it has; not ok if it has
// another.
func conditionSince(u *unstructured.Unstructured, kind, status string, path ...string) (at time.Time, ok bool) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, path...)
	for _, c := range conditions {
		fields, isMap := c.(map[string]any)
		if !isMap || fields["type"] != kind || fields["status"] != status {
			continue
		}
		text, _ := fields["lastTransitionTime"].(string)
		at, err := time.Parse(time.RFC3339, text)
		return at, err == nil
	}
	return time.Time{}, false
}

// holdOf says why a MachineDeployment may not be resized now.
func holdOf(d *unstructured.Unstructured) string {
	paused, _, _ := unstructured.NestedBool(d.Object, "spec", "paused")
	if _, annotated := d.GetAnnotations()[annotationPaused]; paused || annotated {
		return "the MachineDeployment is paused"
	}
	for _, path := range conditionPaths {
		if _, ok := conditionSince(d, "Paused", "True", path...); ok {
			return "the MachineDeployment or its Cluster is paused"
		}
	}
	if statedByTopology(d) {
		return "its Cluster's topology states the replicas: leave spec.topology.workers.machineDeployments[].replicas out, and mash2 may resize it"
	}
	all, ok, _ := unstructured.NestedInt64(d.Object, "status", "replicas")
	for _, field := range []string{"upToDateReplicas", "updatedReplicas"} {
		if n, has, _ := unstructured.NestedInt64(d.Object, "status", field); ok && has {
			if n < all {
				return "a rollout of the MachineDeployment is in progress"
			}
			return ""
		}
	}
	return ""
}

// statedByTopology tells whether the topology of its Cluster has replicas for a MachineDeployment,
// which Cluster API would set again and again. The controller of topologies owns the field then.
func statedByTopology(d *unstructured.Unstructured) bool {
	if _, owned := d.GetLabels()[labelTopology]; !owned {
		return false
	}
	return slices.ContainsFunc(d.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if e.Manager != managerTopology || e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) != nil {
			return false
		}
		_, states := fields.Spec["f:replicas"]
		return states
	})
}

// reader reads annotations and keeps the first thing that is wrong.
type reader struct {
	of  *unstructured.Unstructured
	err error
}

func (r *reader) bad(annotation, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("MachineDeployment %s: metadata.annotations[%s]: %s", r.of.GetName(), annotation, fmt.Sprintf(format, args...))
	}
}

// number is an annotation that is a finite number, 0 or more and within 32 bits.
func (r *reader) number(annotation string, def float64) float64 {
	text, ok := r.of.GetAnnotations()[annotation]
	if !ok {
		return def
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0) || v > math.MaxInt32 {
		r.bad(annotation, "must be a number from 0 to %d, is %q", math.MaxInt32, text)
		return def
	}
	return v
}

// above0 is a number that may not be 0.
func (r *reader) above0(annotation string, def float64) float64 {
	if v := r.number(annotation, def); v > 0 {
		return v
	}
	r.bad(annotation, "must be above 0")
	return def
}

// quantity is an annotation that is a Kubernetes quantity, times scale; 0 when
// it is absent.
func (r *reader) quantity(annotation string, scale int64) int64 {
	text, ok := r.of.GetAnnotations()[annotation]
	if !ok {
		return 0
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		r.bad(annotation, "must be a quantity, is %q", text)
		return 0
	}
	if scale == 1000 {
		return q.MilliValue()
	}
	return q.Value()
}

// taints are those of an annotation, as Cluster Autoscaler reads it: key=value:Effect,….
func (r *reader) taints(annotation string) (out []api.Taint) {
	text := r.of.GetAnnotations()[annotation]
	if strings.TrimSpace(text) == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		pair, effect, _ := strings.Cut(strings.TrimSpace(one), ":")
		key, value, _ := strings.Cut(pair, "=")
		if key == "" || !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, effect) {
			r.bad(annotation, "must be key=value:Effect,… with effects NoSchedule, PreferNoSchedule or NoExecute, is %q", text)
			return nil
		}
		out = append(out, api.Taint{Key: key, Value: value, Effect: effect})
	}
	return out
}
