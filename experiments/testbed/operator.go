package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Operator is a running mash2 operator: a process of its own.
type Operator struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	err  error // valid once done is closed
}

// StartOperator runs program with the arguments of mash2 operator and these
// further environment variables. Its log is appended to OperatorLog.
func (t *Testbed) StartOperator(program string, env []string, extra ...string) (*Operator, error) {
	return t.StartProgram(program, env, t.OperatorArgs(extra...)...)
}

// StartProgram is StartOperator with no other arguments than these.
func (t *Testbed) StartProgram(program string, env []string, args ...string) (*Operator, error) {
	log, err := os.OpenFile(t.OperatorLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the operator: %w", err), log.Close())
	}
	o := &Operator{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		o.err = cmd.Wait()
		_ = log.Close()
		close(o.done)
	}()
	return o, nil
}

// OperatorLog is the file with what the operators of this testbed said.
func (t *Testbed) OperatorLog() string { return filepath.Join(t.Dir, "operator.log") }

// Done is closed when the operator has ended.
func (o *Operator) Done() <-chan struct{} { return o.done }

// Err is how it ended; valid once Done is closed.
func (o *Operator) Err() error { return o.err }

// Kill ends it by SIGKILL.
func (o *Operator) Kill() {
	_ = o.cmd.Process.Kill() // fails only if it has ended
	<-o.done
}

// Thaw lets it go on after a SIGSTOP.
func (o *Operator) Thaw() error { return o.cmd.Process.Signal(syscall.SIGCONT) }

// Stop ends it by SIGTERM and waits; after 20 s it is killed and that is the
// error.
func (o *Operator) Stop() error {
	_ = o.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-o.done:
		return o.err
	case <-time.After(20 * time.Second):
		o.Kill()
		return errors.New("the operator did not end within 20 s of SIGTERM")
	}
}

// WaitLeading returns once the operator has completed a cycle after from.
func (t *Testbed) WaitLeading(ctx context.Context, o *Operator, from time.Time) error {
	for {
		cycles, err := t.Cycles()
		if err != nil {
			return err
		}
		if n := len(cycles); n > 0 && cycles[n-1].Error == "" && cycles[n-1].Time.After(from) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the operator's first cycle: %w", ctx.Err())
		case <-o.Done():
			return fmt.Errorf("the operator ended: %w; see %s", o.Err(), t.OperatorLog())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Tail is the last n lines of a file, or why there are none.
func Tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
