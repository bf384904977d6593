package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/testbed"
)

const (
	// tutorialPasses of the scenario are the load's whole life: hours, where a reader
	// needs half of one.
	tutorialPasses = 200
	// tutorialNodes are there at the start: in Shadow nobody buys any, and the HPA's
	// replicas need a place.
	tutorialNodes = 6
)

// Tutorial starts a cluster under load, in which a stock HPA scales a Deployment and
// mash2's operator runs with nothing to do yet, and leaves all further steps to the
// reader. It ends when the context does. Folder Report gets what a shell needs.
func (o Options) Tutorial(ctx context.Context) (err error) {
	o.Scenario.Pools = slices.Clone(o.Scenario.Pools)
	if len(o.Scenario.Pools) == 0 {
		return errors.New("the scenario has no pools")
	}
	o.Scenario.Pools[0].Nodes = max(o.Scenario.Pools[0].Nodes, tutorialNodes)
	bed, err := testbed.Start(ctx, testbed.Options{
		Scenario: o.Scenario, Speed: o.Speed, Seed: o.Seed, Passes: tutorialPasses, Progress: o.Progress,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Stop()) }()
	none := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: testbed.WorkloadName}}
	if err := bed.Client.Delete(ctx, none); err != nil {
		return fmt.Errorf("deleting the testbed's ManagedWorkload: %w", err)
	}
	if err := bed.Client.Create(ctx, o.stockHPA()); err != nil {
		return fmt.Errorf("creating the HPA: %w", err)
	}
	page, err := freeAddress()
	if err != nil {
		return err
	}
	records, err := filepath.Abs(filepath.Join(o.Report, "records"))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(records); err != nil {
		return err
	}
	operator, err := bed.StartOperator(o.Program, nil, "--verbose", "--page-bind-address="+page, "--page-insecure", "--records="+records)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.Stop()) }()
	shell, err := o.shell(bed)
	if err != nil {
		return err
	}
	bed.Load.Begin()
	fmt.Fprintf(o.Progress, "\nThe cluster is ready, at %g× real time. In another terminal:\n\n  source %s\n\nThe page: http://%s/\nCtrl-C ends everything.\n", o.Speed, shell, page)
	done := make(chan error, 1)
	go func() { done <- bed.Load.Wait() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-done:
		fmt.Fprintf(o.Progress, "the load has ended after %v\n", time.Duration(tutorialPasses)*o.Scenario.PassDuration())
		return err
	case <-operator.Done():
		return fmt.Errorf("the operator ended: %w; its log ends with:\n%s", operator.Err(), testbed.Tail(bed.OperatorLog(), 20))
	}
}

// stockHPA scales the workload before mash2 does.
func (o Options) stockHPA() *autoscalingv2.HorizontalPodAutoscaler {
	w := o.Scenario.Workload
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: testbed.WorkloadName},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: testbed.WorkloadName},
			MinReplicas:    ptr.To(w.Replicas.Min), MaxReplicas: w.Replicas.Max,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: autoscalingv2.MetricTarget{
					Type:               autoscalingv2.UtilizationMetricType,
					AverageUtilization: ptr.To(int32(w.TargetUtilization*100 + 0.5)),
				}},
			}},
		},
	}
}

// shell writes the file that a shell sources: kubectl and mash2 on the PATH, and the
// cluster's kubeconfig.
func (o Options) shell(bed *testbed.Testbed) (string, error) {
	dir, err := filepath.Abs(o.Report)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	for name, text := range map[string]string{
		"kubectl": fmt.Sprintf("#!/bin/sh\nexec %q kubectl \"$@\"\n", bed.Cluster.Program()),
		"mash2":   fmt.Sprintf("#!/bin/sh\nexec %q \"$@\"\n", o.Program),
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			return "", err
		}
	}
	env := filepath.Join(dir, "env")
	text := fmt.Sprintf("export KUBECONFIG=%q\nexport PATH=%q:\"$PATH\"\n", bed.Cluster.Kubeconfig, bin)
	return env, os.WriteFile(env, []byte(text), 0o644)
}
