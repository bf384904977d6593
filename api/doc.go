// Package api is the language the agents speak: the values that walk the
// corridor from the world to the world.
//
//	Observer ─Snapshot─▶ strategic ─Policy─▶ planning ─Plan─▶ execution ─[]Action─▶ Actuator
//
// Everything here is a plain value without behaviour beyond arithmetic and
// printing. CPU is in millicores and memory in bytes, both integers, converted
// at the edges; durations and timestamps are Go's own; money is in USD; ratios
// are 0–1 and utilisation is relative to requests unless a field says otherwise.
//
// Values reached through a pointer, slice or map of a Snapshot are shared and
// must not be written to.
package api

// Names by which mash2 marks what it does in a cluster.
const (
	// Group is the API group of the custom resources and the prefix of every
	// annotation, label and taint mash2 writes.
	Group = "mash2.io"
	// FieldManager owns the fields mash2 applies server-side.
	FieldManager = "mash2"
	// AgentsManager is the field manager of mash2 agents, which resize pods on their own: the
	// operator leaves these pods to them.
	AgentsManager = "mash2-agents"
	// AnnotationCordonedFor is on a node that mash2 has cordoned; its value is
	// the reason: CordonMigration or CordonShrink.
	AnnotationCordonedFor = Group + "/cordoned-for"
	// AnnotationCordonedAt is when that was, RFC 3339.
	AnnotationCordonedAt = Group + "/cordoned-at"
	// AnnotationGaveUp is on a node from which a move to another pool was given
	// up: that pool's name and the time, RFC 3339, with a space between.
	AnnotationGaveUp = Group + "/gave-up"
	// AnnotationDeletionCostSet marks a pod whose pod-deletion-cost was set by
	// mash2, so that it can be taken back.
	AnnotationDeletionCostSet = Group + "/deletion-cost-set"
	// AnnotationPodDeletionCost is Kubernetes' own: ReplicaSets delete the
	// pods with the lowest cost first.
	AnnotationPodDeletionCost = "controller.kubernetes.io/pod-deletion-cost"
	// AnnotationTakenOver is on a target that a version before status.takenOver of
	// ManagedWorkloads has taken over. It is read for one version more, and not
	// written any longer.
	AnnotationTakenOver = Group + "/taken-over"
	// AnnotationParked marks a cordoned node that takes no part for now, because
	// its pool is smaller than the machines it is made of.
	AnnotationParked = Group + "/parked"
	// AnnotationSizedBy is on a pod whose containers got the size that mash2 chose as it was
	// admitted: the name of the ManagedWorkload.
	AnnotationSizedBy = Group + "/sized-by"
	// LabelSafetyNet marks the HorizontalPodAutoscaler that scales a workload up
	// when no operator has for long. Its writes are not somebody else's.
	LabelSafetyNet = Group + "/safety-net"
	// AnnotationRollbackEnded on the policy ConfigMap is a time, RFC 3339: rollbacks from
	// before it are over.
	AnnotationRollbackEnded = Group + "/rollback-ended"
	// AnnotationCanaryRestarted on a ManagedWorkload in mode Canary is a time, RFC 3339: a
	// trial of its namespace that is older begins anew.
	AnnotationCanaryRestarted = Group + "/canary-restarted"
	// AnnotationHandedOver on a ManagedWorkload in mode Canary says that whoever scaled its
	// target was taken away for mash2's sake, so that mash2 must.
	AnnotationHandedOver = Group + "/handed-over"
	// AnnotationPaused on the policy ConfigMap stops every write.
	AnnotationPaused = Group + "/paused"
	// LabelNodePool is the label by which GKE tells a node's pool.
	LabelNodePool = "cloud.google.com/gke-nodepool"
	// LabelZone is the well-known topology label of a node's zone.
	LabelZone = "topology.kubernetes.io/zone"
)

// Reasons for a cordon, the values of AnnotationCordonedFor.
const (
	// CordonMigration: the node's whole pool is being left (policy switch).
	CordonMigration = "migration"
	// CordonShrink: this node is surplus in a pool that stays.
	CordonShrink = "shrink"
)

// Agent labels what a decision, action or finding belongs to, in the words of
// the MAS-H² paper (§3).
type Agent string

// The agents of the hierarchy. The paper names no vertical one.
const (
	StrategicAgent         Agent = "SA"
	WorkloadPlanningAgent  Agent = "WPA"
	NodePlanningAgent      Agent = "NPA"
	HorizontalScalingAgent Agent = "HSA"
	VerticalScalingAgent   Agent = "VSA"
	NodeScalingAgent       Agent = "NSA"
)

// Key names a namespaced object.
type Key struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Less orders keys by namespace, then name.
func (k Key) Less(o Key) bool {
	if k.Namespace != o.Namespace {
		return k.Namespace < o.Namespace
	}
	return k.Name < o.Name
}
