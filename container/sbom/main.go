// Command sbom writes what a program is made of as CycloneDX: the modules that
// the linker put in, as the program itself tells, and the C libraries it is
// linked to. The same program gives the same bytes.
package main

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// bom is a bill of materials by CycloneDX 1.6, as far as it is used here.
type bom struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Licenses   []any      `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// purl names a Go module for all the world.
func purl(path, version string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "pkg:golang/" + strings.Join(parts, "/") + "@" + url.QueryEscape(version)
}

func write(w io.Writer, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading %s: %w", program, err)
	}
	b := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Components: []component{}}
	main := component{
		Type: "application", Ref: info.Main.Path, Name: info.Main.Path, Version: info.Main.Version, PURL: purl(info.Main.Path, info.Main.Version),
		Licenses: []any{map[string]any{"license": map[string]string{"id": "Apache-2.0"}}},
	}
	tags := false
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-tags":
			main.Properties = append(main.Properties, property{"go:build:" + s.Key, s.Value})
			tags = tags || s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), "lpsolve")
		}
	}
	b.Metadata.Component = main
	add := func(c component) { b.Components = append(b.Components, c) }
	add(component{Type: "library", Ref: "std", Name: "std", Version: info.GoVersion, PURL: purl("std", strings.TrimPrefix(info.GoVersion, "go"))})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Ref: m.Path + "@" + m.Version, Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version)}
		if m.Sum != "" {
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		add(c)
	}
	libraries, err := linked(program)
	if err != nil {
		return err
	}
	if tags && !slices.ContainsFunc(libraries, func(l string) bool { return strings.HasPrefix(l, "liblpsolve55") }) {
		libraries = append(libraries, "liblpsolve55.a") // linked statically
	}
	for _, l := range libraries {
		c := component{Type: "library", Ref: l, Name: l}
		if strings.HasPrefix(l, "liblpsolve55") {
			c.Licenses = []any{map[string]any{"license": map[string]string{"id": "LGPL-2.1-or-later"}}}
		}
		add(c)
	}
	slices.SortFunc(b.Components, func(x, y component) int { return strings.Compare(x.Ref, y.Ref) })
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(b)
}

// linked are the shared libraries that a program asks for by name; none of a
// static one, or one that is not for Linux.
func linked(program string) (names []string, err error) {
	f, err := elf.Open(program)
	if err != nil {
		var format *elf.FormatError
		if errors.As(err, &format) {
			return nil, nil
		}
		return nil, err
	}
	defer f.Close()
	names, err = f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("reading the libraries of %s: %w", program, err)
	}
	slices.Sort(names)
	return names, nil
}
