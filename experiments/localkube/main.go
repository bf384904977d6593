// Command localkube is a Kubernetes control plane in one program: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl
// and kwok, each the real component's own entry point, chosen by the first
// argument. "localkube up" starts a cluster out of them.
//
// The program starts itself once per component instead of running them as
// goroutines: every one of them owns process-wide state (flag sets, metric
// registries, signal handlers, feature gates) that would clash.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's credential plugins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// Names of the components, which are also the program's first arguments.
const (
	etcdName              = "etcd"
	apiserverName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"
	kubeletName           = "kubelet"
	kubectlName           = "kubectl"
	kwokName              = "kwok"
	upName                = "up"
)

// commands maps the first argument to what runs; each sees os.Args as if it
// were a program of its own, and returns the exit code.
var commands = map[string]func() int{
	etcdName:              func() int { etcdmain.Main(os.Args); return 0 },
	apiserverName:         func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	controllerManagerName: func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	schedulerName:         func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	kubeletName:           func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	kubectlName:           runKubectl,
	kwokName:              runKwok,
	upName:                runUp,
}

func main() {
	if len(os.Args) > 1 {
		if run, ok := commands[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			os.Exit(run())
		}
	}
	names := make([]string, 0, len(commands))
	for name := range commands {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "usage: localkube {%s} [flags]\n", strings.Join(names, "|"))
	os.Exit(2)
}

// runKubectl does what kubectl's own main does.
func runKubectl() int {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints and exits
	}
	return 0
}

// runKwok does what kwok's own main does. The Kubernetes libraries have
// already registered --version on the process-wide flag set, which kwok's
// command would define again: it gets a fresh one.
func runKwok() int {
	pflag.CommandLine = pflag.NewFlagSet(kwokName, pflag.ExitOnError)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, logger := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		logger.Error("Init config flags", "err", err)
		return 1
	}
	cmd := kwok.NewCommand(ctx)
	cmd.PersistentFlags().AddFlagSet(flags)
	if err := cmd.ExecuteContext(ctx); err != nil {
		logger.Error("Execute exit", "err", err)
		return 1
	}
	return 0
}
