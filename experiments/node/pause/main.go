// Command pause holds a pod's namespaces: it waits for the end. Real clusters run
// registry.k8s.io/pause for it, which is another program that waits.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
