package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// look at a process as the kernel shows it.
func (p *predicted) look(pid, port int) error {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	data, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch name {
		case "Uid":
			p.UID = strings.Join(strings.Fields(value)[1:2], "")
		case "CapEff":
			p.Capabilities = value
		case "NoNewPrivs":
			p.NoNewPrivs = value
		case "VmRSS":
			kib, err := strconv.ParseFloat(strings.TrimSuffix(value, " kB"), 64)
			if err != nil {
				return fmt.Errorf("VmRSS is %q", value)
			}
			p.MiB = kib / 1024
		}
	}
	p.OwnCalls, err = ownCalls(folder, port)
	return err
}

// ownCalls counts sockets of a process that neither listen nor are of those who ask at its port.
func ownCalls(folder string, port int) (int, error) {
	links, err := filepath.Glob(filepath.Join(folder, "fd", "*"))
	if err != nil {
		return 0, err
	}
	mine := map[string]bool{}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, "socket:[") {
			mine[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	calls := 0
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		data, err := os.ReadFile(filepath.Join(folder, "net", table))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) > 9 && mine[f[9]] && !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				calls++
			}
		}
	}
	return calls, nil
}

func portOf(url string) int {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	_, port, _ := net.SplitHostPort(host)
	n, _ := strconv.Atoi(port)
	return n
}

// cpuOf a process since its start, by the kernel's hundredths of a second.
func cpuOf(pid int) (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, errors.New("stat of the process is too short")
	}
	user, err := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err, err2)
}
