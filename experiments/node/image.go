package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
)

// Images, by the names that the container runtime knows them by. They are made
// here of one static program each; no registry is asked.
const (
	pauseImage  = "mash2.io/pause:1"
	targetImage = "mash2.io/k6-target:1"
)

// writeImage writes an image of one program as docker save does: a layer, a
// configuration, and a manifest that names them by their digests.
func writeImage(to, name, program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	inside := path.Join("/", filepath.Base(program))
	layer, err := archive(file{name: inside[1:], mode: 0o755, data: data})
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{inside}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": digest(config) + ".json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	image, err := archive(
		file{name: digest(config) + ".json", mode: 0o644, data: config},
		file{name: "layer.tar", mode: 0o644, data: layer},
		file{name: "manifest.json", mode: 0o644, data: manifest},
	)
	if err != nil {
		return err
	}
	return os.WriteFile(to, image, 0o644)
}

type file struct {
	name string
	mode int64
	data []byte
}

func archive(files ...file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data))}); err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, bytes.NewReader(f.data)); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
