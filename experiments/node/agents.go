package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/planning/vertical"
)

// The world of agents: MARLISE's load test at a size that this machine has. Three pods of a
// StatefulSet share a budget; the load on each of them changes, and all of it fits.
const (
	agentPods   = 3
	agentBudget = 900 // millicores
	// cpuSeconds of each request, and requestRate of all of them together: six tenths of
	// the budget.
	cpuSeconds  = 0.012
	requestRate = 45.0
	// splits of the load in a turn, each for splitSeconds.
	splits       = 3
	splitSeconds = 20
	// In the world of scaling a fourth pod is added after a split and goes after another; its
	// load is there while it surely runs, from joined to left, seconds.
	joined, left = splitSeconds + 5, 2*splitSeconds - 1
	loss         = 2 * time.Second // how long a request may take: MARLISE's figure
)

// none is what decides where nothing does: limits stay equal.
const none = "fixed"

// loads of the world of scaling by pod, shares of requestRate: MARLISE's 30, 40, 50 and, of
// the pod that is added, 50 requests a second.
var scaling = [agentPods + 1]float64{30. / 170, 40. / 170, 50. / 170, 50. / 170}

// each pod's part of the budget, millicores.
func (o options) each() int64 {
	if o.Scaling {
		return agentBudget / (agentPods + 1)
	}
	return agentBudget / agentPods
}

// turn is one load under what decided.
type turn struct {
	Decides string    `json:"decides"`
	Seed    uint64    `json:"seed"`
	K6      k6Summary `json:"k6"`
	// Cores that all pods used, on average; Quota is the sum of their limits, by the kernel,
	// each second on average; Throttled is the share of their periods in which they used it up.
	Cores     float64 `json:"cores"`
	Quota     float64 `json:"quotaCores"`
	MostQuota float64 `json:"mostQuotaCores"`
	Throttled float64 `json:"throttled"`
	Resizes   int     `json:"resizes"`
	Changes   int     `json:"changes"` // of limits that the kernel was seen with
	Restarts  int32   `json:"restarts"`
}

// compared is what -agents prints, beside a table.
type compared struct {
	Turns []turn `json:"turns"`
	// Against the threshold rule by what decided: the mean of differences in mean response
	// times as a share of the rule's, and its 95 % interval by Student's t.
	Against map[string][3]float64 `json:"meanAgainstThreshold"`
}

// agents compares what moves CPU between running pods, seed by seed and in turns, so that
// whatever else the machine does happens to all of them.
func (n *realNode) agents(ctx context.Context, o options, say func(string, ...any)) (compared, error) {
	out := compared{Against: map[string][3]float64{}}
	set, err := n.startService(ctx, o.each())
	if err != nil {
		return out, err
	}
	minds := []string{none, "threshold", "proportional", "spread"}
	if o.VPA {
		minds = append(minds, vpa)
	}
	if o.Agents != "" {
		minds = append(minds, filepath.Base(o.Agents))
	}
	if o.Minds != "" {
		known := minds
		minds = strings.Split(o.Minds, ",")
		for _, mind := range minds {
			if _, err := vertical.RuleByName(mind); err != nil && !slices.Contains(known, mind) {
				return out, fmt.Errorf("-minds: want a rule or one of %s, is %q", strings.Join(known, ", "), mind)
			}
		}
	}
	if slices.Contains(minds, vpa) {
		if err := n.startVPA(ctx, o); err != nil {
			return out, err
		}
	}
	for seed := uint64(1); seed <= uint64(o.Seeds); seed++ {
		for i := range minds {
			mind := minds[(i+int(seed))%len(minds)] // another one is first each time
			t, err := n.turn(ctx, o, set, mind, seed)
			if err != nil {
				return out, fmt.Errorf("%s, seed %d: %w", mind, seed, err)
			}
			say("seed %d  %-14s mean %4.0f ms  p95 %4.0f ms  failed %.1f %%  %d resizes  quota %.2f of %.2f cores, used %.2f",
				seed, mind, t.K6.Mean, t.K6.P95, 100*t.K6.FailedRatio, t.Resizes, t.Quota, float64(agentBudget)/1000, t.Cores)
			out.Turns = append(out.Turns, t)
		}
	}
	for _, mind := range minds {
		out.Against[mind] = against(out.Turns, mind, "threshold")
	}
	fmt.Fprintln(os.Stderr, out.table(minds))
	return out, nil
}

