// Command localkube is a Kubernetes control plane in one program.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
)
func main() {
	fmt.Println(os.Args, strings.ToUpper(""), pflag.CommandLine, etcdmain.Main, cli.Run, apiserver.NewAPIServerCommand, controllermanager.NewControllerManagerCommand, scheduler.NewSchedulerCommand, kubelet.NewKubeletCommand, kubectl.NewDefaultKubectlCommand, kwok.NewCommand)
}
