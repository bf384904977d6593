// Package v1alpha1 holds the custom resources of mash2.
//
// A ManagedWorkload points at a workload with a scale subresource in its own
// namespace and says within what bounds, and how far, mash2 manages it. Every
// object is validated by the API server itself (schema and CEL): there is no
// webhook.
//
// +kubebuilder:object:generate=true
// +groupName=mash2.io
package v1alpha1
