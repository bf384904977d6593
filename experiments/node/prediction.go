package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/strategic/model"
)

// prediction is what was seen of models that are asked on the node.
type prediction struct {
	// Pod is the chart's DaemonSet, whose model reads the node; Process is mash2 agents beside
	// it, whose model reads the application's pods as well.
	Pod     predicted `json:"daemonSet"`
	Process predicted `json:"process"`
	// Trained are the answers of a trained model, if there is one, before and at the end of the load.
	Trained []float64 `json:"trained,omitempty"`
	// StrategyOn is how long after the load the strategy's rule was on, in seconds, and
	// StrategyOff how long after its end it was off again.
	StrategyOn  float64 `json:"strategyOnSeconds"`
	StrategyOff float64 `json:"strategyOffSeconds"`
	// StrategyReason is what the strategy's status said under load.
	StrategyReason string `json:"strategyReason"`
	// LoadedPolicy is the operator's at the end of the load, which the rule sets.
	LoadedPolicy string `json:"loadedPolicy"`
	// Of the process, in the time of the load: answers that were asked, their bytes, and
	// the bytes of the readings that they are from, one line of JSON for each second.
	Seconds       float64 `json:"seconds"`
	Answers       int     `json:"answers"`
	AnswerBytes   int     `json:"answerBytes"`
	ReadingsBytes int     `json:"readingsBytes"`
	// Ratio is how many times as many bytes the readings are, if both are asked each second;
	// MinuteRatio, for one answer and the minute of readings that its means are of.
	Ratio       float64 `json:"ratio"`
	MinuteRatio float64 `json:"minuteRatio"`
}

// predicted is one agent.
type predicted struct {
	Model string `json:"model"`
	// First is how long after its start it had an answer, in seconds.
	First float64 `json:"firstAnswerSeconds"`
	// Quiet and Loaded are answers before the load and at its end.
	Quiet  float64 `json:"quiet"`
	Loaded float64 `json:"loaded"`
	// Cores and MiB that the agent used itself, while the load lasted.
	Cores float64 `json:"cores"`
	MiB   float64 `json:"mib"`
	// Of the process, as the kernel says: its user, capabilities and whether it can get more;
	// and connections that it has, other than those to its own port.
	UID          string `json:"uid"`
	Capabilities string `json:"capabilities"`
	NoNewPrivs   string `json:"noNewPrivs"`
	OwnCalls     int    `json:"connectionsOfItsOwn"`
}

const (
	agentImage = "mash2.io/agent:1"
	agentPort  = 8446
	nobody     = 65532
	appSpace   = "shop"
	// busyAbove is where the strategy's rule turns on, in seconds of predicted latency.
	busyAbove = 0.1
	// Names of the models that the agent with the application asks.
	appModel, trainedModel = "qos", "trained"
)

// nodeLine is a model of the node alone, and appLine one of the application as well. Their
// numbers are ours: what is shown is where they are computed, not that they are right.
var (
	nodeLine = &model.Linear{Names: []string{"node_cpu_usage_mean", "node_load1", "node_mem_usage_last"}, Coefficients: []float64{0.05, 0.01, 1e-13}, Intercept: 0.01}
	appLine  = &model.Linear{
		Names:        []string{"node_cpu_usage_mean", "node_mem_usage_mean", "pipelines_server_cpu_usage_mean", "pipelines_server_cpu_usage_last", "pipelines_server_mem_usage_last"},
		Coefficients: []float64{0.001, 1e-14, 0.1, 0.1, 1e-13}, Intercept: 0.05,
	}
)

