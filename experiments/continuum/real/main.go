// Command real plays days of package continuum on a real control plane: a real API server,
// scheduler and controllers, mash2's operator, a Strategy with a choice for one workload that
// asks a forest, and node pools for the edge and the cloud. Nodes, pods' work and the figures
// of the two places are simulated. It prints one JSON line a day, beside the same rule in the
// simulation and both places alone over the same minutes, and at the end their means.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/continuum"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/strategic/model"
)

type options struct {
	program, chart string
	speed          float64
	seed           uint64
	days           int
	from, to       int // minutes of the day
}

func main() {
	var o options
	var from, hours float64
	var seeds string
	flag.StringVar(&o.program, "program", "bin/mash2", "mash2")
	flag.StringVar(&o.chart, "chart", "charts/mash2", "its chart")
	flag.Float64Var(&o.speed, "speed", 20, "times faster than real time")
	flag.StringVar(&seeds, "seeds", "1", "seeds of the days, by commas; those of different seeds are played at the same time")
	flag.IntVar(&o.days, "days", 1, "how many days of each seed")
	flag.Float64Var(&from, "from", 6.5, "hour of the day to begin at")
	flag.Float64Var(&hours, "hours", 3, "how many hours of each day")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "real [flags]        plays days\nreal FILE...        sums up the lines of earlier runs")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.from, o.to = int(60*from), int(60*(from+hours))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var days []result
	var err error
	if flag.NArg() > 0 {
		days, err = read(flag.Args())
	} else {
		days, err = o.play(ctx, strings.Split(seeds, ","))
	}
	if err == nil {
		err = sumUp(days)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "real:", err)
		os.Exit(1)
	}
}

