package main

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// The test's own program says of itself what it is made of; the bill of
// materials has all of it, once, and is the same each time.
func TestWrite(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := write(w, self); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("not the same twice")
	}
	var b bom
	if err := json.Unmarshal(first.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("no build info")
	}
	var refs []string
	for _, c := range b.Components {
		refs = append(refs, c.Ref)
		if strings.Contains(c.Ref, "@") && !strings.HasPrefix(c.PURL, "pkg:golang/") {
			t.Errorf("%s has the purl %q", c.Ref, c.PURL)
		}
	}
	if len(slices.Compact(slices.Clone(refs))) != len(refs) || !slices.IsSorted(refs) {
		t.Errorf("not sorted, or something twice: %v", refs)
	}
	for _, m := range info.Deps {
		if !slices.Contains(refs, m.Path+"@"+m.Version) {
			t.Errorf("%s is missing", m.Path)
		}
	}
	if !slices.Contains(refs, "std") {
		t.Error("the standard library is missing")
	}
}

func TestPURL(t *testing.T) {
	if got, want := purl("github.com/a/b c", "v1.0.0+incompatible"), "pkg:golang/github.com/a/b%20c@v1.0.0%2Bincompatible"; got != want {
		t.Errorf("purl = %s, want %s", got, want)
	}
}

func TestWhatIsNoProgram(t *testing.T) {
	if err := write(&bytes.Buffer{}, "main.go"); err == nil || !strings.Contains(err.Error(), "main.go") {
		t.Errorf("error = %v", err)
	}
}
