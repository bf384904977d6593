package api

import (
	"fmt"
	"time"
)

// Action is one idempotent change of the world, a small comparable value of a
// closed set of types.
type Action interface {
	fmt.Stringer
	// ActionAgent is the agent that acts.
	ActionAgent() Agent
	// Kind is the type's name, for metrics.
	Kind() string
	// Object is what is changed.
	Object() ObjectRef
	action()
}

// ScaleWorkload sets spec.replicas through the scale subresource.
type ScaleWorkload struct {
	Workload Key
	Target   TargetRef
	From, To int32
	// TakeFrom is the field manager from which replicas may be taken: that of the
	// workload's safety net; empty for none.
	TakeFrom string
	Reason   string
}

// ResizePool sets a pool's size per zone through the provider.
type ResizePool struct {
	Pool     string
	From, To int32 // per zone; From is the largest zone's
	// Nodes that the provider may pick where it shrinks, in order of name, with
	// commas between: all of them must be empty when it does.
	Nodes  string
	Reason string
}

// RemoveNode deletes exactly this drained node from its pool.
type RemoveNode struct {
	Pool, Zone, Node, ProviderID string
	Reason                       string
}

// CordonNode marks a node unschedulable and notes why.
type CordonNode struct {
	Node   string
	For    string // CordonMigration or CordonShrink
	At     time.Time
	Reason string
}

// GiveUpMove notes on a node that moving from it to a pool was given up, so
// that it isn't tried again at once. Its own pool: emptying it to shrink that one.
type GiveUpMove struct {
	Node, Pool string
	At         time.Time
	Reason     string
}

// UncordonNode takes a cordon of ours back.
type UncordonNode struct {
	Node   string
	Reason string
}

// EvictPod evicts one pod through the Eviction API, within its PDBs.
type EvictPod struct {
	Pod    Key
	UID    string
	Node   string
	Reason string
	// Unready tells that it goes only while it is not Ready: it is no move between nodes.
	Unready bool `json:",omitempty"`
}

// SetDeletionCost sets or (with Clear) removes the pod-deletion-cost of a pod.
type SetDeletionCost struct {
	Pod    Key
	UID    string
	Cost   int32
	Clear  bool
	Reason string
}

// ResizePod sets what one container of a running pod requests, and its limits, through
// the resize subresource. 0 leaves an amount as it is.
type ResizePod struct {
	Pod       Key
	UID       string
	Container string
	From, To  Amounts // requests
	Limits    Amounts
	Reason    string
}

// CallWebhook posts to an address that a strategy names.
type CallWebhook struct {
	Strategy Key
	Rule     string
	// ID is the same each time that the same call is tried.
	ID, URL string
	Body    string // JSON
	Reason  string
}

func (ScaleWorkload) action()   {}
func (ResizePool) action()      {}
func (RemoveNode) action()      {}
func (CordonNode) action()      {}
func (UncordonNode) action()    {}
func (GiveUpMove) action()      {}
func (EvictPod) action()        {}
func (SetDeletionCost) action() {}
func (ResizePod) action()       {}
func (CallWebhook) action()     {}

// ActionAgent of scaling is the HSA.
func (ScaleWorkload) ActionAgent() Agent { return HorizontalScalingAgent }

// ActionAgent of a resize is the NSA.
func (ResizePool) ActionAgent() Agent { return NodeScalingAgent }

// ActionAgent of a removal is the NSA.
func (RemoveNode) ActionAgent() Agent { return NodeScalingAgent }

// ActionAgent of a cordon is the NSA.
func (CordonNode) ActionAgent() Agent { return NodeScalingAgent }

// ActionAgent of an uncordon is the NSA.
func (UncordonNode) ActionAgent() Agent { return NodeScalingAgent }

// ActionAgent of giving a move up is the NSA.
func (GiveUpMove) ActionAgent() Agent { return NodeScalingAgent }

// ActionAgent of an eviction is the HSA.
func (EvictPod) ActionAgent() Agent { return HorizontalScalingAgent }

// ActionAgent of a deletion cost is the HSA.
func (SetDeletionCost) ActionAgent() Agent { return HorizontalScalingAgent }

