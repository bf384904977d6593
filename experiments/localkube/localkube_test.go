package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPortLeasesDoNotMeet(t *testing.T) {
	var a, b portLease
	defer a.release()
	defer b.release()
	seen := map[int]bool{}
	for range 200 {
		for _, lease := range []*portLease{&a, &b} {
			port, err := lease.take()
			if err != nil {
				t.Fatal(err)
			}
			if seen[port] || port < firstPort || port >= lastPort {
				t.Fatalf("port %d was handed out already, or is out of range", port)
			}
			seen[port] = true
		}
	}
}

func TestLockDir(t *testing.T) {
	t.Run("one cluster at a time, the next starts afresh", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "new")
		unlock, err := lockDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lockDir(dir); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("locking again: %v, want an error", err)
		}
		old := filepath.Join(dir, "etcd")
		if err := os.Mkdir(old, 0o755); err != nil {
			t.Fatal(err)
		}
		unlock()
		unlock, err = lockDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		if _, err := os.Stat(old); !os.IsNotExist(err) {
			t.Errorf("the earlier cluster's data is still there: %v", err)
		}
	})
	t.Run("a directory that isn't a cluster's is left alone", func(t *testing.T) {
		dir := t.TempDir()
		precious := filepath.Join(dir, "logs")
		if err := os.Mkdir(precious, 0o755); err != nil {
			t.Fatal(err)
		}
		if unlock, err := lockDir(dir); err == nil {
			unlock()
			t.Error("it was taken")
		}
		if _, err := os.Stat(precious); err != nil {
			t.Error(err)
		}
	})
}

func TestKwokDocuments(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	for _, name := range []string{"b.yaml", "a.yaml", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := kwokDocuments([]string{filepath.Join(dir, "notes.txt"), dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "notes.txt"), filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, path := range []string{empty, filepath.Join(dir, "missing.yaml")} {
		if _, err := kwokDocuments([]string{path}); err == nil {
			t.Errorf("%s was accepted", path)
		}
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	long := strings.Repeat(strings.Repeat("x", 99)+"\n", 1000) // more than is read
	if err := os.WriteFile(path, []byte(long+"one\ntwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := tail(path, 2); got != "one\ntwo" {
		t.Errorf("tail = %q", got)
	}
	if got := tail(path+".missing", 2); !strings.Contains(got, "no such file") {
		t.Errorf("tail of a missing file = %q", got)
	}
}