// predictions runs both agents on the node, puts load on an application beside them, and
// sees what their models say and what a strategy makes of it.
func (n *realNode) predictions(ctx context.Context, o options, say func(string, ...any)) (p prediction, err error) {
	say("an application, the chart's DaemonSet, and mash2 agents beside it")
	pod, err := n.application(ctx)
	if err != nil {
		return p, err
	}
	began := time.Now()
	answers, pid, uid, err := n.startDaemonSet(ctx)
	if err != nil {
		return p, err
	}
	ownBegan := time.Now()
	process, own, err := n.startAgent(ctx, o)
	if err != nil {
		return p, err
	}
	p.Pod.Model, p.Process.Model = "line", appModel
	for _, one := range []struct {
		url   string
		of    *predicted
		began time.Time
	}{{answers, &p.Pod, began}, {own, &p.Process, ownBegan}} {
		if one.of.Quiet, _, err = n.firstAnswer(ctx, one.url); err != nil {
			return p, err
		}
		one.of.First = seconds(time.Since(one.began))
	}
	trained := func() error {
		if o.Model == "" {
			return nil
		}
		v, _, err := n.firstAnswer(ctx, strings.TrimSuffix(own, appModel)+trainedModel)
		p.Trained = append(p.Trained, v)
		return err
	}
	if err := trained(); err != nil {
		return p, err
	}
	say("the node predicts %.4f, with the application %.4f; the operator reads the second", p.Pod.Quiet, p.Process.Quiet)
	if err := n.startReader(ctx, o, own); err != nil {
		return p, err
	}
	if _, err := n.strategyIs(ctx, false, 0); err != nil {
		return p, err
	}
	if err := errors.Join(p.Pod.look(pid, agentPort), p.Process.look(process.cmd.Process.Pid, portOf(own))); err != nil {
		return p, err
	}
	used, err := readPod(cgroupRoot, uid)
	if err != nil {
		return p, err
	}
	ownUsed, err := cpuOf(process.cmd.Process.Pid)
	if err != nil {
		return p, err
	}

	say("load on the application")
	loaded, stop := context.WithCancel(ctx)
	defer stop()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for loaded.Err() == nil {
				_ = ask(loaded, "http://"+pod.Status.PodIP+":8080/", "0.2")
			}
		})
	}
	begin := time.Now()
	shipped := make(chan int, 1)
	go func() { shipped <- readingsBytes(loaded, string(pod.UID)) }()
	counted := make(chan [2]int, 1)
	go func() { counted <- answersBytes(loaded, own) }()
	on, err := n.strategyIs(ctx, true, 90*time.Second)
	if err != nil {
		return p, err
	}
	p.StrategyOn, p.StrategyReason = seconds(time.Since(begin)), on
	select { // a whole minute, so that means are of the load
	case <-ctx.Done():
		return p, ctx.Err()
	case <-time.After(agents.FeatureWindow + 5*time.Second - time.Since(begin)):
	}
	if p.Pod.Loaded, _, err = answerOf(ctx, answers); err != nil {
		return p, err
	}
	if p.Process.Loaded, _, err = answerOf(ctx, own); err != nil {
		return p, err
	}
	if p.LoadedPolicy, err = n.policy(); err != nil {
		return p, err
	}
	if err := trained(); err != nil {
		return p, err
	}
	lasted := time.Since(begin)
	is, err := readPod(cgroupRoot, uid)
	if err != nil {
		return p, err
	}
	p.Pod.Cores = float64(is.Used-used.Used) / float64(lasted)
	ownIs, err := cpuOf(process.cmd.Process.Pid)
	if err != nil {
		return p, err
	}
	p.Process.Cores = float64(ownIs-ownUsed) / float64(lasted)
	stop()
	wait.Wait()
	asked := <-counted
	p.Seconds, p.Answers, p.AnswerBytes, p.ReadingsBytes = seconds(lasted), asked[0], asked[1], <-shipped
	p.Ratio = round(float64(p.ReadingsBytes) / float64(max(1, p.AnswerBytes)))
	p.MinuteRatio = round(p.Ratio * float64(p.Answers) * agents.FeatureWindow.Seconds() / lasted.Seconds())
	say("the load is over")
	begin = time.Now()
	if _, err := n.strategyIs(ctx, false, 2*time.Minute); err != nil {
		return p, err
	}
	p.StrategyOff = seconds(time.Since(begin))
	if p.LoadedPolicy != api.Performance {
		return p, fmt.Errorf("the strategy's rule was on, and the policy %s", p.LoadedPolicy)
	}
	if p.Process.Loaded <= p.Process.Quiet || p.Pod.OwnCalls != 0 {
		err = errors.New("the load did not raise the prediction, or the DaemonSet's agent calls somebody")
	}
	return p, err
}

func seconds(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }

func round(x float64) float64 { return math.Round(100*x) / 100 }

// firstAnswer waits for one: means are there after three quarters of a minute.
func (n *realNode) firstAnswer(ctx context.Context, url string) (value float64, bytes int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		if value, bytes, err = answerOf(ctx, url); err == nil {
			return value, bytes, nil
		}
		if gone := ended(n.daemons); gone != nil {
			return 0, 0, gone
		}
		select {
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("waiting for an answer: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// answerOf asks once, and says how many bytes the answer has.
func answerOf(ctx context.Context, url string) (float64, int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return 0, 0, err
	}
	var a agents.Answer
	if err := json.Unmarshal(body, &a); err != nil || a.Value == nil {
		return 0, 0, fmt.Errorf("%s: %s: %w", resp.Status, strings.TrimSpace(string(body)), errors.Join(err, errors.New("there is no value")))
	}
	return *a.Value, len(body), nil
}

// answersBytes asks every second until the context ends, and returns how often it was answered
// and the bytes of all answers.
func answersBytes(ctx context.Context, url string) (sum [2]int) {
	for {
		if _, n, err := answerOf(ctx, url); err == nil {
			sum[0]++
			sum[1] += n
		}
		select {
		case <-ctx.Done():
			return sum
		case <-time.After(time.Second):
		}
	}
}

// readingsBytes is what a node would send that ships its readings each second, in JSON and as
// short: the four metrics that the model's features are made of.
func readingsBytes(ctx context.Context, uid string) int {
	proc := &agents.Proc{FS: os.DirFS("/proc")}
	app := &agents.Application{
		Name: "pipelines_server", Pods: func(context.Context) ([]string, error) { return []string{uid}, nil },
		Cgroups: &agents.Cgroups{FS: os.DirFS(cgroupRoot), Root: cgroupName, Now: time.Now},
	}
	bytes := 0
	for {
		now := time.Now()
		of, _ := proc.Read(now)
		more, _ := app.Read(ctx, now)
		row := map[string]any{"node": nodeName, "at": now.UTC().Truncate(time.Millisecond)}
		for _, name := range []string{agents.NodeCPU, agents.NodeMem, "pipelines_server_cpu_usage", "pipelines_server_mem_usage"} {
			if v, ok := of[name]; ok {
				row[name] = v
			} else if v, ok := more[name]; ok {
				row[name] = v
			}
		}
		if line, err := json.Marshal(row); err == nil {
			bytes += len(line) + 1
		}
		select {
		case <-ctx.Done():
			return bytes
		case <-time.After(time.Second - time.Since(now)):
		}
	}
}