// ActionAgent of a resize of a pod is the VSA.
func (ResizePod) ActionAgent() Agent { return VerticalScalingAgent }

// ActionAgent of a call is the SA.
func (CallWebhook) ActionAgent() Agent { return StrategicAgent }

// Kind is the type's name.
func (CallWebhook) Kind() string { return "CallWebhook" }

// Object is whose call it is.
func (a CallWebhook) Object() ObjectRef { return StrategyRef(a.Strategy) }

func (a CallWebhook) String() string {
	return fmt.Sprintf("call the webhook of %s for rule %s: %s", hostOf(a.URL), a.Rule, a.Reason)
}

// Kind is the type's name.
func (ResizePod) Kind() string { return "ResizePod" }

// Object is what is changed.
func (a ResizePod) Object() ObjectRef { return PodRef(a.Pod) }

// Kind is the type's name.
func (ScaleWorkload) Kind() string { return "ScaleWorkload" }

// Kind is the type's name.
func (ResizePool) Kind() string { return "ResizePool" }

// Kind is the type's name.
func (RemoveNode) Kind() string { return "RemoveNode" }

// Kind is the type's name.
func (CordonNode) Kind() string { return "CordonNode" }

// Kind is the type's name.
func (UncordonNode) Kind() string { return "UncordonNode" }

// Kind is the type's name.
func (GiveUpMove) Kind() string { return "GiveUpMove" }

// Kind is the type's name.
func (EvictPod) Kind() string { return "EvictPod" }

// Kind is the type's name.
func (SetDeletionCost) Kind() string { return "SetDeletionCost" }

// Object is what is changed.
func (a ScaleWorkload) Object() ObjectRef { return WorkloadRef(a.Workload) }

// Object is what is changed.
func (a ResizePool) Object() ObjectRef { return PoolRef(a.Pool) }

// Object is what is changed.
func (a RemoveNode) Object() ObjectRef { return NodeRef(a.Node) }

// Object is what is changed.
func (a CordonNode) Object() ObjectRef { return NodeRef(a.Node) }

// Object is what is changed.
func (a UncordonNode) Object() ObjectRef { return NodeRef(a.Node) }

// Object is what is changed.
func (a GiveUpMove) Object() ObjectRef { return NodeRef(a.Node) }

// Object is what is changed.
func (a EvictPod) Object() ObjectRef { return PodRef(a.Pod) }

// Object is what is changed.
func (a SetDeletionCost) Object() ObjectRef { return PodRef(a.Pod) }

func (a ScaleWorkload) String() string {
	return fmt.Sprintf("scale %s %d → %d: %s", a.Workload, a.From, a.To, a.Reason)
}

func (a ResizePool) String() string {
	return fmt.Sprintf("resize pool %s %d → %d per zone: %s", a.Pool, a.From, a.To, a.Reason)
}

func (a RemoveNode) String() string {
	return fmt.Sprintf("remove node %s of pool %s: %s", a.Node, a.Pool, a.Reason)
}

func (a CordonNode) String() string {
	return fmt.Sprintf("cordon %s for %s: %s", a.Node, a.For, a.Reason)
}

func (a UncordonNode) String() string { return fmt.Sprintf("uncordon %s: %s", a.Node, a.Reason) }

func (a GiveUpMove) String() string {

	return fmt.Sprintf("give up moving from %s to pool %s: %s", a.Node, a.Pool, a.Reason)
}

func (a EvictPod) String() string {
	return fmt.Sprintf("evict %s from %s: %s", a.Pod, a.Node, a.Reason)
}

func (a SetDeletionCost) String() string {
	if a.Clear {
		return fmt.Sprintf("clear deletion cost of %s: %s", a.Pod, a.Reason)
	}
	return fmt.Sprintf("deletion cost of %s = %d: %s", a.Pod, a.Cost, a.Reason)
}

func (a ResizePod) String() string {
	text := fmt.Sprintf("resize container %s of %s: requests %s → %s", a.Container, a.Pod, a.From, a.To)
	if a.Limits != (Amounts{}) {
		text += ", limits " + a.Limits.String()
	}
	return text + ": " + a.Reason
}