// play the days of all seeds, each seed's one after the other, and print each.
func (o options) play(ctx context.Context, seeds []string) ([]result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var all []result
	var errs error
	var wait sync.WaitGroup
	for _, text := range seeds {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("-seeds: %w", err)
		}
		one := o
		one.seed = seed
		wait.Go(func() {
			for n := range one.days {
				day, err := one.day(ctx, n)
				mu.Lock()
				if err == nil {
					all = append(all, day)
					err = json.NewEncoder(os.Stdout).Encode(day)
				}
				if err != nil {
					errs = errors.Join(errs, fmt.Errorf("seed %d, day %d: %w", seed, n, err))
					cancel()
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	return all, errs
}

// read the lines of earlier runs.
func read(files []string) (all []result, err error) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(bytes.NewReader(text)); ; {
			var one result
			if err := d.Decode(&one); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if one.Minutes > 0 { // not a sum
				all = append(all, one)
			}
		}
	}
	return all, nil
}

// sumUp prints means over days, with intervals.
func sumUp(days []result) error {
	if len(days) == 0 {
		return errors.New("there is no day")
	}
	over := func(of func(result) float64) continuum.Mean {
		x := make([]float64, len(days))
		for i, d := range days {
			x[i] = of(d)
		}
		return continuum.MeanOf(x)
	}
	type half struct {
		AgainstCloud continuum.Mean `json:"againstCloud"`
		AgainstEdge  continuum.Mean `json:"againstEdge"`
		PerCost      continuum.Mean `json:"perCost"`
		Moves        int            `json:"moves"`
	}
	sides := func(of func(result) continuum.Outcome) (h half) {
		h.AgainstCloud = over(func(d result) float64 { return of(d).Time/d.Places["cloud"] - 1 })
		h.AgainstEdge = over(func(d result) float64 { return of(d).Time/d.Places["edge"] - 1 })
		h.PerCost = over(func(d result) float64 { return of(d).Worth })
		for _, d := range days {
			h.Moves += of(d).Moves
		}
		return h
	}
	out := struct {
		Days      int                       `json:"days"`
		Real      half                      `json:"real"`
		Simulated half                      `json:"simulated"`
		Staying   map[string]continuum.Mean `json:"perCostStaying"`
		// Error of the simulated time, and the largest of a day.
		RealOverSimulated continuum.Mean `json:"realOverSimulated"`
		Largest           float64        `json:"largest"`
		Requests          uint64         `json:"requests"`
		FailedRequests    uint64         `json:"failedRequests"`
		LeastReady        int32          `json:"leastReady"`
	}{
		Days: len(days), LeastReady: math.MaxInt32,
		Real:      sides(func(d result) continuum.Outcome { return d.Real }),
		Simulated: sides(func(d result) continuum.Outcome { return d.Sim }),
		Staying: map[string]continuum.Mean{
			"cloud": over(func(d result) float64 { return d.PerCost["cloud"] }), "edge": over(func(d result) float64 { return d.PerCost["edge"] }),
		},
		RealOverSimulated: over(func(d result) float64 { return d.Real.Time/d.Sim.Time - 1 }),
	}
	for _, d := range days {
		out.Largest = max(out.Largest, math.Abs(d.Real.Time/d.Sim.Time-1))
		out.Requests += d.Requests
		out.FailedRequests += d.FailedRequests
		out.LeastReady = min(out.LeastReady, d.LeastReady)
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// result of a day.
type result struct {
	Seed    uint64             `json:"seed"`
	Day     int                `json:"day"`
	Minutes int                `json:"minutes"`
	Speed   float64            `json:"speed"`
	Real    continuum.Outcome  `json:"real"`
	Sim     continuum.Outcome  `json:"simulated"`
	Places  map[string]float64 `json:"secondsStaying"`
	// PerCost of staying.
	PerCost map[string]float64 `json:"perCostStaying"`
	// AgainstCloud and AgainstEdge are the change of the mean prediction time; −0.1 is a
	// tenth less.
	AgainstCloud float64 `json:"againstCloud"`
	AgainstEdge  float64 `json:"againstEdge"`
	// Requests of the load, those that failed, and the fewest Ready pods at any moment.
	Requests       uint64 `json:"requests"`
	FailedRequests uint64 `json:"failedRequests"`
	LeastReady     int32  `json:"leastReady"`
}

// day plays one.
func (o options) day(ctx context.Context, n int) (out result, err error) {
	day := continuum.NewDay(o.seed, n)
	m, err := continuum.Train(o.seed)
	if err != nil {
		return out, err
	}
	s, err := scenarios.Load("heartbeat")
	if err != nil {
		return out, err
	}
	const users = 40
	start := users
	s.Name, s.StartVUs, s.Stages = "edge-cloud", &start, []scenarios.Stage{{Duration: 24 * time.Hour, Target: users}}
	s.Workload.Replicas = scenarios.Bounds{Min: 2, Max: 6}
	bed, err := testbed.Start(ctx, testbed.Options{Scenario: s, Speed: o.speed, Seed: o.seed, Passes: 1, Progress: os.Stderr})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, bed.Stop()) }()
	// The figures of the two places, as something beside them would publish them.
	var minute atomic.Int64
	minute.Store(int64(o.from))
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := int(minute.Load())
		f := day.Features(placeOf(strings.TrimPrefix(r.URL.Path, "/")), now)
		f["price"] = 60 * continuum.Price(placeOf(strings.TrimPrefix(r.URL.Path, "/")), now)
		_ = json.NewEncoder(w).Encode(f)
	}))
	defer host.Close()
	models := filepath.Join(bed.Dir, "models")
	data, err := model.Encode(m)
	if err == nil {
		err = errors.Join(os.MkdirAll(models, 0o755), os.WriteFile(filepath.Join(models, "qos.json"), data, 0o644))
	}
	if err != nil {
		return out, err
	}
	pools := map[string]continuum.Place{bed.PoolOf(api.CostSaving): continuum.Cloud, bed.PoolOf(api.Performance): continuum.Edge}
	if err := o.install(ctx, bed, host.URL); err != nil {
		return out, err
	}
	operator, err := bed.StartOperator(o.program, nil, "--leader-elect=false", "--places-at-admission", "--models", models,
		"--sensor-host", strings.TrimPrefix(host.URL, "http://"))
	if err != nil {
		return out, err
	}
	defer operator.Kill()
	if err := bed.WaitLeading(ctx, operator, time.Now().Add(-time.Minute)); err != nil {
		return out, fmt.Errorf("%w: %s", err, testbed.Tail(bed.OperatorLog(), 20))
	}
	bed.Load.Begin()
	out = result{Seed: o.seed, Day: n, Minutes: o.to - o.from, Speed: o.speed}
	began := time.Now()
	last := -1
	var before string
	for ctx.Err() == nil {
		now := o.from + int(time.Since(began).Minutes()*o.speed)
		if now >= o.to {
			break
		}
		minute.Store(int64(now))
		at, err := where(ctx, bed, pools)
		if err != nil {
			return out, err
		}
		if now != last && len(at) > 0 {
			last = now
			paid, took, all := 0.0, 0.0, 0.0
			for p, pods := range at {
				paid += 60 * continuum.Price(p, now)
				took += day.Took(p, now) * float64(pods)
				all += float64(pods)
			}
			took /= all
			out.Real.Time += took
			out.Real.Worth += 1 / (took * paid)
			if now%15 == 0 {
				said, _ := bed.Cluster.Kubectl(ctx, "get", "strategies", "-A", "-o",
					"jsonpath={range .items[*]}{.status.active} {.status.reason} {.status.conditions[?(@.type=='Ready')].message}{end}")
				fmt.Fprintf(os.Stderr, "%02d:%02d %s\n", now/60, now%60, strings.TrimSpace(said))
			}
			state := fmt.Sprint(at[continuum.Cloud] > 0, at[continuum.Edge] > 0)
			if len(at) == 1 && state != before {
				if before != "" {
					out.Real.Moves++
				}
				before = state
				fmt.Fprintf(os.Stderr, "%02d:%02d in the cloud %d pods, at the edge %d\n", now/60, now%60, at[continuum.Cloud], at[continuum.Edge])
			}
		}
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-operator.Done():
			return out, fmt.Errorf("the operator ended: %w: %s", operator.Err(), testbed.Tail(bed.OperatorLog(), 20))
		case <-time.After(250 * time.Millisecond):
		}
	}
	return o.judge(bed, day, m, out)
}

func placeOf(name string) continuum.Place {
	if name == "edge" {
		return continuum.Edge
	}
	return continuum.Cloud
}

