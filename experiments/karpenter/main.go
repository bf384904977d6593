// Command karpenter is Karpenter with its provider of simulated nodes (kwok), to be
// run against the local control plane: its own entry point, in a module of its own so
// that what it needs doesn't reach the product's.
//
// It is set by Karpenter's flags and environment variables:
// INSTANCE_TYPES_FILE_PATH names the machine types that it may launch. "karpenter
// crds" prints the CustomResourceDefinitions that it needs. "karpenter pack" reads a
// packing problem as "mash2 pack" does and prints, as JSON, what its provisioning
// scheduler makes of it.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "crds" {
		if err := printCRDs(); err != nil {
			fmt.Fprintln(os.Stderr, "karpenter: printing its CRDs:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "pack" {
		if err := pack(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "karpenter: packing:", err)
			os.Exit(1)
		}
		return
	}
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter: reading the machine types:", err)
		os.Exit(1)
	}
	bare := kwok.NewCloudProvider(ctx, op.GetClient(), types)
	provider := overlay.Decorate(bare, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), provider)
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, provider, bare, cluster, op.InstanceTypeStore,
	)...).Start(ctx)
}

// printCRDs prints Karpenter's and its provider's, one JSON document a line.
func printCRDs() error {
	out := json.NewEncoder(os.Stdout)
	for _, crd := range append(apis.CRDs, kwokapis.CRDs...) {
		if err := out.Encode(crd); err != nil {
			return err
		}
	}
	return nil
}
