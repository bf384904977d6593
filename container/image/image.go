package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// cycloneDX is the media type of a bill of materials, and so the type of its artifact.
const cycloneDX types.MediaType = "application/vnd.cyclonedx+json"

// user of the process: no name, no rights.
const user = "65532:65532"

// labels say what is in an image and since when.
type labels struct {
	version, revision string
	created           time.Time
}

func (l labels) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.created":  l.created.Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.revision": l.revision,
		"org.opencontainers.image.source":   "https://github.com/mash2-io/mash2",
		"org.opencontainers.image.title":    "mash2",
		"org.opencontainers.image.version":  l.version,
	}
}

// program is a static program and the platform that it is for.
type program struct {
	platform v1.Platform
	path     string
}

func parseProgram(text string) (program, error) {
	platform, path, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return program{}, fmt.Errorf("%q is not of the form linux/amd64=PATH", text)
	}
	p, err := v1.ParsePlatform(platform)
	if err != nil {
		return program{}, err
	}
	if p.OS == "" || p.Architecture == "" {
		return program{}, fmt.Errorf("%q names no platform such as linux/amd64", text)
	}
	return program{*p, path}, nil
}

// write makes the layout and returns the digest of the index over all platforms, by which
// the image is pulled.
func write(out string, l labels, of []program) (v1.Hash, error) {
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		return v1.Hash{}, fmt.Errorf("%s is there already", out)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var boms []v1.Image
	for _, p := range of {
		img, err := build(l, p)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("%s: %w", p.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &p.platform}})
		bom, err := materials(l, p, img)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("%s: %w", p.platform, err)
		}
		boms = append(boms, bom)
	}
	index = mutate.Annotations(index, l.annotations()).(v1.ImageIndex)
	to, err := layout.Write(out, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	name := map[string]string{"org.opencontainers.image.ref.name": l.version}
	if err := to.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return v1.Hash{}, err
	}
	for _, bom := range boms {
		if err := to.AppendImage(bom); err != nil {
			return v1.Hash{}, err
		}
	}
	return index.Digest()
}

// build makes the image of one platform.
func build(l labels, p program) (v1.Image, error) {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	files, err := archive(l.created, text)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: l.created}
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: p.platform.Architecture, Variant: p.platform.Variant, OS: p.platform.OS, Created: created,
		Config: v1.Config{User: user, Entrypoint: []string{"/mash2"}, Labels: l.annotations()},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, History: v1.History{Created: created, CreatedBy: "container/image"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(img, l.annotations()).(v1.Image), nil
}

// archive is everything that an image has: the program, the certificates of public
// authorities, and a folder for temporary files.
func archive(at time.Time, text []byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name string
		mode int64
		text []byte
	}{
		{"etc/", 0o755, nil},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{"mash2", 0o755, text},
		{"tmp/", 0o1777, nil},
	} {
		kind := byte(tar.TypeReg)
		if strings.HasSuffix(f.name, "/") {
			kind = tar.TypeDir
		}
		h := &tar.Header{Typeflag: kind, Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: at, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// authorities are Mozilla's root certificates as the Go project publishes them, at the
// version in go.mod. Those that are trusted under a condition only are left out: a file
// can't say the condition.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}

// materials is the bill of materials of a program as an artifact that refers to its image.
func materials(l labels, p program, img v1.Image) (v1.Image, error) {
	text, err := os.ReadFile(p.path + ".cdx.json")
	if err != nil {
		return nil, fmt.Errorf("the bill of materials: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), cycloneDX)
	base, err = mutate.AppendLayers(base, static.NewLayer(text, cycloneDX))
	if err != nil {
		return nil, err
	}
	subject, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	// The subject last: annotations added to it would lose it.
	named := mutate.Annotations(base, map[string]string{"org.opencontainers.image.created": l.created.Format(time.RFC3339)})
	return mutate.Subject(named, *subject).(v1.Image), nil
}
