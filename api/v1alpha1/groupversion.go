package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mash2-io/mash2/api"
)

// GroupVersion of everything in this package.
var GroupVersion = schema.GroupVersion{Group: api.Group, Version: "v1alpha1"}

var (
	// SchemeBuilder registers the types of this package with a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ManagedWorkload{}, &ManagedWorkloadList{}, &Strategy{}, &StrategyList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Resource returns the group resource of a plural name of this group.
func Resource(plural string) schema.GroupResource {
	return GroupVersion.WithResource(plural).GroupResource()
}
