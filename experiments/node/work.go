package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// work is what happens on the node, in namespaces of its own. Nothing of it is
// stopped: everything ends with the first process there.
func work(ctx context.Context, o options) error {
	begin := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	n, err := startNode(ctx, o, say)
	if err != nil {
		return err
	}
	r := result{Options: o, Made: begin.UTC()}
	say("the node is Ready")
	if o.Predict {
		p, err := n.predictions(ctx, o, say)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(p)
	}
	if o.Memory {
		m, err := n.memory(ctx, o, say)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(m)
	}
	if o.Sizes {
		seen, err := n.sizing(ctx, o, say)
		return errors.Join(err, keepSizes(o, seen))
	}
	if o.Move {
		c, err := n.agents(ctx, o, say)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(c)
	}
	if r.Versions, err = n.versions(ctx); err != nil {
		return err
	}
	if r.Pod, err = n.onePod(ctx); err != nil {
		return fmt.Errorf("running a pod: %w", err)
	}
	say("a pod was Ready after %v; the quota followed its resize after %v, its status after %v, with %d restarts",
		r.Pod.Ready, r.Pod.QuotaAfter, r.Pod.StatusAfter, r.Pod.Restarts)
	if o.OnlyNode {
		return nil
	}
	if err := n.experiment(ctx, o, &r, say); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	return errors.Join(err, os.WriteFile(filepath.Join(o.Out, resultFile), data, 0o644))
}

// resultFile is what work leaves in the folder for results.
const resultFile = "result.json"

// onePod is what was seen of one pod. Times are from the request to the API.
type onePod struct {
	Ready       time.Duration `json:"readyNanos"`
	QuotaBefore float64       `json:"quotaBeforeCores"`
	QuotaAsked  float64       `json:"quotaAskedCores"`
	QuotaAfter  time.Duration `json:"quotaAfterNanos"`
	StatusAfter time.Duration `json:"statusAfterNanos"`
	Restarts    int32         `json:"restarts"`
}

// onePod runs a pod of the target's image, asks it over the bridge, and resizes
// it in place by the pods/resize subresource.
func (n *realNode) onePod(ctx context.Context) (onePod, error) {
	var seen onePod
	pods := n.client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "resized"},
		Spec:       podSpec(quantities("50m", "32Mi"), quantities("100m", "64Mi")),
	}
	begin := time.Now()
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return seen, err
	}
	err = wait(ctx, "the pod", n.daemons, func(ctx context.Context) error {
		if pod, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		return podReady(pod)
	})
	if err != nil {
		return seen, err
	}
	seen.Ready = time.Since(begin).Round(time.Millisecond)
	if err := ask(ctx, "http://"+pod.Status.PodIP+":8080/", "0.02"); err != nil {
		return seen, err
	}
	was, err := readPod(cgroupRoot, pod.UID)
	if err != nil {
		return seen, err
	}
	if was.Used < 20*time.Millisecond {
		return seen, fmt.Errorf("a request of 20 ms of CPU was answered, and the cgroup used %v", was.Used)
	}
	seen.QuotaBefore, seen.QuotaAsked = was.cores(), 0.2
	patch := []byte(`{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"200m"}}}]}}`)
	begin = time.Now()
	if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize"); err != nil {
		return seen, err
	}
	err = wait(ctx, "the quota to follow the resize", n.daemons, func(context.Context) error {
		is, err := readPod(cgroupRoot, pod.UID)
		if err == nil && is.cores() != seen.QuotaAsked {
			err = fmt.Errorf("it is %g cores", is.cores())
		}
		return err
	})
	if err != nil {
		return seen, err
	}
	seen.QuotaAfter = time.Since(begin).Round(time.Millisecond)
	err = wait(ctx, "the status to follow the resize", n.daemons, func(ctx context.Context) error {
		is, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := is.Status.ContainerStatuses[0]
		seen.Restarts = s.RestartCount
		if s.Resources == nil || s.Resources.Limits.Cpu().MilliValue() != int64(1000*seen.QuotaAsked) {
			return errors.New("it has the earlier limit")
		}
		return nil
	})
	if err != nil {
		return seen, err
	}
	seen.StatusAfter = time.Since(begin).Round(time.Millisecond)
	return seen, pods.Delete(ctx, pod.Name, metav1.DeleteOptions{})
}

// podSpec is a pod of the target's image.
func podSpec(requests, limits corev1.ResourceList) corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken:  ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To(int64(5)),
		Containers: []corev1.Container{{
			Name: "web", Image: targetImage, ImagePullPolicy: corev1.PullNever, Args: []string{"--listen", ":8080"},
			Ports:     []corev1.ContainerPort{{ContainerPort: 8080}},
			Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
				PeriodSeconds: 1, TimeoutSeconds: 1,
			},
		}},
	}
}

func quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func podReady(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("pod %s is not Ready", pod.Name)
}

// ask makes one request that costs seconds of CPU.
func ask(ctx context.Context, url, seconds string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Cpu-Seconds", seconds)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, text)
	}
	return nil
}