// judge puts the simulation and the places alone beside it.
func (o options) judge(bed *testbed.Testbed, day continuum.Day, m model.Model, out result) (result, error) {
	out.Real.Time /= float64(out.Minutes)
	out.Real.Worth /= float64(out.Minutes)
	var err error
	if out.Sim, err = day.Play(m, o.from, o.to); err != nil {
		return out, err
	}
	cloud, edge := day.Stays(continuum.Cloud, o.from, o.to), day.Stays(continuum.Edge, o.from, o.to)
	out.Places = map[string]float64{"cloud": cloud.Time, "edge": edge.Time}
	out.PerCost = map[string]float64{"cloud": cloud.Worth, "edge": edge.Worth}
	out.AgainstCloud, out.AgainstEdge = out.Real.Time/cloud.Time-1, out.Real.Time/edge.Time-1
	for _, w := range bed.Load.Results().Workloads {
		out.Requests, out.FailedRequests, out.LeastReady = w.Measured.Requests, w.Measured.Failed, w.Measured.MinReadyPods
	}
	return out, nil
}

// where are the Ready pods of the application, by place.
func where(ctx context.Context, bed *testbed.Testbed, pools map[string]continuum.Place) (map[continuum.Place]int, error) {
	var nodes corev1.NodeList
	var pods corev1.PodList
	if err := errors.Join(bed.Client.List(ctx, &nodes), bed.Client.List(ctx, &pods, client.InNamespace(testbed.Mash2))); err != nil {
		return nil, err
	}
	on := map[string]continuum.Place{}
	for _, n := range nodes.Items {
		if p, ok := pools[n.Labels[api.LabelNodePool]]; ok {
			on[n.Name] = p
		}
	}
	at := map[continuum.Place]int{}
	for _, p := range pods.Items {
		place, placed := on[p.Spec.NodeName]
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && placed && p.DeletionTimestamp == nil {
				at[place]++
			}
		}
	}
	return at, nil
}

// install the admission policy, a policy of both pools, and the Strategy.
func (o options) install(ctx context.Context, bed *testbed.Testbed, host string) error {
	text, err := bed.Cluster.Helm(ctx, "template", "mash2", o.chart, "--kube-version", "1.36.0",
		"--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy", "--show-only", "templates/placement.yaml",
		"--set", "prometheus.url=http://prometheus,provider.name=kind,provider.poolLabel="+api.LabelNodePool+",strategies.placement=true")
	if err != nil {
		return err
	}
	cloud, edge := bed.PoolOf(api.CostSaving), bed.PoolOf(api.Performance)
	var policy corev1.ConfigMap
	if err := bed.Client.Get(ctx, client.ObjectKey{Namespace: testbed.Namespace, Name: testbed.PolicyConfigMap}, &policy); err != nil {
		return err
	}
	policy.Data["policies.yaml"] = fmt.Sprintf("policies: {COST_SAVING: {nodePools: [%s, %s]}}", cloud, edge)
	if err := bed.Client.Update(ctx, &policy); err != nil {
		return err
	}
	for _, document := range []string{text, o.strategy(host, cloud, edge)} {
		file := filepath.Join(bed.Dir, "apply.yaml")
		if err := os.WriteFile(file, []byte(document), 0o644); err != nil {
			return err
		}
		if said, err := bed.Cluster.Kubectl(ctx, "apply", "-f", file); err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
	}
	return nil
}

// strategy is the priced rule as a user writes it, in the world's time.
func (o options) strategy(host, cloud, edge string) string {
	scaled := func(minutes float64) time.Duration {
		return max(time.Second, time.Duration(minutes/o.speed*float64(time.Minute)).Round(time.Second))
	}
	names := map[string]string{"use_mean": "Mean", "use_last": "Last", "use_max": "Max", "use_change": "Change", "price": "Price"}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: mash2.io/v1alpha1\nkind: Strategy\nmetadata: {name: edge-or-cloud, namespace: %s}\nspec:\n  sensors:\n", testbed.Mash2)
	for _, place := range []string{"cloud", "edge"} {
		for field, name := range names {
			fmt.Fprintf(&b, "    - {name: %s%s, http: {url: '%s/%s', jsonPath: '{.%s}'}, when: {interval: {every: %s}}}\n", place, name, host, place, field, scaled(5))
		}
	}
	fmt.Fprintf(&b, "  choose:\n    workload: %s\n    model: {name: qos}\n    require: predicted <= %g\n    score: 1.0 / (predicted * c.price)\n    marginPercent: %d\n    minStay: %s\n    candidates:\n",
		testbed.WorkloadName, continuum.SLA, int(math.Round(100*continuum.Margin)), scaled(continuum.Stay))
	for i, place := range []string{"cloud", "edge"} {
		fmt.Fprintf(&b, "      - name: %s\n        pools: [%s]\n        features: {edge: '%d.0'", place, []string{cloud, edge}[i], i)
		for field, name := range names {
			fmt.Fprintf(&b, ", %s: %s%s", field, place, name)
		}
		b.WriteString("}\n")
	}
	return b.String()
}