// against is the mean of the paired differences as a share of the other's, and its interval.
func against(turns []turn, mind, other string) [3]float64 {
	of := func(name string) map[uint64]float64 {
		out := map[uint64]float64{}
		for _, t := range turns {
			if t.Decides == name {
				out[t.Seed] = t.K6.Mean
			}
		}
		return out
	}
	var shares []float64
	others := of(other)
	for seed, mean := range of(mind) {
		shares = append(shares, mean/others[seed]-1)
	}
	mean, deviation := stat.MeanStdDev(shares, nil)
	half := 0.0
	if n := float64(len(shares)); n > 1 {
		half = distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
	}
	return [3]float64{mean, mean - half, mean + half}
}

// table of means over seeds.
func (c compared) table(minds []string) string {
	var b strings.Builder
	b.WriteString("| decides | mean ms | p95 ms | failed | against the threshold rule, mean | cores used | quota | throttled periods | resizes a turn | restarts |\n|---|--:|--:|--:|---|--:|--:|--:|--:|--:|\n")
	for _, mind := range minds {
		var mean, p95, failed, cores, quota, throttled, resizes, restarts, count float64
		for _, t := range c.Turns {
			if t.Decides == mind {
				mean, p95, failed = mean+t.K6.Mean, p95+t.K6.P95, failed+t.K6.FailedRatio
				cores, quota, throttled = cores+t.Cores, quota+t.Quota, throttled+t.Throttled
				resizes, restarts, count = resizes+float64(t.Resizes), restarts+float64(t.Restarts), count+1
			}
		}
		a := c.Against[mind]
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.1f %% | %+.0f %% (%+.0f to %+.0f) | %.2f | %.2f | %.0f %% | %.0f | %.0f |\n",
			mind, mean/count, p95/count, 100*failed/count, 100*a[0], 100*a[1], 100*a[2], cores/count, quota/count, 100*throttled/count, resizes/count, restarts)
	}
	return b.String()
}

// startService runs the StatefulSet and returns when all of its pods are Ready. Their program gets
// args.
func (n *realNode) startService(ctx context.Context, millicores int64, args ...string) (*appsv1.StatefulSet, error) {
	labels := map[string]string{"app": workload}
	each := strconv.FormatInt(millicores, 10) + "m"
	// More memory may be used than is requested, which makes it burstable: where readPod looks.
	spec := podSpec(quantities(each, "32Mi"), quantities(each, "64Mi"))
	spec.Containers[0].Args = append(spec.Containers[0].Args, args...)
	if _, err := n.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: appSpace}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	set, err := n.client.AppsV1().StatefulSets(appSpace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: workload},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(agentPods)), Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: workload,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Template:            corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return set, wait(ctx, "the StatefulSet", n.daemons, func(ctx context.Context) error {
		is, err := n.client.AppsV1().StatefulSets(appSpace).Get(ctx, workload, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if is.Status.ReadyReplicas < agentPods {
			return fmt.Errorf("%d pods are Ready", is.Status.ReadyReplicas)
		}
		return nil
	})
}

// turn resets the limits, lets mind decide, and loads the pods.
func (n *realNode) turn(ctx context.Context, o options, set *appsv1.StatefulSet, mind string, seed uint64) (turn, error) {
	t := turn{Decides: mind, Seed: seed}
	list, err := n.client.CoreV1().Pods(appSpace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)})
	if err != nil {
		return t, err
	}
	if err := n.equalLimits(ctx, list.Items, o.each()); err != nil {
		return t, err
	}
	// Who does not say how often it resized is counted by what the kernel was seen with.
	resizes := func() (int, error) { return t.Changes, nil }
	switch mind {
	case none:
	case vpa:
		end, err := n.letVPA(ctx)
		if err != nil {
			return t, err
		}
		resizes = func() (int, error) { return t.Changes, end() }
	default:
		if resizes, err = n.decide(ctx, o, mind); err != nil {
			return t, err
		}
	}
	watched, stop := context.WithCancel(ctx)
	defer stop()
	seen := make(chan turn, 1)
	go func() { seen <- watchPods(watched, func() []corev1.Pod { return n.podsNow(ctx, set) }) }()
	scaled := make(chan error, 1)
	go func() { scaled <- n.scale(watched, o, set) }()
	summary, err := n.loadPods(ctx, o, set, t)
	stop()
	err = errors.Join(err, <-scaled)
	if err != nil {
		return t, err
	}
	is := <-seen
	t.K6, t.Cores, t.Quota, t.MostQuota, t.Throttled, t.Changes = summary, is.Cores, is.Quota, is.MostQuota, is.Throttled, is.Changes
	if t.Resizes, err = resizes(); err != nil {
		return t, err
	}
	// VPA knows no budget; and a pod that is added has its template's limit before anybody can
	// give back what it has.
	if mind != vpa && !o.Scaling && t.MostQuota > float64(agentBudget)/1000+1e-6 {
		return t, fmt.Errorf("all limits together were %.3f cores, above the budget", t.MostQuota)
	}
	if list, err = n.client.CoreV1().Pods(appSpace).List(ctx, metav1.ListOptions{}); err != nil {
		return t, err
	}
	for i := range list.Items {
		t.Restarts += list.Items[i].Status.ContainerStatuses[0].RestartCount
	}
	return t, nil
}

