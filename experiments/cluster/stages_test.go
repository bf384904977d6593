package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestStagesDivideDelaysBySpeed(t *testing.T) {
	type delay struct {
		Min int64 `json:"durationMilliseconds"`
		Max int64 `json:"jitterDurationMilliseconds"`
	}
	delays := Delays{
		Startup:     Range{1 * time.Second, 3 * time.Second},
		Readiness:   Range{2 * time.Second, 5 * time.Second},
		Termination: Range{4 * time.Second, 4 * time.Second},
		Resize:      Range{500 * time.Millisecond, 600 * time.Millisecond},
	}
	got := map[string]delay{}
	for document := range strings.SplitSeq(delays.Stages(10), "\n---\n") {
		var stage struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				Delay *delay `json:"delay"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(document), &stage); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if stage.Spec.Delay != nil && strings.HasPrefix(stage.Metadata.Name, "pod-") {
			got[stage.Metadata.Name] = *stage.Spec.Delay
		}
	}
	want := map[string]delay{
		"pod-start":    {100, 300},
		"pod-ready":    {200, 500},
		"pod-delete":   {400, 400},
		"pod-resize":   {50, 60},
		"pod-complete": {0, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delays at speed 10 (-want +got):\n%s", diff)
	}
}

func TestStockHPAWindowsAtTenTimesTheSpeed(t *testing.T) {
	want := HPAWindows{
		SyncPeriod:              1500 * time.Millisecond,
		DownscaleStabilization:  30 * time.Second,
		CPUInitializationPeriod: 30 * time.Second,
		InitialReadinessDelay:   3 * time.Second,
	}
	if diff := cmp.Diff(want, StockHPAWindows(10)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
