package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// made writes a folder as make krew does: a manifest from the template, and one archive for
// this machine with this test's own program.
func made(t *testing.T, arch string, names []string, mode int64) (folder, manifest string) {
	t.Helper()
	folder = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for _, name := range names {
		text := []byte("x")
		if name == "kubectl-mash2" {
			text = program
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	archive := fmt.Sprintf("kubectl-mash2-%s-%s.tar.gz", runtime.GOOS, arch)
	if err := os.WriteFile(filepath.Join(folder, archive), packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	template, err := os.ReadFile("mash2.yaml.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	platform := fmt.Sprintf("    - selector: {matchLabels: {os: %s, arch: %s}}\n      uri: https://github.com/mash2-io/mash2/releases/download/v0.1.0/%s\n      sha256: %x\n      bin: kubectl-mash2\n",
		runtime.GOOS, arch, archive, sha256.Sum256(packed.Bytes()))
	text := strings.Replace(string(template), "PLATFORMS\n", platform, 1)
	return folder, strings.Replace(text, "version: VERSION", "version: v0.1.0", 1)
}

func TestCheck(t *testing.T) {
	both := []string{"LICENSE", "kubectl-mash2"}
	for name, c := range map[string]struct {
		arch     string
		names    []string
		mode     int64
		old, new string // of the manifest
		said     string
		want     string // of the error; none if empty
	}{
		"as it is made":                  {arch: runtime.GOARCH, names: both, mode: 0o755},
		"another checksum":               {arch: runtime.GOARCH, names: both, mode: 0o755, old: "sha256: ", new: "sha256: 0", want: "spec.platforms[0]: sha256: is 0"},
		"a version that krew refuses":    {arch: runtime.GOARCH, names: both, mode: 0o755, old: "version: v0.1.0", new: "version: c352f43", want: `spec.version: must be a semantic version such as v0.1.0, is "c352f43"`},
		"archives of another version":    {arch: runtime.GOARCH, names: both, mode: 0o755, old: "version: v0.1.0", new: "version: v0.2.0", want: "is not of version v0.2.0"},
		"a field that is no field":       {arch: runtime.GOARCH, names: both, mode: 0o755, old: "  homepage:", new: "  home: x\n  homepage:", want: "home"},
		"a long short description":       {arch: runtime.GOARCH, names: both, mode: 0o755, old: "shortDescription: ", new: "shortDescription: a long ", want: "spec.shortDescription: must have 1 to 50 bytes"},
		"no licence in the archive":      {arch: runtime.GOARCH, names: both[1:], mode: 0o755, want: "must have LICENSE and kubectl-mash2, has [kubectl-mash2]"},
		"a program that can't be run":    {arch: runtime.GOARCH, names: both, mode: 0o644, want: "kubectl-mash2 may not be executed"},
		"a program of another platform":  {arch: "riscv64", names: both, mode: 0o755, want: "bin: is built with GOARCH=" + runtime.GOARCH + " for a platform of riscv64"},
		"a program of another version":   {arch: runtime.GOARCH, names: both, mode: 0o755, said: "kubectl mash2 v0.0.9", want: `version must say "v0.1.0"`},
		"a name that is not the file's":  {arch: runtime.GOARCH, names: both, mode: 0o755, old: "name: mash2", new: "name: mash3", want: `metadata.name: must be that of the file, is "mash3"`},
		"an archive that is not there":   {arch: runtime.GOARCH, names: both, mode: 0o755, old: "/kubectl-mash2-", new: "/kubectl-mash3-", want: "spec.platforms[0]: uri: "},
		"a platform without its archive": {arch: runtime.GOARCH, names: both, mode: 0o755, old: "  platforms:\n", new: "  platforms:\n    - {uri: x}\n", want: "has 1 archives, its manifest 2 platforms"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, manifest := made(t, c.arch, c.names, c.mode)
			if c.old != "" && !strings.Contains(manifest, c.old) {
				t.Fatalf("the manifest has no %q", c.old)
			}
			manifest = strings.Replace(manifest, c.old, c.new, 1)
			if err := os.WriteFile(filepath.Join(folder, "mash2.yaml"), []byte(manifest), 0o600); err != nil {
				t.Fatal(err)
			}
			said := c.said
			if said == "" {
				said = "kubectl mash2 v0.1.0"
			}
			got, err := check(folder, func(string, ...string) (string, error) { return said, nil })
			switch {
			case c.want == "" && (err != nil || !strings.Contains(got, "that for this machine runs")):
				t.Errorf("%q, %v", got, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
