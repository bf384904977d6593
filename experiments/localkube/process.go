package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// component is one running part of the cluster.
type component struct {
	name string
	log  string // file with its standard output and error
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
}

// supervisor starts components and stops them in reverse order. It is used
// from one goroutine, locked to its thread: the kernel sends a child its
// parent-death signal when the *thread* that started it ends.
type supervisor struct {
	logDir     string
	workDir    string
	components []*component
	died       chan *component
}

func newSupervisor(logDir, workDir string) *supervisor {
	return &supervisor{logDir: logDir, workDir: workDir, died: make(chan *component, 16)}
}

// start runs this program again as the named component.
func (s *supervisor) start(name string, args ...string) error {
	c := &component{name: name, log: filepath.Join(s.logDir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// /proc/self/exe is this very program even if the file has been replaced
	// by a newer build in the meantime.
	c.cmd = exec.Command("/proc/self/exe", append([]string{name}, args...)...)
	c.cmd.Args[0] = "localkube"
	c.cmd.Dir = s.workDir
	c.cmd.Env = append(os.Environ(), "HOME="+s.workDir)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // an interrupt typed in the terminal reaches only us
		Pdeathsig: syscall.SIGKILL,
	}
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = c.cmd.Wait() // the outcome is read from ProcessState
		close(c.done)
		s.died <- c
	}()
	s.components = append(s.components, c)
	return nil
}

// failure describes a component that has exited by itself.
func (c *component) failure() error {
	return fmt.Errorf("%s died (%s); the end of %s:\n%s", c.name, c.cmd.ProcessState, c.log, tail(c.log, 15))
}

// wait polls ready until it returns nil, the context ends, a component dies
// or the timeout is over; waitingFor completes "… is not ready".
func (s *supervisor) wait(ctx context.Context, waitingFor string, timeout time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		last := ready(ctx)
		if last == nil {
			return nil
		}
		select {
		case c := <-s.died:
			return c.failure()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			err := fmt.Errorf("%s is not ready after %v: %w", waitingFor, timeout, last)
			for _, c := range s.components {
				if c.name == waitingFor {
					err = fmt.Errorf("%w; the end of %s:\n%s", err, c.log, tail(c.log, 15))
				}
			}
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends all components, the last started first, each with a grace period
// after which it is killed.
func (s *supervisor) stop(grace time.Duration) {
	for _, c := range slices.Backward(s.components) {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		_ = c.cmd.Process.Signal(syscall.SIGCONT) // it may have been paused
		select {
		case <-c.done:
		case <-time.After(grace):
			_ = c.cmd.Process.Kill()
			<-c.done
		}
	}
	s.components = nil
}

func (s *supervisor) pids() map[string]int {
	pids := make(map[string]int, len(s.components))
	for _, c := range s.components {
		pids[c.name] = c.cmd.Process.Pid
	}
	return pids
}

// tail returns the last lines of a file, or why it can't be read.
func tail(path string, lines int) string {
	const most = 16 << 10
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(bytes.TrimSpace(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
