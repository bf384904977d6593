package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// daemon is a program that runs beside the experiment until that ends.
type daemon struct {
	name string
	log  string        // file with what it says
	done chan struct{} // closed when it has ended
	cmd  *exec.Cmd
}

// start runs a program with its log in the folder.
func start(logs, name, program string, args ...string) (*daemon, error) {
	return startCommand(logs, name, exec.Command(program, args...))
}

// startCommand is start for a command that is more than a program and arguments.
func startCommand(logs, name string, cmd *exec.Cmd) (*daemon, error) {
	d := &daemon{name: name, log: filepath.Join(logs, name+".log"), done: make(chan struct{}), cmd: cmd}
	log, err := os.Create(d.log)
	if err != nil {
		return nil, err
	}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", name, err), log.Close())
	}
	go func() {
		_ = d.cmd.Wait() // the outcome is read from ProcessState
		_ = log.Close()
		close(d.done)
	}()
	return d, nil
}

// wait polls until ready says nil. It fails when one of the daemons has ended,
// or after a minute, with what ready said last.
func wait(ctx context.Context, what string, daemons []*daemon, ready func(context.Context) error) error {
	return waitFor(ctx, time.Minute, what, daemons, ready)
}

// waitFor is wait with a patience of its own.
func waitFor(ctx context.Context, patience time.Duration, what string, daemons []*daemon, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		last := ready(ctx)
		if last == nil {
			return nil
		}
		if err := ended(daemons); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, ctx.Err(), last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ended is the error of the first daemon that has ended, with the end of its log.
func ended(daemons []*daemon) error {
	for _, d := range daemons {
		select {
		case <-d.done:
			data, err := os.ReadFile(d.log)
			said := strings.Split(strings.TrimSpace(string(data)), "\n")
			return errors.Join(fmt.Errorf("%s ended (%s); the end of its log:\n%s", d.name, d.cmd.ProcessState, strings.Join(said[max(0, len(said)-15):], "\n")), err)
		default:
		}
	}
	return nil
}