// equalLimits gives every pod its share of the budget, those first that give some back.
func (n *realNode) equalLimits(ctx context.Context, pods []corev1.Pod, each int64) error {
	for _, down := range []bool{true, false} {
		for i := range pods {
			if now := pods[i].Spec.Containers[0].Resources.Limits.Cpu().MilliValue(); now == each || now > each != down {
				continue
			}
			patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"%[1]dm"},"limits":{"cpu":"%[1]dm"}}}]}}`, each)
			if _, err := n.client.CoreV1().Pods(appSpace).Patch(ctx, pods[i].Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize"); err != nil {
				return err
			}
		}
	}
	return wait(ctx, "equal limits", n.daemons, func(context.Context) error {
		for i := range pods {
			is, err := readPod(cgroupRoot, pods[i].UID)
			if err == nil && math.Abs(is.cores()*1000-float64(each)) > 0.5 {
				err = fmt.Errorf("%s has %g cores", pods[i].Name, is.cores())
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// decide starts mash2 agents on the node. What it returns ends it, and tells how many
// resizes it asked for.
func (n *realNode) decide(ctx context.Context, o options, mind string) (resizes func() (int, error), err error) {
	args := []string{
		"agents", "--kubeconfig", n.cluster.Kubeconfig, "--namespace", appSpace, "--selector", "app=" + workload, "--node", nodeName,
		"--usage", "cgroup", "--cgroup-root", cgroupRoot, "--kubelet-cgroup", cgroupName, "--resources", strconv.Itoa(agentBudget), "-o", "json",
	}
	if o.Agents != "" && mind == filepath.Base(o.Agents) {
		var card struct{ Algorithm string }
		_, data := vertical.ShippedModel()
		var err error
		if !strings.HasPrefix(o.Agents, agents.Builtin) {
			data, err = os.ReadFile(filepath.Join(o.Agents, "card.json"))
		}
		if err := errors.Join(err, json.Unmarshal(data, &card)); err != nil {
			return nil, err
		}
		args = append(args, "--algorithm", card.Algorithm, "--load_model", o.Agents, "--untested")
	} else {
		args = append(args, "--algorithm", mind)
	}
	c := exec.CommandContext(ctx, o.Mash2, args...)
	var stdout strings.Builder
	log, err := os.Create(filepath.Join(o.Logs, "agents-"+mind+".log"))
	if err != nil {
		return nil, err
	}
	c.Stdout, c.Stderr = &stdout, log
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return func() (int, error) {
		var sum struct{ Resizes, Errors int }
		err := errors.Join(c.Process.Signal(os.Interrupt), c.Wait(), log.Close())
		if err == nil {
			err = json.Unmarshal([]byte(stdout.String()), &sum)
		}
		if err == nil && sum.Resizes == 0 {
			err = fmt.Errorf("%s resized no pod; see %s", mind, log.Name())
		}
		return sum.Resizes, err
	}, nil
}

// podsNow are the pods of the set, by name; none while the API server does not say.
func (n *realNode) podsNow(ctx context.Context, set *appsv1.StatefulSet) []corev1.Pod {
	list, err := n.client.CoreV1().Pods(appSpace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)})
	if err != nil {
		return nil
	}
	return list.Items
}

// scale adds a pod and takes it away, in the world of scaling.
func (n *realNode) scale(ctx context.Context, o options, set *appsv1.StatefulSet) error {
	if !o.Scaling {
		return nil
	}
	for _, replicas := range []int{agentPods + 1, agentPods} {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the load ended before %d pods were asked for", replicas)
		case <-time.After(splitSeconds * time.Second):
		}
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
		if _, err := n.client.AppsV1().StatefulSets(appSpace).Patch(ctx, set.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// watchPods reads their cgroups each second until the context ends.
func watchPods(ctx context.Context, pods func() []corev1.Pod) (t turn) {
	type counters struct {
		used               time.Duration
		throttled, periods int64
	}
	first, last := map[types.UID]counters{}, map[types.UID]counters{}
	quotas := map[types.UID]float64{}
	// read adds what a pod used, though it goes; the first counters are those of before.
	read := func() (used time.Duration, quota float64, throttled, periods int64) {
		for _, p := range pods() {
			is, err := readPod(cgroupRoot, p.UID)
			if err != nil {
				continue
			}
			c := counters{is.Used, is.Throttled, is.Periods}
			if _, ok := first[p.UID]; !ok {
				first[p.UID] = c
			} else if quotas[p.UID] != is.cores() {
				t.Changes++
			}
			last[p.UID], quotas[p.UID] = c, is.cores()
			quota += is.cores()
		}
		for uid, c := range last {
			f := first[uid]
			used, throttled, periods = used+c.used-f.used, throttled+c.throttled-f.throttled, periods+c.periods-f.periods
		}
		return used, quota, throttled, periods
	}
	begin := time.Now()
	looks := 0.0
	for {
		_, quota, _, _ := read()
		t.Quota, t.MostQuota, looks = t.Quota+quota, max(t.MostQuota, quota), looks+1
		select {
		case <-ctx.Done():
			used, _, throttled, periods := read()
			t.Cores = used.Seconds() / time.Since(begin).Seconds()
			t.Throttled = float64(throttled) / float64(max(1, periods))
			t.Quota /= looks
			return t
		case <-time.After(time.Second):
		}
	}
}

// stage of a pod's load: requests a second for a while.
type stage struct {
	Rate    float64 `json:"rate"`
	Seconds int     `json:"seconds"`
}

// stages of each pod's load. It is split anew splits times, at random by the seed; a pod gets
// up to eight tenths of all requests. In the world of scaling each pod has a load of its own,
// which of them which one is the seed's, and the last one is there for a while only.
func stages(o options, seed uint64) [][]stage {
	rng := rand.New(rand.NewPCG(seed, 1))
	if o.Scaling {
		out := make([][]stage, agentPods+1)
		for i, j := range rng.Perm(agentPods) {
			out[i] = []stage{{math.Round(scaling[j] * requestRate), splits * splitSeconds}}
		}
		out[agentPods] = []stage{{0, joined}, {math.Round(scaling[agentPods] * requestRate), left - joined}, {0, splits*splitSeconds - left}}
		return out
	}
	out := make([][]stage, agentPods)
	for range splits {
		var shares [agentPods]float64
		var sum float64
		for i := range shares {
			shares[i] = 0.15 + rng.ExpFloat64()
			sum += shares[i]
		}
		for i := range out {
			out[i] = append(out[i], stage{math.Round(min(0.8, shares[i]/sum) * requestRate), splitSeconds})
		}
	}
	return out
}

// loadPods runs k6 against each pod.
func (n *realNode) loadPods(ctx context.Context, o options, set *appsv1.StatefulSet, t turn) (k6Summary, error) {
	var plan []asked
	for i, stages := range stages(o, t.Seed) {
		address, end, err := n.forward(ctx, fmt.Sprintf("%s-%d", set.Name, i))
		if err != nil {
			return k6Summary{}, err
		}
		defer end()
		plan = append(plan, asked{"http://" + address + "/", stages})
	}
	port, err := freePort()
	if err != nil {
		return k6Summary{}, err
	}
	name := fmt.Sprintf("k6-agents-%s-%d", t.Decides, t.Seed)
	exported := filepath.Join(o.Work, name+".json")
	cmd, log, err := podsK6(ctx, o, plan, name, port, cpuSeconds, "--summary-export", exported)
	if err != nil {
		return k6Summary{}, err
	}
	defer log.Close()
	if err := cmd.Run(); err != nil {
		return k6Summary{}, fmt.Errorf("k6: %w; see %s", err, log.Name())
	}
	data, err := os.ReadFile(exported)
	if err != nil {
		return k6Summary{}, err
	}
	return parseSummary(data)
}

// asked is whom agents.js asks, and how often.
type asked struct {
	URL    string  `json:"url"`
	Stages []stage `json:"stages"`
}

// podsK6 is k6 with agents.js, and the file of what it says, which the caller closes.
func podsK6(ctx context.Context, o options, plan []asked, name string, port int, cpuSeconds float64, flags ...string) (*exec.Cmd, *os.File, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, nil, err
	}
	log, err := os.Create(filepath.Join(o.Out, name+".txt"))
	if err != nil {
		return nil, nil, err
	}
	args := append([]string{"run", "--quiet", "--no-usage-report", "--address", "127.0.0.1:" + strconv.Itoa(port)}, flags...)
	args = append(args, "-e", "PLAN="+string(text), "-e", "CPU_SECONDS="+strconv.FormatFloat(cpuSeconds, 'g', -1, 64), "-e", "TIMEOUT="+loss.String(),
		filepath.Join("experiments", "node", "agents.js"))
	cmd := exec.CommandContext(ctx, o.K6, args...)
	cmd.Stdout, cmd.Stderr = log, log
	return cmd, log, nil
}
