package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The world of memory: pods of 64 MiB, of which one after the other needs 150, while the first
// one reads a file that is larger than its limit.
const (
	memoryLimit  = 64 << 20
	memoryBudget = 300 << 20
	memoryPeak   = 150 << 20
	memoryStep   = 3 << 20 // a second
	memoryWindow = 20 * time.Second
)

// memorySeen is what -memory prints.
type memorySeen struct {
	// KilledAt is what a pod held when it was killed, without anybody who moves memory, bytes.
	KilledAt int64 `json:"killedAtBytes"`
	// Restarts of all pods with mash2, while one after the other held Peak.
	Restarts int32 `json:"restarts"`
	Peak     int64 `json:"peakBytes"`
	// Reader is the largest limit of the pod that read a file again and again, bytes.
	Reader int64 `json:"readerBytes"`
	// MostLimits is the largest sum of all limits that the kernel had, bytes.
	MostLimits int64 `json:"mostLimitsBytes"`
	Resizes    int   `json:"resizes"`
	// Seconds is what was seen each second: by pod the limit of the kernel and what it holds,
	// MiB.
	Seconds []string `json:"seconds"`
}

// memory lets a pod need more memory than its limit: without anybody who moves memory it is
// killed; with mash2 agents its limit rises before, by what other pods give. Files that the kernel
// keeps for another one take none of it.
func (n *realNode) memory(ctx context.Context, o options, say func(string, ...any)) (memorySeen, error) {
	out := memorySeen{Peak: memoryPeak}
	set, err := n.startService(ctx, agentBudget/agentPods, "--file-bytes", strconv.Itoa(written))
	if err != nil {
		return out, err
	}
	pods, restarts, err := n.podsOf(ctx, metav1.FormatLabelSelector(set.Spec.Selector))
	if err != nil {
		return out, err
	}
	for out.KilledAt = memoryStep; out.KilledAt <= memoryPeak; out.KilledAt += memoryStep {
		if hold(ctx, pods[0], out.KilledAt) != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	err = wait(ctx, "the pod that needs more than its limit to be killed and Ready again", n.daemons, func(ctx context.Context) error {
		if pods, restarts, err = n.podsOf(ctx, metav1.FormatLabelSelector(set.Spec.Selector)); err != nil {
			return err
		}
		last := pods[0].Status.ContainerStatuses[0].LastTerminationState.Terminated
		if last == nil || last.Reason != "OOMKilled" {
			return fmt.Errorf("restarts %d, last end %+v", restarts, last)
		}
		return podReady(&pods[0])
	})
	if err != nil {
		return out, err
	}
	before := restarts
	say("without mash2 a pod is killed when it holds %d MiB of a limit of 64", out.KilledAt>>20)
	stop, err := n.moveMemory(ctx, o)
	if err != nil {
		return out, err
	}
	begin := time.Now()
	holds := make([]int64, len(pods))
	look := func() error {
		if err := tell(ctx, pods[0], "X-Read-File", "1"); err != nil {
			return fmt.Errorf("reading a file in pod %s: %w", pods[0].Name, err)
		}
		line, sum := fmt.Sprintf("%3.0f s", time.Since(begin).Seconds()), int64(0)
		for i := range pods {
			limit, err := readMemoryLimit(pods[i].UID)
			if err != nil {
				return err
			}
			if i == 0 {
				out.Reader = max(out.Reader, limit)
			}
			line, sum = line+fmt.Sprintf("  %3d of %3d", holds[i]>>20, limit>>20), sum+limit
		}
		out.Seconds, out.MostLimits = append(out.Seconds, line), max(out.MostLimits, sum)
		time.Sleep(time.Second)
		return nil
	}
	for _, i := range []int{1, 2} { // the first one was killed: it keeps more for a day
		for holds[i] < memoryPeak {
			holds[i] = min(memoryPeak, holds[i]+memoryStep)
			if err := errors.Join(hold(ctx, pods[i], holds[i]), look()); err != nil {
				return out, errors.Join(fmt.Errorf("pod %d with %d MiB: %w; seen: %s", i, holds[i]>>20, err, strings.Join(out.Seconds, "\n")), stop(&out))
			}
		}
		holds[i] = 0
		if err := hold(ctx, pods[i], 0); err != nil {
			return out, err
		}
		for range int(memoryWindow/time.Second) + 70 { // a fall comes a minute after a write at the earliest
			if err := look(); err != nil {
				return out, err
			}
		}
		say("pod %d held %d MiB and let go", i, int64(memoryPeak)>>20)
	}
	if err := stop(&out); err != nil {
		return out, err
	}
	if _, restarts, err = n.podsOf(ctx, metav1.FormatLabelSelector(set.Spec.Selector)); err != nil {
		return out, err
	}
	out.Restarts = restarts - before
	say("with mash2: %d restarts, %d resizes, all limits together at most %d MiB of %d, that of the pod which reads files %d",
		out.Restarts, out.Resizes, out.MostLimits>>20, int64(memoryBudget)>>20, out.Reader>>20)
	if out.Restarts != 0 || out.MostLimits > memoryBudget || out.Reader > memoryLimit {
		return out, fmt.Errorf("%d restarts, limits of %d MiB, of %d for files: %s", out.Restarts, out.MostLimits>>20, out.Reader>>20, strings.Join(out.Seconds, "\n"))
	}
	return out, nil
}

// moveMemory starts mash2 agents for memory. What it returns ends it.
func (n *realNode) moveMemory(ctx context.Context, o options) (func(*memorySeen) error, error) {
	log, err := os.Create(filepath.Join(o.Logs, "agents-memory.log"))
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, o.Mash2, "agents", "--kubeconfig", n.cluster.Kubeconfig, "--namespace", appSpace, "--selector", "app="+workload, "--node", nodeName,
		"--usage", "cgroup", "--cgroup-root", cgroupRoot, "--kubelet-cgroup", cgroupName, "--resources", strconv.Itoa(agentBudget),
		"--memory", strconv.Itoa(memoryBudget), "--memory-floor", "32Mi", "--memory-window", memoryWindow.String(), "--debug", "-o", "json")
	var stdout strings.Builder
	c.Stdout, c.Stderr = &stdout, log
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return func(seen *memorySeen) error {
		var sum struct{ MemoryResizes int }
		err := errors.Join(c.Process.Signal(os.Interrupt), c.Wait(), log.Close())
		if err == nil {
			err = json.Unmarshal([]byte(stdout.String()), &sum)
		}
		seen.Resizes = sum.MemoryResizes
		return err
	}, nil
}

// podsOf a selector in the order of their names, and how often they were restarted in all.
func (n *realNode) podsOf(ctx context.Context, selector string) ([]corev1.Pod, int32, error) {
	list, err := n.client.CoreV1().Pods(appSpace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, 0, err
	}
	restarts := int32(0)
	for i := range list.Items {
		for _, s := range list.Items[i].Status.ContainerStatuses {
			restarts += s.RestartCount
		}
	}
	return list.Items, restarts, nil
}

// hold lets a pod hold so many bytes.
func hold(ctx context.Context, pod corev1.Pod, bytes int64) error {
	return tell(ctx, pod, "X-Memory-Bytes", strconv.FormatInt(bytes, 10))
}

// tell a pod something by a request's header.
func tell(ctx context.Context, pod corev1.Pod, header, value string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+pod.Status.PodIP+":8080/", nil)
	if err != nil {
		return err
	}
	req.Header.Set(header, value)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	return nil
}

// readMemoryLimit is what the kernel gives a burstable pod, bytes (cgroup v1).
func readMemoryLimit(uid types.UID) (int64, error) {
	path := filepath.Join(cgroupRoot, "memory", cgroupName, "kubepods", "burstable", "pod"+string(uid), "memory.limit_in_bytes")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return limit, nil
}
