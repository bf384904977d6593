// Command krew checks what make krew made as krew, kubectl's plugin manager, would: the
// manifest, each archive and its checksum, and the plugin for this machine, which it runs.
// It reads no network and installs nothing.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: krew FOLDER")
		os.Exit(2)
	}
	said, err := check(os.Args[1], runPlugin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
	fmt.Println(said)
}

// manifest is a plugin's, as far as krew needs it:
// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Version, Homepage, ShortDescription, Description, Caveats string
		Platforms                                                 []platform
	}
}

type platform struct {
	Selector struct {
		MatchLabels struct{ OS, Arch string }
	}
	URI, SHA256, Bin string
}

// longestShort is how long a short description may be in krew's index, in bytes.
const longestShort = 50

// semantic is a version that krew takes.
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// check reads a folder with a manifest and archives, and lets run say what the plugin for
// this machine prints with some arguments. It returns what was found in one line.
func check(folder string, run func(program string, args ...string) (string, error)) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("%s must have one manifest, has %d", folder, len(files))
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return "", err
	}
	var m manifest
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		return "", fmt.Errorf("%s: %w", files[0], err)
	}
	if err := m.validate(strings.TrimSuffix(filepath.Base(files[0]), ".yaml")); err != nil {
		return "", fmt.Errorf("%s: %w", files[0], err)
	}
	archives, err := filepath.Glob(filepath.Join(folder, "*.tar.gz"))
	if err != nil {
		return "", err
	}
	if len(archives) != len(m.Spec.Platforms) {
		return "", fmt.Errorf("%s has %d archives, its manifest %d platforms", folder, len(archives), len(m.Spec.Platforms))
	}
	ran := "none is for this machine"
	for i, p := range m.Spec.Platforms {
		program, err := p.program(folder, m.Spec.Version)
		if err != nil {
			return "", fmt.Errorf("spec.platforms[%d]: %w", i, err)
		}
		if l := p.Selector.MatchLabels; l.OS != runtime.GOOS || l.Arch != runtime.GOARCH {
			continue
		}
		if err := try(program, p.Bin, m.Spec.Version, run); err != nil {
			return "", fmt.Errorf("spec.platforms[%d]: %w", i, err)
		}
		ran = "that for this machine runs"
	}
	return fmt.Sprintf("%s %s: %d archives as the manifest has them, %s", m.Metadata.Name, m.Spec.Version, len(archives), ran), nil
}

// validate reports what krew would refuse.
func (m manifest) validate(name string) error {
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	s := m.Spec
	must(m.APIVersion == "krew.googlecontainertools.github.com/v1alpha2", "apiVersion: is %q", m.APIVersion)
	must(m.Kind == "Plugin", "kind: is %q", m.Kind)
	must(m.Metadata.Name == name, "metadata.name: must be that of the file, is %q", m.Metadata.Name)
	must(semantic.MatchString(s.Version), "spec.version: must be a semantic version such as v0.1.0, is %q", s.Version)
	must(s.ShortDescription != "" && len(s.ShortDescription) <= longestShort, "spec.shortDescription: must have 1 to %d bytes, has %d", longestShort, len(s.ShortDescription))
	must(s.Description != "", "spec.description: is empty")
	must(strings.HasPrefix(s.Homepage, "https://"), "spec.homepage: is %q", s.Homepage)
	must(len(s.Platforms) > 0, "spec.platforms: is empty")
	return errors.Join(errs...)
}

// program returns the program in a platform's archive, after a look at all of it.
func (p platform) program(folder, version string) ([]byte, error) {
	name := path.Base(p.URI)
	packed, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return nil, fmt.Errorf("uri: %w", err)
	}
	if !strings.Contains(p.URI, "/"+version+"/") {
		return nil, fmt.Errorf("uri: %s is not of version %s", p.URI, version)
	}
	if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil, fmt.Errorf("sha256: is %s, that of %s is %x", p.SHA256, name, sum)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var names []string
	var program []byte
	for r := tar.NewReader(unpacked); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		names = append(names, h.Name)
		if h.Name != p.Bin {
			continue
		}
		if h.Mode&0o111 == 0 {
			return nil, fmt.Errorf("%s: %s may not be executed", name, h.Name)
		}
		if program, err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"LICENSE", p.Bin}) {
		return nil, fmt.Errorf("%s: must have LICENSE and %s, has %v", name, p.Bin, names)
	}
	return program, p.built(program)
}

// built reports whether a program is for the platform, by what the linker put in.
func (p platform) built(program []byte) error {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("bin: %w", err)
	}
	for _, s := range info.Settings {
		want, ok := map[string]string{"GOOS": p.Selector.MatchLabels.OS, "GOARCH": p.Selector.MatchLabels.Arch}[s.Key]
		if ok && s.Value != want {
			return fmt.Errorf("bin: is built with %s=%s for a platform of %s", s.Key, s.Value, want)
		}
	}
	return nil
}

// try runs a plugin: it must say how it is used by kubectl, and its version.
func try(program []byte, bin, version string, run func(program string, args ...string) (string, error)) error {
	folder, err := os.MkdirTemp("", "krew")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, bin)
	if err := os.WriteFile(file, program, 0o755); err != nil { //nolint:gosec // it has to be executed
		return err
	}
	for arg, want := range map[string]string{"--help": "kubectl mash2 ", "version": version} {
		said, err := run(file, arg)
		if err != nil {
			return fmt.Errorf("%s %s: %w: %s", bin, arg, err, said)
		}
		if !strings.Contains(said, want) {
			return fmt.Errorf("%s %s must say %q, says: %s", bin, arg, want, said)
		}
	}
	return nil
}

func runPlugin(program string, args ...string) (string, error) {
	out, err := exec.Command(program, args...).CombinedOutput()
	return string(out), err
}
