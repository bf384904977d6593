package agents

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// proc is a file system like /proc.
func proc(stat, load, mem, net string) fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{"stat": file(stat), "loadavg": file(load), "meminfo": file(mem), "net/dev": file(net)}
}

const (
	someStat = "cpu  100 10 30 800 40 5 15 50 7 0\ncpu0 50 5 15 400 20 2 8 25 3 0\ncpu1 50 5 15 400 20 3 7 25 4 0\nintr 12 0\nbtime 1\n"
	// 60 ticks of use and 140 without: steal and iowait are among these.
	laterStat = "cpu  140 10 40 900 60 7 23 70 9 0\ncpu0 70 5 20 450 30 3 12 35 4 0\ncpu1 70 5 20 450 30 4 11 35 5 0\nintr 13 0\nbtime 1\n"
	someLoad  = "1.25 0.50 0.125 2/345 6789\n"
	someMem   = "MemTotal:        1024 kB\nMemFree:          100 kB\nMemAvailable:     256 kB\nHugePages_Total:       0\n"
	someNet   = "Inter-|   Receive |  Transmit\n face |bytes packets\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  eth0:1000 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\n"
	laterNet  = "  eth0:3000 1 0 0 0 0 0 0 600 1 0 0 0 0 0 0\n"
)

// TestProc: all that is read of a node, by hand.
func TestProc(t *testing.T) {
	p := &Proc{FS: proc(someStat, someLoad, someMem, someNet), Interface: "eth0"}
	first := map[string]float64{
		NodeCPUs: 2, NodeLoad1: 1.25, NodeLoad5: 0.5, NodeLoad15: 0.125,
		NodeMemTotal: 1024 << 10, NodeMemFree: 256 << 10, NodeMem: 768 << 10,
	}
	if got, err := p.Read(start); err != nil || !cmp.Equal(first, got) {
		t.Errorf("%v, %s", err, cmp.Diff(first, got))
	}
	p.FS = proc(laterStat, someLoad, someMem, laterNet)
	second := maps.Clone(first)
	// user +40, system +10, irq +2, softirq +8 are 60 of 200 ticks of two CPUs.
	second[NodeUtilization], second[NodeCPU] = 0.3, 0.6
	second[NodeReceive], second[NodeTransmit] = 1000, 50 // over two seconds
	if got, err := p.Read(start.Add(2 * time.Second)); err != nil || !cmp.Equal(second, got, cmpopts.EquateApprox(1e-12, 0)) {
		t.Errorf("%v, %s", err, cmp.Diff(second, got))
	}
	p.FS = proc(someStat, someLoad, someMem, someNet)
	if got, err := p.Read(start.Add(3 * time.Second)); err != nil || !cmp.Equal(first, got) {
		t.Errorf("counters that went backwards: %v, %s", err, cmp.Diff(first, got))
	}
	p.FS = fstest.MapFS{"loadavg": &fstest.MapFile{Data: []byte(someLoad)}}
	if got, err := p.Read(start.Add(4 * time.Second)); err == nil || len(got) != 3 {
		t.Errorf("what can be read is read: %v, %v", got, err)
	}
}

