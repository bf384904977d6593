package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlugin: under the name by which kubectl finds plugins the program says what people
// type.
func TestPlugin(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, usage := range map[string]string{"kubectl-mash2": "kubectl mash2 explain [flags]", "mash2": "mash2 explain [flags]"} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(program, link); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), link, "explain", "--help")
		c.Env = append(os.Environ(), envProgram+"=1")
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "\n  "+usage+"\n") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
