package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/whatif"
)

// registerHistory adds the flags of where the history is.
func registerHistory(cmd *cobra.Command, o *whatif.History, prom *cli.PrometheusFlags) {
	f := cmd.Flags()
	f.StringVar(&prom.URL, "prometheus", "", "base URL of Prometheus")
	f.StringVar(&prom.TokenFile, "prometheus-bearer-token-file", "", "file with a bearer token for Prometheus")
	f.StringVar(&prom.CAFile, "prometheus-ca-file", "", "file with the certificates of the authority that signed Prometheus' own; those of the system if empty")
	f.StringArrayVar(&prom.Headers, "prometheus-header", nil, "header of each request to Prometheus, such as 'X-Scope-OrgID: team'; may be repeated")
	f.StringVar(&o.Selector, "selector", "", `label matchers of the workload's pods in cAdvisor's series, such as 'namespace="shop",pod=~"web-.+"'`)
	f.StringVar(&o.Query, "query", "", "PromQL for the used cores as one series, instead of --selector")
	f.DurationVar(&o.RateWindow, "rate-window", 0, "window of the CPU usage rate (default: 2m, or the step if that is longer)")
	f.StringVar(&o.Trace, "trace", "", "CSV[.gz] file to read instead of Prometheus")
	f.StringVar(&o.Records, "records", "", "folder of an operator's records to read instead of Prometheus")
	f.StringVar(&o.Workload, "workload", "", "NAMESPACE/NAME of the ManagedWorkload in --records (default: all, each on nodes of its own)")
	f.StringVar(&o.Namespace, "namespace", "", "only the ManagedWorkloads of this namespace in --records, in one table")
	f.StringVar(&o.Time, "time", "", "column of timestamps in the trace, by name or by number from 0")
	f.StringVar(&o.Value, "value", "", "column of cores in the trace, by name or by number from 0")
	f.StringVar(&o.Delimiter, "delimiter", ",", `character between fields of the trace; \t is a tab`)
	f.BoolVar(&o.NoHeader, "no-header", false, "the trace's first row is data")
	f.Float64Var(&o.Scale, "scale", 1, "cores per unit of the values, such as 0.04 for percent of four cores")
	f.Float64Var(&o.PeakCores, "peak-cores", 0, "scale the values so that the highest is this many cores")
	f.StringVar(&o.From, "from", "24h", "begin of the stretch: RFC 3339, or a duration before now or before the trace's end")
	f.StringVar(&o.To, "to", "0s", "end of the stretch, in the same forms")
	f.DurationVar(&o.Step, "step", 0, "time between samples (default: 1m of Prometheus, that of the rows of a trace)")
	f.IntVar(&o.Warm, "warm-passes", 1, "length of the history before the stretch, in lengths of the stretch")
	f.Float64Var(&o.LoadFactor, "load-factor", 1, "factor of the demand, such as 2 for twice as much")
}

// registerWorld adds the flags of what a history can't tell.
func registerWorld(cmd *cobra.Command, o *whatif.World) {
	f := cmd.Flags()
	f.DurationVar(&o.RequestCPU, "request-cpu", 3*time.Millisecond, "CPU time of one request on a core of n2, on average; exponential")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Second, "a sender gives up a request after this time")
	f.DurationVar(&o.SLOP95, "slo-p95", 200*time.Millisecond, "a minute with a higher 95th percentile of latencies is in violation")
	f.Float64Var(&o.SLOFailed, "slo-failed", 0.01, "a minute with a larger share of failed requests is in violation")
	f.StringVar(&o.CPURequest, "cpu-request", "200m", "CPU request of a pod (default: that in kube-state-metrics, else 200m)")
	f.StringVar(&o.CPULimit, "cpu-limit", "", "CPU limit of a pod; 0 for none (default: that in kube-state-metrics, else twice the request)")
	f.StringVar(&o.MemoryRequest, "memory-request", "128Mi", "memory request of a pod (default: that in kube-state-metrics, else 128Mi)")
	f.StringVar(&o.MemoryLimit, "memory-limit", "", "memory limit of a pod; 0 for none (default: that in kube-state-metrics, else none)")
	f.Int32Var(&o.MinReplicas, "min-replicas", 2, "minimum replicas of every scaler")
	f.Int32Var(&o.MaxReplicas, "max-replicas", 0, "maximum replicas of every scaler (default: what the highest usage needs at a utilisation of 30 %)")
	f.StringSliceVar(&o.PoolNames, "pool", []string{"e2-standard-2", "n2-standard-2"}, "node pools, each a machine type or NAME=TYPE; rivals use the first")
	f.Int32Var(&o.MaxNodes, "max-nodes", 0, "maximum nodes of each pool; 0: no limit")
	f.DurationVar(&o.Boot, "boot", 75*time.Second, "median of the time from a node's creation until it is Ready")
	f.StringVar(&o.MeasuredOn, "measured-on", "", "machine type on which the history was measured (default: the first pool's)")
	f.Float64Var(&o.Spot.Share, "spot-share", 0, "try every policy once more with at most this share of the replicas on spot machines, such as 0.7")
	f.Int32Var(&o.Spot.Floor, "spot-floor", 0, "replicas that never run on spot machines (default: --min-replicas)")
	f.Float64Var(&o.Spot.PriceRatio, "spot-price", api.SpotPriceRatio, "what a spot machine costs, as a share of the price on demand")
	f.Float64Var(&o.Spot.Interruptions, "spot-interruptions", api.DefaultInterruptions, "how often each spot machine is taken away, per hour")
	f.Float64Var(&o.Noise, "noise", 0, "standard deviation of noise added to the history, as a share, correlated over 10s")
}
