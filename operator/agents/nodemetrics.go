package agents

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"
)

// Metrics of a node, by the names that features of models begin with. Those that are also
// columns of the files that mash2 train --environment qos reads have the same names and units.
const (
	NodeCPU         = "node_cpu_usage"        // cores
	NodeUtilization = "node_cpu_utilization"  // share of all CPUs, 0 to 1
	NodeCPUs        = "node_cpus"             // CPUs that are on line
	NodeLoad1       = "node_load1"            // tasks that run or wait, mean of a minute
	NodeLoad5       = "node_load5"            // of five minutes
	NodeLoad15      = "node_load15"           // of fifteen
	NodeMem         = "node_mem_usage"        // bytes that are not available
	NodeMemFree     = "node_mem_available"    // bytes that programs can have without swapping
	NodeMemTotal    = "node_mem_total"        // bytes
	NodeReceive     = "node_network_receive"  // bytes a second
	NodeTransmit    = "node_network_transmit" // bytes a second
)

// NodeMetrics lists them all.
func NodeMetrics() []string {
	return []string{NodeCPU, NodeUtilization, NodeCPUs, NodeLoad1, NodeLoad5, NodeLoad15, NodeMem, NodeMemFree, NodeMemTotal, NodeReceive, NodeTransmit}
}

// Proc reads a node's metrics from the kernel of the machine that it runs on. It needs no
// right but to read: in a container too, /proc/stat, meminfo and loadavg are the node's. The
// network's counters are not: they are those of the network that the process is in.
type Proc struct {
	// FS is the root of the proc file system.
	FS fs.FS
	// Interface of the network whose bytes are counted; empty for none.
	Interface string

	cpu   cpuTimes
	net   netBytes
	netAt time.Time // zero before the first reading
}

// Read what can be read at a time. What can't be is in the error, and not in the values:
// so are rates at the first reading, and where a counter went backwards.
func (p *Proc) Read(now time.Time) (map[string]float64, error) {
	out := map[string]float64{}
	errs := []error{p.readCPU(out), p.readLoad(out), p.readMemory(out)}
	if p.Interface != "" {
		errs = append(errs, p.readNetwork(out, now))
	}
	return out, errors.Join(errs...)
}

func (p *Proc) readCPU(out map[string]float64) error {
	text, err := fs.ReadFile(p.FS, "stat")
	if err != nil {
		return err
	}
	is, err := parseStat(text)
	if err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	out[NodeCPUs] = float64(is.cpus)
	was := p.cpu
	p.cpu = is
	// A CPU that came or went takes its times with it.
	if was.cpus != is.cpus || is.busy < was.busy || is.idle < was.idle || is.total() <= was.total() {
		return nil
	}
	share := float64(is.busy-was.busy) / float64(is.total()-was.total())
	out[NodeUtilization], out[NodeCPU] = share, share*float64(is.cpus)
	return nil
}

func (p *Proc) readLoad(out map[string]float64) error {
	text, err := fs.ReadFile(p.FS, "loadavg")
	if err != nil {
		return err
	}
	load, err := parseLoad(text)
	if err != nil {
		return fmt.Errorf("loadavg: %w", err)
	}
	out[NodeLoad1], out[NodeLoad5], out[NodeLoad15] = load[0], load[1], load[2]
	return nil
}

func (p *Proc) readMemory(out map[string]float64) error {
	text, err := fs.ReadFile(p.FS, "meminfo")
	if err != nil {
		return err
	}
	total, available, err := parseMeminfo(text)
	if err != nil {
		return fmt.Errorf("meminfo: %w", err)
	}
	out[NodeMemTotal], out[NodeMemFree], out[NodeMem] = float64(total), float64(available), float64(total-available)
	return nil
}

