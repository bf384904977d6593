package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Names of what appears on the machine while a node runs.
const (
	bridge = "mash2node0"
	// cgroupName is the folder below each cgroup hierarchy that has all of the
	// node's pods.
	cgroupName = "mash2-node"
	sysctlRoot = "/proc/sys"
	cgroupRoot = "/sys/fs/cgroup"
)

// ourSysctls are what the kubelet (vm, kernel) and forwarding, which the bridge
// plugin turns on, change. They are put back in this order: the first resets
// those of every interface.
var ourSysctls = []string{
	"net/ipv4/ip_forward",
	"net/ipv4/conf/*/forwarding",
	"net/ipv4/conf/*/accept_redirects",
	"net/ipv6/conf/*/forwarding",
	"vm/overcommit_memory",
	"vm/panic_on_oom",
	"kernel/panic",
	"kernel/panic_on_oops",
	"kernel/keys/root_maxkeys",
	"kernel/keys/root_maxbytes",
}

// volatileSysctls change on a machine that does nothing.
var volatileSysctls = []string{
	"fs/aio-nr", "fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state", "fs/quota/*",
	"kernel/ns_last_pid", "kernel/perf_event_max_sample_rate", "kernel/pty/nr", "kernel/random/*",
	"net/netfilter/nf_conntrack_count",
}

// runtimeFolders are where container runtimes and kubelets keep what is theirs.
// The node has folders of its own in their place; these must not appear.
var runtimeFolders = []string{
	"/run/containerd", "/run/netns", "/etc/cni", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet",
	"/var/log/containers", "/var/log/pods",
}

// machine is the state of this machine that a node could change.
type machine struct {
	Sysctls map[string]string `json:"sysctls"` // by path below /proc/sys
	Mounts  []string          `json:"mounts"`
	Links   []string          `json:"links"` // with their addresses
	Routes  []string          `json:"routes"`
	Cgroups []string          `json:"cgroups"` // the node's own
	Folders []string          `json:"folders"` // of runtimeFolders, those that are there
	// Work is the folder of the run, and Processes those that name it.
	Work      string   `json:"work"`
	Processes []string `json:"processes"`
}

// look reads the state of this machine.
func look(work string) (machine, error) {
	m := machine{Work: work}
	var err error
	if m.Sysctls, err = readSysctls(sysctlRoot); err != nil {
		return m, err
	}
	if m.Mounts, err = lines("/proc/self/mounts"); err != nil {
		return m, err
	}
	if m.Routes, err = lines("/proc/net/route"); err != nil {
		return m, err
	}
	links, err := net.Interfaces()
	if err != nil {
		return m, err
	}
	for _, l := range links {
		addresses, err := l.Addrs()
		if err != nil {
			return m, err
		}
		m.Links = append(m.Links, fmt.Sprintf("%s %s %d %s %v", l.Name, l.HardwareAddr, l.MTU, l.Flags, addresses))
	}
	if m.Cgroups, err = ownCgroups(cgroupRoot); err != nil {
		return m, err
	}
	for _, f := range runtimeFolders {
		if _, err := os.Lstat(f); err == nil {
			m.Folders = append(m.Folders, f)
		}
	}
	m.Processes, err = processesOf(work)
	return m, err
}

func lines(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	return strings.Split(strings.TrimSpace(string(data)), "\n"), err
}

// readSysctls reads every setting that can be read and stands still.
func readSysctls(root string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		// What has just gone, with an interface, is as if it had not been.
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || matches(volatileSysctls, name) {
			return err
		}
		if data, err := os.ReadFile(path); err == nil { // some are for others only
			out[name] = strings.TrimSpace(string(data))
		}
		return nil
	})
	return out, err
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := filepath.Match(p, name)
		return ok && err == nil
	})
}

// ownCgroups lists the node's folders in every hierarchy, the deepest last.
func ownCgroups(root string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(strings.Split(path, "/"), cgroupName) {
			out = append(out, path)
		}
		return nil
	})
	return out, err
}

// processesOf lists the processes whose command line names the folder, but for
// this one and its parents.
func processesOf(work string) ([]string, error) {
	if work == "" {
		return nil, nil
	}
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte(work)) {
			continue // it has ended
		}
		out = append(out, filepath.Base(filepath.Dir(path))+" "+string(bytes.ReplaceAll(data, []byte{0}, []byte{' '})))
	}
	return out, nil
}

// check is one line of the comparison of a machine with what it was.
type check struct {
	What       string   `json:"what"`
	Compared   int      `json:"compared"` // how many there are of it
	Difference []string `json:"difference,omitempty"`
}

// compare says what differs between two states, each kind on its own.
func compare(before, after machine) []check {
	settings := check{What: "sysctls", Compared: len(before.Sysctls)}
	for _, name := range slices.Sorted(maps.Keys(union(before.Sysctls, after.Sysctls))) {
		was, had := before.Sysctls[name]
		is, has := after.Sysctls[name]
		if was != is || had != has {
			settings.Difference = append(settings.Difference, fmt.Sprintf("%s was %q, is %q", name, was, is))
		}
	}
	return []check{
		settings,
		compareLines("mounts", before.Mounts, after.Mounts),
		compareLines("links and addresses", before.Links, after.Links),
		compareLines("routes", before.Routes, after.Routes),
		compareLines("cgroups of the node", before.Cgroups, after.Cgroups),
		compareLines("folders of container runtimes", before.Folders, after.Folders),
		compareLines("processes of the node", before.Processes, after.Processes),
	}
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func compareLines(what string, before, after []string) check {
	c := check{What: what, Compared: len(before)}
	for _, l := range before {
		if !slices.Contains(after, l) {
			c.Difference = append(c.Difference, "missing: "+l)
		}
	}
	for _, l := range after {
		if !slices.Contains(before, l) {
			c.Difference = append(c.Difference, "new: "+l)
		}
	}
	return c
}

// restore takes away what a run left and puts settings back. All of the run's
// processes must have ended. It goes on where a step fails.
func (m machine) restore() error {
	var errs []error
	if _, err := net.InterfaceByName(bridge); err == nil {
		if out, err := exec.Command("ip", "link", "delete", bridge).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("deleting the bridge: %w: %s", err, out))
		}
	}
	errs = append(errs, removeCgroups(cgroupRoot), restoreSysctls(sysctlRoot, m.Sysctls))
	if m.Work != "" {
		errs = append(errs, os.RemoveAll(m.Work))
	}
	return errors.Join(errs...)
}

// removeCgroups ends what still runs in the node's cgroups and removes them.
func removeCgroups(root string) error {
	folders, err := ownCgroups(root)
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(folders) {
		const patience = 5 * time.Second
		for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			// rmdir: the files in it are the kernel's.
			err := syscall.Rmdir(f)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if time.Since(begin) > patience {
				return fmt.Errorf("removing %s: %w", f, err)
			}
			pids, _ := os.ReadFile(filepath.Join(f, "cgroup.procs")) // of those that still are
			for _, text := range strings.Fields(string(pids)) {
				if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
	}
	return nil
}

// restoreSysctls writes back those of ourSysctls that differ.
func restoreSysctls(root string, was map[string]string) error {
	var errs []error
	for _, pattern := range ourSysctls {
		for _, name := range slices.Sorted(maps.Keys(was)) {
			if !matches([]string{pattern}, name) {
				continue
			}
			path := filepath.Join(root, name)
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(data)) == was[name] {
				continue
			}
			errs = append(errs, err, os.WriteFile(path, []byte(was[name]), 0o644))
		}
	}
	return errors.Join(errs...)
}
