package api

import "strings"

// ObjectRef names what a finding, an action or an outcome is about. Its text form, in
// JSON as well, is "workload ns/name", "node name" or, of what there is one of,
// "policy".
type ObjectRef struct {
	Kind string
	// Key of the object; without a namespace for what has none, and empty for what
	// there is one of.
	Key Key
}

// Kinds of objects.
const (
	KindWorkload = "workload"
	KindPod      = "pod"
	KindNode     = "node"
	KindPool     = "pool"
	KindPolicy   = "policy"
	KindStrategy = "strategy"
)

// The references that most findings have.
var (
	// PolicyRef is the policy in force, or its ConfigMap.
	PolicyRef = ObjectRef{Kind: KindPolicy}
	// CycleRef is the cycle itself.
	CycleRef = ObjectRef{Kind: "cycle"}
)

// WorkloadRef is a ManagedWorkload.
func WorkloadRef(key Key) ObjectRef { return ObjectRef{KindWorkload, key} }

// StrategyRef is a user's Strategy.
func StrategyRef(key Key) ObjectRef { return ObjectRef{KindStrategy, key} }

// PodRef is a pod.
func PodRef(key Key) ObjectRef { return ObjectRef{KindPod, key} }

// NodeRef is a node.
func NodeRef(name string) ObjectRef { return ObjectRef{KindNode, Key{Name: name}} }

// PoolRef is a node pool.
func PoolRef(name string) ObjectRef { return ObjectRef{KindPool, Key{Name: name}} }

// NamedPolicyRef is one of several policies.
func NamedPolicyRef(name string) ObjectRef { return ObjectRef{KindPolicy, Key{Name: name}} }

// ParseRef reads the text form. Any text is one: its first word is the kind.
func ParseRef(text string) ObjectRef {
	kind, name, _ := strings.Cut(text, " ")
	ref := ObjectRef{Kind: kind, Key: Key{Name: name}}
	if namespace, name, found := strings.Cut(name, "/"); found && (kind == KindWorkload || kind == KindPod || kind == KindStrategy) {
		ref.Key = Key{Namespace: namespace, Name: name}
	}
	return ref
}

// String is the text form.
func (r ObjectRef) String() string {
	switch {
	case r.Key == (Key{}):
		return r.Kind
	case r.Key.Namespace == "":
		return r.Kind + " " + r.Key.Name
	}
	return r.Kind + " " + r.Key.String()
}

// MarshalText is the text form.
func (r ObjectRef) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the text form.
func (r *ObjectRef) UnmarshalText(text []byte) error {
	*r = ParseRef(string(text))
	return nil
}
