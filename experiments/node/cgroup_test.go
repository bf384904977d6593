package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A pod limited to 0.2 cores that has run for 3 s: the container, not the pod
// that it is in, was throttled.
func TestReadPod(t *testing.T) {
	root := t.TempDir()
	pod := "mash2-node/kubepods/burstable/poda-b"
	for path, content := range map[string]string{
		"cpu/" + pod + "/cpu.cfs_quota_us":  "20000\n",
		"cpu/" + pod + "/cpu.cfs_period_us": "100000\n",
		"cpu/" + pod + "/cpu.stat":          "nr_periods 40\nnr_throttled 0\nthrottled_time 0\n",
		"cpu/" + pod + "/c1/cpu.stat":       "nr_periods 38\nnr_throttled 7\nthrottled_time 100\n",
		"cpu/" + pod + "/pause/cpu.stat":    "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
		"cpuacct/" + pod + "/cpuacct.usage": "3000000000\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readPod(root, "a-b")
	if err != nil {
		t.Fatal(err)
	}
	want := podCgroup{Quota: 20 * time.Millisecond, Period: 100 * time.Millisecond, Used: 3 * time.Second, Throttled: 7, Periods: 40}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.cores() != 0.2 {
		t.Errorf("%g cores, want 0.2", got.cores())
	}
	for _, controller := range []string{"cpu", "cpuacct"} { // a guaranteed one
		if err := os.Rename(filepath.Join(root, controller, pod), filepath.Join(root, controller, "mash2-node/kubepods/poda-b")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = readPod(root, "a-b"); err != nil || got != want {
		t.Errorf("guaranteed: %+v, %v", got, err)
	}
	if _, err := readPod(root, "gone"); !os.IsNotExist(err) {
		t.Errorf("a pod that is gone: %v", err)
	}
}
