package v1alpha1

// controller-gen is run at a fixed version and from outside the module graph,
// so that its dependencies never reach go.mod.
//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.21.0 object crd:headerFile=/dev/null paths=. output:crd:dir=../../charts/mash2/crds
