// Command build builds the local control plane once and keeps it, so that
// tests and the demo find it ready.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/mash2-io/mash2/experiments/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path, err := cluster.Binary(ctx, "", os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "building the local control plane: %v\n", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
