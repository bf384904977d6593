package agents

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cgroups reads the CPU counters of pods on this node, which are exact and as fresh as
// the moment. It needs the cgroup file system, read-only.
//
// A reading is of the whole pod: a counter of one container has the runtime's name for it,
// which differs between runtimes.
type Cgroups struct {
	// FS is the root of the cgroup file system: /sys/fs/cgroup, v2 or v1.
	FS fs.FS
	// Root is the cgroup that the kubelet keeps its pods below, as its --cgroup-root says: a
	// path such as /kubelet with the systemd driver, too, which makes kubelet.slice of it.
	// Empty for the root itself.
	Root string
	// Now is the clock.
	Now func() time.Time

	last map[string]counter
}

// counter of CPU used, at a time.
type counter struct {
	used time.Duration
	at   time.Time
}

// Read implements Meter. A pod has no reading until it was read twice, nor when its
// counter went backwards.
func (c *Cgroups) Read(_ context.Context, pods []Pod) (map[string]Usage, error) {
	out, next := map[string]Usage{}, map[string]counter{}
	var missing error
	for _, p := range pods {
		used, err := c.used(p.ID)
		if err != nil {
			missing = errors.Join(missing, fmt.Errorf("pod %s: %w", p.Key, err))
			continue
		}
		now := counter{used, c.Now()}
		next[p.ID] = now
		before, ok := c.last[p.ID]
		if took := now.at.Sub(before.at); ok && took > 0 && now.used >= before.used {
			memory, files, err := c.memory(p.ID)
			if err != nil { // nothing is decided about it
				memory, files = math.NaN(), 0
			}
			out[p.ID] = Usage{1000 * float64(now.used-before.used) / float64(took), memory, files, now.at}
		}
	}
	c.last = next
	if len(out) == 0 && missing != nil {
		return nil, missing
	}
	return out, nil
}

// dirs where a pod's cgroup may be, by UID: with the cgroupfs or the systemd driver, in any
// of the three classes of quality of service.
func (c *Cgroups) dirs(uid string) []string {
	root := strings.Trim(c.Root, "/") // no path of a fs.FS begins with one
	above := strings.FieldsFunc(root, func(r rune) bool { return r == '/' })
	if slice, is := strings.CutSuffix(path.Base(root), ".slice"); is {
		above = strings.Split(slice, "-")
	}
	var out []string
	for _, class := range []string{"", "burstable", "besteffort"} {
		below := []string{"kubepods", "pod" + uid}
		if class != "" {
			below = slices.Insert(below, 1, class)
		}
		out = append(out, path.Join(root, path.Join(below...)), slicePath(append(slices.Clone(above), below...)))
		if root != "" { // a whole node's, such as that of a container
			out = append(out, path.Join(root, slicePath(below)))
		}
	}
	return out
}

// slicePath is where systemd has the cgroup that a kubelet names so: a-b.slice is below a.slice,
// and a - in a name is a _.
func slicePath(names []string) string {
	out, name := "", ""
	for i, n := range names {
		if i > 0 {
			name += "-"
		}
		name += strings.ReplaceAll(n, "-", "_")
		out = path.Join(out, name+".slice")
	}
	return out
}

// errNoCgroup is the error for a pod without one.
var errNoCgroup = fmt.Errorf("there is no cgroup of it on this node: %w", fs.ErrNotExist)

// used CPU of a pod by UID: cgroup v2's cpu.stat or v1's cpuacct.usage.
func (c *Cgroups) used(uid string) (time.Duration, error) {
	for _, dir := range c.dirs(uid) {
		if text, err := fs.ReadFile(c.FS, path.Join(dir, "cpu.stat")); err == nil {
			if used, err := usageUsec(text); err == nil {
				return used, nil
			}
		}
		for _, controller := range []string{"cpuacct", "cpu,cpuacct"} {
			text, err := fs.ReadFile(c.FS, path.Join(controller, dir, "cpuacct.usage"))
			if err != nil {
				continue
			}
			ns, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err != nil || ns < 0 {
				return 0, fmt.Errorf("cpuacct.usage is %q", bytes.TrimSpace(text))
			}
			return time.Duration(ns), nil
		}
	}
	return 0, errNoCgroup
}

// memory of a pod by UID, in bytes, without the file cache that was not used lately, as the
// kubelet counts it, and how much of that is file cache that was.
func (c *Cgroups) memory(uid string) (used, files float64, err error) {
	for _, dir := range c.dirs(uid) {
		for _, v := range []struct{ dir, usage, inactive, active string }{
			{dir, "memory.current", "inactive_file ", "active_file "},
			{path.Join("memory", dir), "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "},
		} {
			text, err := fs.ReadFile(c.FS, path.Join(v.dir, v.usage))
			if err != nil {
				continue
			}
			usage, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 63)
			if err != nil {
				return 0, 0, fmt.Errorf("%s is %q", v.usage, bytes.TrimSpace(text))
			}
			stat, err := fs.ReadFile(c.FS, path.Join(v.dir, "memory.stat"))
			if err != nil {
				return 0, 0, err
			}
			inactive, err := numberAfter(stat, v.inactive)
			if err != nil {
				return 0, 0, fmt.Errorf("memory.stat: %w", err)
			}
			usage -= min(usage, inactive)
			active, err := numberAfter(stat, v.active)
			if err != nil {
				return 0, 0, fmt.Errorf("memory.stat: %w", err)
			}
			return float64(usage), float64(min(usage, active)), nil
		}
	}
	return 0, 0, errNoCgroup
}

// numberAfter is the number on the line that begins with a name.
func numberAfter(text []byte, name string) (uint64, error) {
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte(name)); ok {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 63)
			if err != nil {
				return 0, fmt.Errorf("%sis %q", name, bytes.TrimSpace(value))
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("there is no %s", strings.TrimSpace(name))
}

// usageUsec of cgroup v2's cpu.stat.
func usageUsec(text []byte) (time.Duration, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		value, ok := strings.CutPrefix(lines.Text(), "usage_usec ")
		if !ok {
			continue
		}
		us, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || us < 0 || us > int64(1<<63-1)/1000 {
			return 0, fmt.Errorf("cpu.stat: usage_usec is %q", value)
		}
		return time.Duration(us) * time.Microsecond, nil
	}
	return 0, errors.New("cpu.stat has no usage_usec")
}
