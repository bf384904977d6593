package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// BinaryEnv names the environment variable with the path of a localkube
// program to use instead of building one.
const BinaryEnv = "MASH2_LOCALKUBE"

// modulePath is the main module's; its go.mod marks the repository's root.
const modulePath = "github.com/mash2-io/mash2"

// Binary returns the path of an up-to-date localkube program. It is the value
// of [BinaryEnv] if that is set; else the program is built from
// experiments/localkube into cacheDir (default: .cache/bin in the repository)
// unless the one there was built from the same sources. Processes that want
// it at the same time wait for one of them to build it. A cold build takes
// minutes; progress, if not nil, gets a line now and then.
func Binary(ctx context.Context, cacheDir string, progress io.Writer) (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", BinaryEnv, err)
		}
		return filepath.Abs(path)
	}
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	source := filepath.Join(root, "experiments", "localkube")
	if cacheDir == "" {
		cacheDir = filepath.Join(root, ".cache", "bin")
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return "", err
	}
	if progress == nil {
		progress = io.Discard
	}
	binary, err := filepath.Abs(filepath.Join(cacheDir, "localkube"))
	if err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, binary+".lock", progress)
	if err != nil {
		return "", err
	}
	defer unlock()

	want, err := sourceHash(source)
	if err != nil {
		return "", fmt.Errorf("hashing the sources of localkube: %w", err)
	}
	if have, err := os.ReadFile(binary + ".hash"); err == nil && string(have) == want {
		if _, err := os.Stat(binary); err == nil {
			return binary, nil
		}
	}
	if err := build(ctx, source, binary, progress); err != nil {
		return "", fmt.Errorf("building localkube: %w", err)
	}
	return binary, os.WriteFile(binary+".hash", []byte(want), 0o644)
}

// repositoryRoot looks for the main module's go.mod upwards from the working
// directory, from the running program and from this source file.
func repositoryRoot() (string, error) {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, dir := range starts {
		for {
			data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err == nil && slices.Contains(strings.Fields(string(data)), modulePath) {
				return dir, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", fmt.Errorf("the repository of %s is neither around the working directory nor around the program: set %s", modulePath, BinaryEnv)
}

// sourceHash identifies what the program is built from: the module's files
// and the compiler.
func sourceHash(dir string) (string, error) {
	sum := sha256.New()
	writeLine(sum, "%s %s %s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		writeLine(sum, "%s %d", name, len(data))
		sum.Write(data)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\S*)$`)

// build builds the nested module in dir. The program appears under its name
// only when it is complete.
func build(ctx context.Context, dir, binary string, progress io.Writer) error {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	version := kubernetesVersion.FindStringSubmatch(string(mod))
	if version == nil {
		return errors.New("go.mod requires no k8s.io/kubernetes")
	}
	ldflags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		ldflags = append(ldflags,
			"-X", pkg+".gitVersion="+version[1],
			"-X", pkg+".gitMajor="+version[2],
			"-X", pkg+".gitMinor="+version[3])
	}
	next := binary + ".new"
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", strings.Join(ldflags, " "), "-o", next, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	// An interrupted build must not leave compilers running.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output

	started := time.Now()
	writeLine(progress, "building localkube (Kubernetes %s); the first time takes several minutes", version[1])
	stop := every(15*time.Second, func() {
		writeLine(progress, "building localkube: %v", time.Since(started).Round(time.Second))
	})
	err = cmd.Run()
	stop()
	if err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", dir, err, output.String())
	}
	writeLine(progress, "built localkube in %v", time.Since(started).Round(time.Second))
	return os.Rename(next, binary)
}

// writeLine writes to a hash, which never fails, or to a progress writer, whose
// failures don't concern the build.
func writeLine(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format+"\n", args...)
}

// every calls f periodically until stop, which waits for the last call.
func every(period time.Duration, f func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				f()
			}
		}
	}()
	return func() { close(quit); <-done }
}

// lockFile takes an exclusive lock that the kernel releases when the process
// ends.
func lockFile(ctx context.Context, path string, progress io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for waiting := false; ; waiting = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !waiting {
			writeLine(progress, "waiting for another process that builds localkube")
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
