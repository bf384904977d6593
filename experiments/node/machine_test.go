package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	before := machine{
		Sysctls: map[string]string{"kernel/panic": "1", "vm/overcommit_memory": "0", "net/ipv4/ip_forward": "0"},
		Mounts:  []string{"a", "b"}, Links: []string{"lo"},
	}
	for name, c := range map[string]struct {
		change func(*machine)
		want   map[string][]string
	}{
		"nothing changed": {change: func(*machine) {}},
		"a setting": {
			change: func(m *machine) {
				m.Sysctls = map[string]string{"kernel/panic": "10", "vm/overcommit_memory": "0", "net/ipv4/conf/x/forwarding": "1"}
			},
			want: map[string][]string{"sysctls": {
				`kernel/panic was "1", is "10"`, `net/ipv4/conf/x/forwarding was "", is "1"`, `net/ipv4/ip_forward was "0", is ""`,
			}},
		},
		"what is new and what is missing": {
			change: func(m *machine) {
				m.Mounts, m.Links, m.Cgroups = []string{"b"}, []string{"lo", "mash2node0"}, []string{"/sys/fs/cgroup/cpu/mash2-node"}
			},
			want: map[string][]string{
				"mounts": {"missing: a"}, "links and addresses": {"new: mash2node0"}, "cgroups of the node": {"new: /sys/fs/cgroup/cpu/mash2-node"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			after := before
			c.change(&after)
			got := map[string][]string{}
			for _, check := range compare(before, after) {
				if len(check.Difference) > 0 {
					got[check.What] = check.Difference
				}
			}
			if want := c.want; len(got)+len(want) > 0 && !cmp.Equal(want, got) {
				t.Error(cmp.Diff(want, got))
			}
		})
	}
}

// Only settings that a node changes are put back; others may be somebody's who
// changed them meanwhile.
func TestRestoreSysctls(t *testing.T) {
	root := t.TempDir()
	write := func(values map[string]string) {
		t.Helper()
		for name, v := range values {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(v+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(map[string]string{
		"kernel/panic": "1", "kernel/hostname": "a", "net/ipv4/ip_forward": "0", "net/ipv4/conf/gone/forwarding": "0",
		"net/ipv4/conf/eth0/forwarding": "0", "kernel/random/uuid": "x",
	})
	was, err := readSysctls(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := was["kernel/random/uuid"]; ok {
		t.Error("what changes by itself was read")
	}
	write(map[string]string{"kernel/panic": "10", "kernel/hostname": "b", "net/ipv4/ip_forward": "1", "net/ipv4/conf/eth0/forwarding": "1"})
	if err := os.RemoveAll(filepath.Join(root, "net/ipv4/conf/gone")); err != nil {
		t.Fatal(err)
	}
	if err := restoreSysctls(root, was); err != nil {
		t.Fatal(err)
	}
	is, err := readSysctls(root)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"kernel/panic": "1", "kernel/hostname": "b", "net/ipv4/ip_forward": "0", "net/ipv4/conf/eth0/forwarding": "0"}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Error(diff)
	}
}

func TestVisible(t *testing.T) {
	for path, want := range map[string]bool{"/home/me": true, "/run": false, "/run/user/1": false, "/var/lib/x": false, "/var/libx": true, "/var/tmp": true} {
		if err := visible(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
