package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// made runs the command over two programs that stand for mash2's, and returns the layout
// and what was printed.
func made(t *testing.T, text string, more ...string) (string, string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"--out", filepath.Join(dir, "layout"), "--version", "v1.2.3", "--revision", "abc", "--epoch", "1700000000"}
	for _, arch := range []string{"amd64", "arm64"} {
		path := filepath.Join(dir, arch)
		for name, content := range map[string]string{path: text + arch, path + ".cdx.json": `{"bomFormat":"CycloneDX"}`} {
			if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, "--program", "linux/"+arch+"="+path)
	}
	var out bytes.Buffer
	if err := run(append(args, more...), &out); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "layout"), strings.TrimSpace(out.String())
}

// bytesOf is every file of a folder.
func bytesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReproducible: the same programs give the same bytes wherever they are, and others
// give others.
func TestReproducible(t *testing.T) {
	one, digest := made(t, "program")
	two, again := made(t, "program")
	a, b := bytesOf(t, one), bytesOf(t, two)
	if digest != again || len(a) != len(b) {
		t.Errorf("%s with %d files, then %s with %d", digest, len(a), again, len(b))
	}
	for name, text := range a {
		if b[name] != text {
			t.Errorf("%s differs", name)
		}
	}
	if _, other := made(t, "another"); other == digest {
		t.Error("another program has the same digest")
	}
	if _, other := made(t, "program", "--epoch", "1700000001"); other == digest {
		t.Error("another time has the same digest")
	}
}

// TestLayout: what is written is a valid image of each platform, with nothing in it but
// what it needs, and a bill of materials that refers to it.
func TestLayout(t *testing.T) {
	dir, digest := made(t, "program")
	to, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := to.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	all, err := root.IndexManifest()
	if err != nil || len(all.Manifests) != 3 || all.Manifests[0].Digest.String() != digest {
		t.Fatalf("the layout has %+v, %v; want the index %s and two bills of materials", all, err, digest)
	}
	index, err := root.ImageIndex(all.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index is not valid: %v", err)
	}
	images, err := index.IndexManifest()
	if err != nil || len(images.Manifests) != 2 {
		t.Fatalf("%+v, %v", images, err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		if p := images.Manifests[i].Platform; p == nil || p.String() != "linux/"+arch {
			t.Errorf("platform %d is %v", i, p)
		}
		img, err := index.Image(images.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil || config.Config.User != user || config.Architecture != arch || config.OS != "linux" {
			t.Errorf("config %+v, %v", config, err)
		}
		var names []string
		for r := tar.NewReader(mutate.Extract(img)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			switch names = append(names, h.Name); h.Name {
			case "mash2":
				if string(text) != "program"+arch || h.Mode != 0o755 {
					t.Errorf("the program is %q, mode %o", text, h.Mode)
				}
			case "etc/ssl/certs/ca-certificates.crt":
				if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(text) {
					t.Error("the certificates can't be read")
				}
				if n := bytes.Count(text, []byte("BEGIN CERTIFICATE")); n < 100 {
					t.Errorf("only %d authorities", n)
				}
			}
		}
		if got := strings.Join(names, " "); got != "etc etc/ssl etc/ssl/certs etc/ssl/certs/ca-certificates.crt mash2 tmp" {
			t.Errorf("files: %s", got)
		}
		bom, err := root.Image(all.Manifests[1+i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := bom.RawManifest()
		if err != nil {
			t.Fatal(err)
		}
		var refers struct {
			Config  struct{ MediaType string }
			Subject struct{ Digest string }
		}
		if err := json.Unmarshal(raw, &refers); err != nil || refers.Subject.Digest != images.Manifests[i].Digest.String() || refers.Config.MediaType != string(cycloneDX) {
			t.Errorf("the bill of materials is %s, %v", raw, err)
		}
	}
}

func TestBadUsage(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no program":         {[]string{"--out", filepath.Join(dir, "a")}, "usage"},
		"no path":            {[]string{"--out", filepath.Join(dir, "a"), "--program", "linux/amd64"}, "linux/amd64=PATH"},
		"no such program":    {[]string{"--out", filepath.Join(dir, "a"), "--program", "linux/amd64=" + filepath.Join(dir, "none")}, "no such file"},
		"a layout was there": {[]string{"--out", dir, "--program", "linux/amd64=x"}, "is there already"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
