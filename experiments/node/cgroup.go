package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// podCgroup is what the kernel says of one pod (cgroup v1).
type podCgroup struct {
	Quota     time.Duration // CPU time per Period; negative: no limit
	Period    time.Duration
	Used      time.Duration // CPU time since it began
	Throttled int64         // periods in which it used up its quota
	Periods   int64
}

// cores that the quota allows.
func (c podCgroup) cores() float64 { return float64(c.Quota) / float64(c.Period) }

// readPod reads the cgroup of a burstable or guaranteed pod below root; CPU time and periods
// are of all its containers.
func readPod(root string, uid types.UID) (podCgroup, error) {
	var c podCgroup
	folder := func(controller string) string {
		guaranteed := filepath.Join(root, controller, cgroupName, "kubepods", "pod"+string(uid))
		if _, err := os.Stat(guaranteed); err == nil {
			return guaranteed
		}
		return filepath.Join(root, controller, cgroupName, "kubepods", "burstable", "pod"+string(uid))
	}
	for _, f := range []struct {
		path string
		unit time.Duration
		into *time.Duration
	}{
		{filepath.Join(folder("cpu"), "cpu.cfs_quota_us"), time.Microsecond, &c.Quota},
		{filepath.Join(folder("cpu"), "cpu.cfs_period_us"), time.Microsecond, &c.Period},
		{filepath.Join(folder("cpuacct"), "cpuacct.usage"), time.Nanosecond, &c.Used},
	} {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return c, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil {
			return c, fmt.Errorf("%s: %w", f.path, err)
		}
		*f.into = time.Duration(n) * f.unit
	}
	// The limit is enforced on the pod and on its container; either counts.
	stats, err := filepath.Glob(filepath.Join(folder("cpu"), "*", "cpu.stat"))
	if err != nil {
		return c, err
	}
	for _, path := range append(stats, filepath.Join(folder("cpu"), "cpu.stat")) {
		data, err := os.ReadFile(path)
		if err != nil {
			return c, err
		}
		var periods, throttled int64
		for line := range strings.Lines(string(data)) {
			name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return c, fmt.Errorf("%s: %w", path, err)
			}
			switch name {
			case "nr_periods":
				periods = n
			case "nr_throttled":
				throttled = n
			}
		}
		c.Periods, c.Throttled = max(c.Periods, periods), max(c.Throttled, throttled)
	}
	return c, nil
}