func (p *Proc) readNetwork(out map[string]float64, now time.Time) error {
	text, err := fs.ReadFile(p.FS, "net/dev")
	if err != nil {
		return err
	}
	is, err := parseNet(text, p.Interface)
	if err != nil {
		return fmt.Errorf("net/dev: %w", err)
	}
	was, since := p.net, now.Sub(p.netAt)
	first := p.netAt.IsZero()
	p.net, p.netAt = is, now
	if first || since <= 0 || is.received < was.received || is.sent < was.sent {
		return nil
	}
	out[NodeReceive] = float64(is.received-was.received) / since.Seconds()
	out[NodeTransmit] = float64(is.sent-was.sent) / since.Seconds()
	return nil
}

// cpuTimes since the start, in the kernel's ticks.
type cpuTimes struct {
	busy, idle uint64
	cpus       int
}

func (c cpuTimes) total() uint64 { return c.busy + c.idle }

// parseStat reads /proc/stat. Waiting for input is idle, and so is what the hypervisor gave
// to others: nothing on this node used it. Guests are in user and nice already.
func parseStat(text []byte) (cpuTimes, error) {
	var c cpuTimes
	found := false
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		if fields[0] != "cpu" {
			c.cpus++
			continue
		}
		// user nice system idle iowait irq softirq steal guest guest_nice
		if len(fields) < 9 {
			return c, errors.New("the line cpu has fewer than eight times")
		}
		var t [8]uint64
		for i := range t {
			v, err := strconv.ParseUint(fields[i+1], 10, 64)
			if err != nil || v > math.MaxUint64>>4 { // their sum is one, too
				return c, errors.New("the line cpu has a time that is no number")
			}
			t[i] = v
		}
		c.busy, c.idle, found = t[0]+t[1]+t[2]+t[5]+t[6], t[3]+t[4]+t[7], true
	}
	if !found || c.cpus == 0 {
		return c, errors.New("there is no line of all CPUs, or none of one")
	}
	return c, nil
}

// parseLoad reads /proc/loadavg.
func parseLoad(text []byte) (load [3]float64, err error) {
	fields := strings.Fields(string(text))
	if len(fields) < len(load) {
		return load, errors.New("there are fewer than three averages")
	}
	for i := range load {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 0) {
			return load, errors.New("an average is no number of 0 or more")
		}
		load[i] = v
	}
	return load, nil
}

// parseMeminfo reads bytes of /proc/meminfo: what there is, and what programs can have.
func parseMeminfo(text []byte) (total, available uint64, err error) {
	found := 0
	for line := range bytes.Lines(text) {
		name, rest, _ := strings.Cut(string(line), ":")
		into := &total
		switch name {
		case "MemTotal":
		case "MemAvailable":
			into = &available
		default:
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) != 2 || fields[1] != "kB" {
			return 0, 0, fmt.Errorf("%s is not in kB", name)
		}
		v, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil || v > math.MaxUint64>>10 {
			return 0, 0, fmt.Errorf("%s is no number", name)
		}
		*into = v << 10
		found++
	}
	if found != 2 || total == 0 || available > total {
		return 0, 0, errors.New("MemTotal and MemAvailable are not there once each, or do not go together")
	}
	return total, available, nil
}

// netBytes of an interface since the start.
type netBytes struct{ received, sent uint64 }

// parseNet reads an interface's line of /proc/net/dev.
func parseNet(text []byte, name string) (netBytes, error) {
	for line := range bytes.Lines(text) {
		who, rest, ok := strings.Cut(string(line), ":")
		if !ok || strings.TrimSpace(who) != name {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 9 {
			return netBytes{}, fmt.Errorf("the line of %s has fewer than nine numbers", name)
		}
		received, err := strconv.ParseUint(fields[0], 10, 64)
		sent, err2 := strconv.ParseUint(fields[8], 10, 64)
		if errors.Join(err, err2) != nil {
			return netBytes{}, fmt.Errorf("the line of %s has bytes that are no number", name)
		}
		return netBytes{received, sent}, nil
	}
	return netBytes{}, fmt.Errorf("there is no interface %s", name)
}