// TestProcOfThisMachine: a file of a real kernel (6.18, two CPUs) is read, and so is the machine
// that the test runs on.
func TestProcOfThisMachine(t *testing.T) {
	roots := map[string]fs.FS{"testdata": os.DirFS("testdata/proc")}
	if _, err := os.Stat("/proc/stat"); err == nil {
		roots["this machine"] = os.DirFS("/proc")
	}
	for name, root := range roots {
		p := &Proc{FS: root, Interface: "lo"}
		got, err := p.Read(time.Now())
		if err != nil || len(got) != 7 || got[NodeCPUs] < 1 || got[NodeMem] <= 0 || got[NodeMem] >= got[NodeMemTotal] {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	p := &Proc{FS: os.DirFS("testdata/proc"), Interface: "eth0"}
	got, err := p.Read(start)
	if err != nil || got[NodeLoad1] != 10.29 || got[NodeMem] != (24684084-22602812)<<10 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestProcRefuses files that are not what they should be, by the file's name and without what
// is in them.
func TestProcRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"no CPU":                  {"stat", "intr 1\n", "no line of all CPUs"},
		"few times":               {"stat", "cpu 1 2 3 4 5 6 7\ncpu0 1\n", "fewer than eight"},
		"a time below 0":          {"stat", "cpu 1 2 3 -4 5 6 7 8\ncpu0 1\n", "no number"},
		"a time too large":        {"stat", "cpu 18446744073709551615 2 3 4 5 6 7 8\ncpu0 1\n", "no number"},
		"two averages":            {"loadavg", "1 2", "fewer than three"},
		"an average that is none": {"loadavg", "NaN 1 2", "no number"},
		"an infinite average":     {"loadavg", "1 +Inf 2", "no number"},
		"no MemAvailable":         {"meminfo", "MemTotal: 1 kB\n", "MemAvailable"},
		"other units":             {"meminfo", "MemTotal: 1 MB\nMemAvailable: 1 kB\n", "not in kB"},
		"more than there is":      {"meminfo", "MemTotal: 1 kB\nMemAvailable: 2 kB\n", "do not go together"},
		"MemTotal twice":          {"meminfo", "MemTotal: 4 kB\nMemTotal: 5 kB\nMemAvailable: 2 kB\n", "once each"},
		"no such interface":       {"net/dev", "lo: 1\n", "eth0"},
		"a short line":            {"net/dev", "eth0: 1 2 3\n", "fewer than nine"},
		"bytes that are none":     {"net/dev", "eth0: x 1 0 0 0 0 0 0 9 1\n", "no number"},
	} {
		t.Run(name, func(t *testing.T) {
			files := proc(someStat, someLoad, someMem, someNet)
			files[c.file] = &fstest.MapFile{Data: []byte(c.text)}
			p := &Proc{FS: files, Interface: "eth0"}
			if _, err := p.Read(start); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// FuzzProc: whatever the files have, values are finite and not below 0.
func FuzzProc(f *testing.F) {
	f.Add([]byte(someStat), []byte(laterStat), []byte(someLoad), []byte(someMem), []byte(someNet))
	f.Add([]byte(laterStat), []byte(someStat), []byte("1e308 1e309 0"), []byte("MemTotal: 18014398509481983 kB\nMemAvailable: 0 kB"), []byte(laterNet))
	f.Fuzz(func(t *testing.T, stat, later, load, mem, net []byte) {
		p := &Proc{FS: proc(string(stat), string(load), string(mem), string(net)), Interface: "eth0"}
		for i := range 2 {
			got, _ := p.Read(start.Add(time.Duration(i) * time.Second))
			for name, v := range got {
				if !(v >= 0) || math.IsInf(v, 0) {
					t.Errorf("%s is %g", name, v)
				}
			}
			if v, ok := got[NodeUtilization]; ok && v > 1 {
				t.Errorf("more than all CPUs: %g", v)
			}
			p.FS = proc(string(later), string(load), string(mem), string(net))
		}
	})
}

// TestApplication: CPU and memory of all pods of an application, in both versions of cgroups,
// below a cgroup of the kubelet's.
func TestApplication(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, files := range map[string]func(a, b string) fstest.MapFS{
		"v1": func(a, b string) fstest.MapFS {
			return fstest.MapFS{
				"cpuacct/edge/kubepods/poda/cpuacct.usage":                  file(a + "000000000"),
				"memory/edge/kubepods/poda/memory.usage_in_bytes":           file("100\n"),
				"memory/edge/kubepods/poda/memory.stat":                     file("inactive_file 1\ntotal_inactive_file 30\ntotal_active_file 5\n"),
				"cpuacct/edge/kubepods/burstable/podb/cpuacct.usage":        file(b + "000000000"),
				"memory/edge/kubepods/burstable/podb/memory.usage_in_bytes": file("50\n"),
				"memory/edge/kubepods/burstable/podb/memory.stat":           file("total_inactive_file 70\ntotal_active_file 0\n"),
			}
		},
		"v2": func(a, b string) fstest.MapFS {
			return fstest.MapFS{
				"edge/kubepods.slice/kubepods-poda.slice/cpu.stat":       file("usage_usec " + a + "000000\n"),
				"edge/kubepods.slice/kubepods-poda.slice/memory.current": file("100\n"),
				"edge/kubepods.slice/kubepods-poda.slice/memory.stat":    file("anon 5\ninactive_file 30\nactive_file 5\n"),
				"edge/kubepods/besteffort/podb/cpu.stat":                 file("usage_usec " + b + "000000\n"),
				"edge/kubepods/besteffort/podb/memory.current":           file("50\n"),
				"edge/kubepods/besteffort/podb/memory.stat":              file("inactive_file 70\nactive_file 0\n"),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pods, lists := []string{"a", "gone"}, 0
			c := &Cgroups{FS: files("1", "7"), Root: "edge"}
			app := &Application{Name: "shop", Cgroups: c, Pods: func(context.Context) ([]string, error) {
				if lists++; pods == nil {
					return nil, errors.New("the API server is away")
				}
				return pods, nil
			}}
			now := start
			read := func(after time.Duration, want map[string]float64) error {
				t.Helper()
				now = now.Add(after)
				got, err := app.Read(t.Context(), now)
				if !cmp.Equal(want, got, cmpopts.EquateEmpty()) {
					t.Errorf("%v, %s", err, cmp.Diff(want, got))
				}
				return err
			}
			_ = read(0, map[string]float64{"shop_mem_usage": 70})
			c.FS = files("2", "7")
			_ = read(2*time.Second, map[string]float64{"shop_mem_usage": 70, "shop_cpu_usage": 0.5})
			if lists != 1 {
				t.Errorf("pods were listed %d times in two seconds", lists)
			}
			// Another pod: a sum without it is none.
			pods = []string{"a", "b"}
			_ = read(10*time.Second, map[string]float64{"shop_mem_usage": 70})
			c.FS, pods = files("3", "8"), nil
			_ = read(time.Second, map[string]float64{"shop_mem_usage": 70, "shop_cpu_usage": 2})
			// The list is kept for a minute.
			_ = read(listEvery, map[string]float64{"shop_mem_usage": 70, "shop_cpu_usage": 0})
			if err := read(listKept, nil); err == nil {
				t.Error("no error of a list that is too old")
			}
			pods = []string{"gone"}
			if err := read(listEvery, nil); !errors.Is(err, errNoPods) {
				t.Error(err)
			}
		})
	}
	c := &Cgroups{FS: fstest.MapFS{"kubepods/poda/cpu.stat": file("usage_usec 1\n"), "kubepods/poda/memory.current": file("x")}}
	app := &Application{Name: "shop", Cgroups: c, Pods: func(context.Context) ([]string, error) { return []string{"a"}, nil }}
	if got, err := app.Read(t.Context(), start); err == nil {
		t.Errorf("memory that is no number: %v", got)
	}
}
