package v1alpha1

// controller-gen is run at a fixed version and from outside the module graph,
// so that its dependencies never reach go.mod.
//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.21.0 object crd:headerFile=/dev/null paths=. output:crd:dir=../../charts/mash2/crds

// Quantities, those in Kubernetes' own types too, are short and have exponents of two digits
// at most: see ParseQuantity. Programs that read an object as it is typed parse them before
// anybody can look.
//go:generate sed -i -E "s/^( *)(pattern: .*\\[eE\\].{7}).*/\\1maxLength: 40\\n\\1\\2[0-9]{1,2}))?$DOLLAR/" ../../charts/mash2/crds/mash2.io_managedworkloads.yaml
