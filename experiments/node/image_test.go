package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// The manifest names a configuration and a layer by what they are, and the layer
// has the program where the configuration starts it.
func TestWriteImage(t *testing.T) {
	dir := t.TempDir()
	program, image := filepath.Join(dir, "hello"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(program, []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeImage(image, "example.com/hello:1", program); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, data)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatal(manifest, err)
	}
	m := manifest[0]
	if m.Config != digest(files[m.Config])+".json" || m.RepoTags[0] != "example.com/hello:1" {
		t.Errorf("manifest %+v", m)
	}
	var config struct {
		Config struct{ Entrypoint []string }
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(files[m.Config], &config); err != nil {
		t.Fatal(err)
	}
	layer := files[m.Layers[0]]
	if config.Rootfs.DiffIDs[0] != "sha256:"+digest(layer) {
		t.Errorf("the layer is not the one that the configuration names: %v", config.Rootfs)
	}
	if got := unpack(t, layer)[config.Config.Entrypoint[0][1:]]; string(got) != "#!" {
		t.Errorf("the layer has %q at %v", got, config.Config.Entrypoint)
	}
}

func unpack(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
