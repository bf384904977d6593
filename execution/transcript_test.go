package execution_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
)

var update = flag.Bool("update", false, "re-record the transcripts in testdata")

// TestTranscripts: every file in testdata holds scenes, those in edges of what decides between
// one answer and another; the others are shown in the documentation. A scene begins with a
// sentence ("# …"), goes on with what the snapshot shows and the plan wants, and
// after "----" has what Preflight and Sequence answer: a refusal, actions in
// their order, then findings.
// Run with -update to record the answers again, and read the difference.
//
//	policy pools=cheap,fast [only-replicas] [closed=…]   the pools that policies name
//	pool NAME zones=a,b sizes=1,1 [max=N] [min=N] [hold=…] [error=Kind] [autoscaled] [deleting=NODE,…] [price=0.1] [resized-ago=20m] [resize-only] [tainted]
//	node NAME pool=P [zone=a] [not-ready] [cordoned=migration|shrink|foreign] [ago=40m] [gave-up=POOL] [gave-up-ago=10m] [lifted] [no-id] [keep=…]
//	unproven why=…   the snapshot may be out of date
//	without GUARD    as in the exploration: without one of the guards
//	budget NAME [max-unavailable=0] [min-available=2|50%] [allowed=N] [healthy=N] [desired=N]
//	workload NAME replicas=N [kind=StatefulSet] [max=N] [per-zone=N] [skew=N] [mode=…] [hold=…] [duplicate] [actuator=KEDA] [rolling-out] [quota=N]
//	pods NAME N [workload=W] [kind=ReplicaSet] [node=N] [not-ready [unready-for=40m]] [pending] [stuck] [cost=N] [user-cost=N] [terminating [still-ready]] [keep=…] [daemon] [budgets=a,b] [zones=a] [ago=40m]
//	plan pool=P [refused=POOL gave-up=yes reason=…] | plan NAME size=N [surplus=…] [why=…] | plan NAME replicas=N [floor=N] [held] [shadow] [untried]
//
// A node holds four pods of a workload.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	edges, err2 := filepath.Glob("testdata/edges/*.txt")
	if err = errors.Join(err, err2); err != nil || len(files) == 0 || len(edges) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range slices.Concat(files, edges) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			for i, text := range strings.Split(strings.TrimSpace(string(raw)), "\n\n") {
				scene, _, _ := strings.Cut(text+"\n", "----\n")
				if i > 0 {
					out.WriteString("\n")
				}
				fmt.Fprintf(&out, "%s----\n%s", scene, play(t, scene))
			}
			if *update {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(raw), out.String()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheTranscriptsAreShown: docs/explanation/moving.md has the sentence and the answer of
// every scene, between a comment that names the file and the next one. Run with
// -update to write them.
func TestTheTranscriptsAreShown(t *testing.T) {
	const page = "../docs/explanation/moving.md"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := string(raw)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		begin, end := fmt.Sprintf("<!-- %s -->\n", filepath.Base(file)), "<!-- end -->"
		before, rest, ok := strings.Cut(shown, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Errorf("%s doesn't show %s", page, file)
			continue
		}
		scenes, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for scene := range strings.SplitSeq(strings.TrimSpace(string(scenes)), "\n\n") {
			sentence, _, _ := strings.Cut(strings.TrimPrefix(scene, "# "), "\n")
			_, answer, _ := strings.Cut(scene, "----\n")
			fmt.Fprintf(&out, "%s:\n\n```\n%s\n```\n\n", strings.ToUpper(sentence[:1])+sentence[1:], strings.TrimSpace(answer))
		}
		shown = before + begin + "\n" + out.String() + end + after
	}
	if *update {
		if err := os.WriteFile(page, []byte(shown), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(raw), shown); diff != "" {
		t.Errorf("%s is not what the transcripts say (-page +transcripts):\n%s", page, diff)
	}
}

// play returns what Sequence answers to a scene.
func play(t *testing.T, scene string) string {
	t.Helper()
	s, plan, policy := stage(t, scene)
	untouchedS, untouchedP, _ := stage(t, scene)
	refusal := execution.Preflight(s, plan, policy)
	answer := func() ([]api.Action, []api.Finding) { return execution.Sequence(s, plan, policy) }
	for text := range strings.Lines(scene) {
		if guard, ok := strings.CutPrefix(strings.TrimSpace(text), "without "); ok {
			answer = func() ([]api.Action, []api.Finding) { return execution.Without(t, guard, s, plan, policy) }
		}
	}
	actions, findings := answer()
	if !reflect.DeepEqual(s, untouchedS) || !reflect.DeepEqual(plan, untouchedP) {
		t.Errorf("the input was changed by:\n%s", scene)
	}
	again, _ := answer()
	if diff := cmp.Diff(actions, again); diff != "" {
		t.Errorf("not deterministic:\n%s", diff)
	}
	var out strings.Builder
	if refusal != nil && refusal.Stay != refusal.Pool {
		fmt.Fprintf(&out, "(%s: plan for pool %s)\n", refusal.Reason, refusal.Stay)
	}
	for _, a := range actions {
		fmt.Fprintf(&out, "%s\n", a)
	}
	for _, f := range findings {
		fmt.Fprintf(&out, "(%s) %s\n", f.Severity, f)
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

// line is a line of a scene: words, then key=value and flags.
type line struct {
	t     *testing.T
	words []string
	args  map[string]string
}

func (l line) list(key string) []string {
	if l.args[key] == "" {
		return nil
	}
	return strings.Split(l.args[key], ",")
}

func (l line) num(key string, otherwise int32) int32 {
	v, ok := l.args[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		l.t.Fatalf("%v: %v", l.words, err)
	}
	return int32(n)
}

func (l line) has(flag string) bool { _, ok := l.args[flag]; return ok }

// stage sets a scene up.
func stage(t *testing.T, scene string) (api.Snapshot, api.Plan, api.Policy) {
	t.Helper()
	s := api.Snapshot{Time: noon}
	var plan api.Plan
	var policy api.Policy
	serial := 0
	for text := range strings.Lines(scene) {
		if strings.HasPrefix(text, "#") || strings.TrimSpace(text) == "" {
			continue
		}
		l := line{t: t, args: map[string]string{}}
		for _, word := range strings.Fields(text) {
			key, value, isArg := strings.Cut(word, "=")
			if isArg || len(l.words) > 0 && l.words[0] == "policy" || len(l.words) >= 2 && !isNumber(word) {
				l.args[key] = strings.ReplaceAll(value, "_", " ")
			} else {
				l.words = append(l.words, word)
			}
		}
		switch l.words[0] {
		case "policy":
			policy.ManagedPools = l.list("pools")
			policy.NodePools = l.list("pools")
			policy.Disruption.Closed = l.args["closed"]
			if l.has("only-replicas") {
				policy.NodePools = nil
			}
		case "without": // see play
		case "unproven":
			s.Unproven = l.args["why"]
		case "pool":
			s.Pools = append(s.Pools, poolOf(l))
		case "node":
			s.Nodes = append(s.Nodes, nodeOf(l))
		case "budget":
			s.Budgets = append(s.Budgets, budgetOf(l))
		case "workload":
			shape := shape
			if l.has("per-zone") || l.has("skew") {
				limited := *shape
				limited.MaxPerZone, limited.ZoneSkew = l.num("per-zone", 0), l.num("skew", 0)
				shape = &limited
			}
			s.Workloads = append(s.Workloads, api.Workload{
				Key: key(l.words[1]), Target: api.TargetRef{APIVersion: "apps/v1", Kind: orElse(l.args["kind"], "Deployment"), Name: l.words[1]},
				Mode: api.Mode(orElse(l.args["mode"], "Full")), Hold: l.args["hold"], HoldReason: map[bool]string{true: api.ReasonDuplicateTarget}[l.has("duplicate")], RollingOut: l.has("rolling-out"),
				Actuator: api.Actuator(l.args["actuator"]),
				Replicas: l.num("replicas", 0), MinReplicas: 1, MaxReplicas: l.num("max", 10), QuotaReplicas: l.num("quota", 0), Shape: shape,
			})
		case "pods":
			n, err := strconv.Atoi(l.words[2])
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for range n {
				serial++
				s.Pods = append(s.Pods, podOf(l, serial))
			}
		case "plan":
			planOf(l, &plan)
		default:
			t.Fatalf("what is %q?", text)
		}
	}
	return s, plan, policy
}

func budgetOf(l line) api.DisruptionBudget {
	amount := func(name string) *api.Amount {
		if !l.has(name) {
			return nil
		}
		text, percent := strings.CutSuffix(l.args[name], "%")
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			l.t.Fatal(err)
		}
		return &api.Amount{Value: int32(n), Percent: percent}
	}
	return api.DisruptionBudget{
		Key: key(l.words[1]), MinAvailable: amount("min-available"), MaxUnavailable: amount("max-unavailable"),
		Healthy: l.num("healthy", 0), Desired: l.num("desired", 0), Allowed: l.num("allowed", 0),
		UnhealthyAlways: l.has("unhealthy-always"),
	}
}

// ago is the time that a scene gives as an age; zero if it gives none.
func (l line) ago(name string) time.Time {
	if !l.has(name) {
		return time.Time{}
	}
	d, err := time.ParseDuration(l.args[name])
	if err != nil {
		l.t.Fatal(err)
	}
	return noon.Add(-d)
}

// noon is when every scene plays.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func isNumber(s string) bool { _, err := strconv.Atoi(s); return err == nil }

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func key(name string) api.Key { return api.Key{Namespace: "shop", Name: name} }

func poolOf(l line) api.Pool {
	p := api.Pool{
		Name: l.words[1], Zones: l.list("zones"), Hold: l.args["hold"], Autoscaled: l.has("autoscaled"),
		MaxPerZone: l.num("max", 0), MinPerZone: l.num("min", 0), Deleting: l.list("deleting"),
		Allocatable: api.Resources{MilliCPU: nodePods*podCPU + 100, Pods: 10},
		Labels:      map[string]string{api.LabelNodePool: l.words[1]},
	}
	for _, size := range l.list("sizes") {
		n, err := strconv.ParseInt(size, 10, 32)
		if err != nil {
			l.t.Fatal(err)
		}
		p.Sizes = append(p.Sizes, int32(n))
	}
	if kind := l.args["error"]; kind != "" {
		p.Error = &api.PoolError{Kind: api.PoolErrorKind(kind), Message: "the provider says why", At: l.ago("error-ago")}
	}
	if l.has("tainted") {
		p.Taints = []api.Taint{{Key: "dedicated", Value: "others", Effect: "NoSchedule"}}
	}
	p.ResizedAt, p.ResizeOnly = l.ago("resized-ago"), l.has("resize-only")
	if price, ok := l.args["price"]; ok {
		var err error
		if p.Price, err = strconv.ParseFloat(price, 64); err != nil {
			l.t.Fatal(err)
		}
	}
	return p
}

func nodeOf(l line) api.Node {
	n := api.Node{
		Name: l.words[1], Pool: l.args["pool"], Zone: orElse(l.args["zone"], "a"), Ready: !l.has("not-ready"),
		Labels: map[string]string{api.LabelNodePool: l.args["pool"]}, Allocatable: api.Resources{MilliCPU: nodePods*podCPU + 100, Pods: 10},
	}
	n.ProviderID = "gce://p/" + n.Zone + "/" + n.Name
	n.CordonedFor, n.CordonedAt = l.args["cordoned"], l.ago("ago")
	n.DoNotDisrupt = l.args["keep"]
	n.GaveUp, n.GaveUpAt = l.args["gave-up"], l.ago("gave-up-ago")
	if n.Cordoned = n.CordonedFor != ""; l.has("lifted") {
		n.Cordoned, n.Lifted, n.CordonedFor, n.CordonedAt = false, true, "", time.Time{}
	}
	if l.has("no-id") {
		n.ProviderID = ""
	}
	if n.CordonedFor == "foreign" {
		n.CordonedFor = ""
	}
	return n
}

func podOf(l line, serial int) api.Pod {
	p := api.Pod{
		Key: key(fmt.Sprintf("%s-%d", l.words[1], serial)), UID: strconv.Itoa(serial), Shape: shape,
		Node: l.args["node"], ControllerKind: orElse(l.args["kind"], "ReplicaSet"), ControllerName: l.words[1],
		Ready: l.has("node") && !l.has("not-ready") && (!l.has("terminating") || l.has("still-ready")), Phase: "Running",
		Terminating: l.has("terminating"), Unschedulable: l.has("stuck"), Gated: l.has("gated"), DaemonSet: l.has("daemon"),
		Created: l.ago("ago"), UnreadySince: l.ago("unready-for"), DoNotDisrupt: l.args["keep"], Budgets: l.list("budgets"), Zones: l.list("zones"),
	}
	if rule := strings.ReplaceAll(l.args["rule"], "_", " "); rule != "" {
		p.Shape = &api.PodShape{ID: rule, Requests: shape.Requests, Unheeded: rule}
	}
	if w := l.args["workload"]; w != "" {
		p.Workload = key(w)
	}
	if p.ControllerKind == "none" {
		p.ControllerKind, p.ControllerName = "", ""
	}
	if p.DaemonSet {
		p.ControllerKind, p.Shape = "DaemonSet", &api.PodShape{ID: "d", Requests: api.Resources{MilliCPU: 50, Pods: 1}}
	}
	switch {
	case l.has("cost"):
		p.DeletionCost, p.DeletionCostOurs = l.num("cost", 0), true
	case l.has("user-cost"):
		p.DeletionCost = l.num("user-cost", 0)
	}
	return p
}

func planOf(l line, plan *api.Plan) {
	switch {
	case l.has("pool"):
		plan.Nodes.Pool = l.args["pool"]
		if refused := l.args["refused"]; refused != "" {
			plan.Nodes.Refusal = &api.Refusal{Pool: refused, Stay: plan.Nodes.Pool, GaveUp: l.has("gave-up"), Message: l.args["reason"]}
		}
	case l.has("size"):
		pp := api.PoolPlan{
			Pool: l.words[1], SizePerZone: l.num("size", 0), Nodes: l.num("size", 0), Surplus: slices.Clone(l.list("surplus")), Reason: l.args["why"],
		}
		if l.has("surplus-for") {
			pp.SurplusSince = slices.Repeat([]time.Time{l.ago("surplus-for")}, len(pp.Surplus))
		}
		plan.Nodes.Pools = append(plan.Nodes.Pools, pp)
	default:
		pool := plan.Nodes.Pool
		if l.has("on") {
			pool = l.args["on"]
		}
		var trial *api.CanaryPlan
		if l.has("untried") {
			trial = &api.CanaryPlan{Phase: api.CanaryStopped}
		}
		plan.Workloads = append(plan.Workloads, api.WorkloadPlan{
			Key: key(l.words[1]), Canary: trial, Scale: api.Scale{Replicas: l.num("replicas", 0)}, Pools: on(pool, l.num("replicas", 0)), Floor: l.num("floor", 0),
			Held: l.has("held"), Shadow: l.has("shadow"), Reason: "demand",
		})
	}
}
