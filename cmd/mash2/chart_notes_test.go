package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// notesOf are what helm prints after an installation with values in the namespace ops.
func notesOf(t *testing.T, values string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "mash2")
	if err := os.CopyFS(folder, os.DirFS(chartFolder)); err != nil {
		t.Fatal(err)
	}
	notes := filepath.Join(folder, "templates", "NOTES.txt")
	text, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	// helm template leaves the notes out, unless they are in an object.
	object := "{{ define \"notes\" }}" + string(text) + "{{ end }}kind: Notes\ntext: |\n{{ include \"notes\" . | indent 2 }}\n"
	if err := os.WriteFile(filepath.Join(folder, "templates", "notes.yaml"), []byte(object), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := templatedOf(t, folder, values, "--namespace", "ops", "--show-only", "templates/notes.yaml")
	if err != nil {
		t.Fatal(out)
	}
	return out
}

// What the notes tell to type is for the namespace of the release.
func TestChartNotesNameTheNamespace(t *testing.T) {
	notes := notesOf(t, "page.enabled=true")
	for _, command := range []string{"mash2 pause", "mash2 ui"} {
		if n := strings.Count(notes, command); n == 0 || n != strings.Count(notes, command+" --namespace ops") {
			t.Errorf("%s without the namespace in\n%s", command, notes)
		}
	}
}

// A policy that is set at the installation comes before a schedule and signals, which the
// notes say where both are there.
func TestChartNotesTellOfASchedule(t *testing.T) {
	for values, want := range map[string]bool{
		"policy.policies.schedule[0].policy=PERFORMANCE":                 true,
		"policy.policies.signals[0].name=sale":                           true,
		"policy.policies.schedule[0].policy=PERFORMANCE,policy.active=":  false,
		"policy.policies.default=PERFORMANCE":                            false,
		"policy.policies.signals[0].name=sale,policy.create=false":       false,
		"policy.policies.signals[0].name=sale,policy.active=PERFORMANCE": true,
		"policy.policies=null":                                           false,
	} {
		notes := notesOf(t, values)
		if got := strings.Contains(notes, "have no effect"); got != want {
			t.Errorf("%s: told %v, want %v:\n%s", values, got, want, notes)
		}
	}
}
