package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Roles of this program: started by hand it is the outermost, which prepares
// and restores the machine. It starts itself as the first process of new process
// and mount namespaces, which starts itself as the one that does the work.
// When the first process of a process namespace ends, the kernel ends all the
// others, containers too, and with the last of them go the mounts: nothing
// needs to be unmounted, however the run ends.
const (
	roleInit = "init-of-the-node"
	roleWork = "work-of-the-node"
)

// hidden are the folders that the node gets empty ones in place of. There
// containerd, its shims, CNI and the kubelet have paths that no flag changes.
var hidden = []string{"/run", "/var/lib", "/var/log"}

// visible refuses folders that the node would not see.
func visible(folders ...string) error {
	for _, f := range folders {
		path, err := filepath.Abs(f)
		if err != nil {
			return err
		}
		for _, h := range hidden {
			if path == h || strings.HasPrefix(path, h+"/") {
				return fmt.Errorf("%s is below %s, which the node has one of its own of: use another folder", path, h)
			}
		}
	}
	return nil
}

// startInit starts the first process of the namespaces. It dies with the thread
// that called, and holds the lock as long as anything in there lives.
func startInit(lock *os.File, args []string) (*exec.Cmd, error) {
	cmd := exec.Command("/proc/self/exe", append([]string{roleInit}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // an interrupt is the outermost's business
	}
	return cmd, cmd.Start()
}

// runInit is that first process: it gives the node folders of its own, and reaps
// what is orphaned, until the work is done. It returns the exit code.
func runInit(args []string) int {
	if err := ownFolders(); err != nil {
		fmt.Fprintln(os.Stderr, "node: making folders of its own:", err)
		return 1
	}
	work, err := os.StartProcess("/proc/self/exe", append([]string{"node", roleWork}, args...), &os.ProcAttr{
		Files: []*os.File{nil, os.Stdout, os.Stderr},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return 1
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "node: waiting:", err)
			return 1
		case pid == work.Pid && (status.Exited() || status.Signaled()):
			if status.Exited() {
				return status.ExitStatus()
			}
			return 128 + int(status.Signal())
		}
	}
}

func ownFolders() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, h := range hidden {
		if err := syscall.Mount("tmpfs", h, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mounting %s: %w", h, err)
		}
	}
	return nil
}
