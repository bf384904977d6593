package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// program prints what each of its functions makes of its arguments.
const program = `package main

import "fmt"

func clamp(x, low, high int, loose bool) (n int, changed bool) {
	n = x
	if x < low && !loose {
		n = low
	}
	if loose {
		return min(n, high), false
	}
	switch {
	case n > high || n == 7:
		n = high
	}
	return n, n != x
}

func main() {
	for _, x := range []int{-3, 0, 5, 7, 10, 20} {
		for _, loose := range []bool{false, true} {
			n, changed := clamp(x, 0, 10, loose)
			fmt.Print(n, changed, " ")
		}
	}
}
`

// Asleep, mutants change nothing; awake, each of this program changes what it
// prints, but for those that really make no difference.
func TestInstrument(t *testing.T) {
	changed, mutants, err := instrument("main.go", []byte(program), 1, regexp.MustCompile("^clamp$"), regexp.MustCompile("^$"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"main.go": changed, "helper.go": helper("main"), "go.mod": []byte("module x\n\ngo 1.26\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", "x", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, changed)
	}
	output := func(id int) string {
		cmd := exec.Command(filepath.Join(dir, "x"))
		cmd.Env = append(os.Environ(), "MASH2_MUTANT="+strconv.Itoa(id))
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	asleep := output(0)
	if want := "0 true -3 false 0 false 0 false 5 false 5 false 10 true 7 false 10 false 10 false 10 true 10 false "; asleep != want {
		t.Errorf("asleep it prints\n%s, want\n%s", asleep, want)
	}
	var idle []string
	for _, m := range mutants {
		if output(m.ID) == asleep {
			idle = append(idle, strings.TrimPrefix(m.name(), "main.go: clamp: "))
		}
	}
	want := []string{
		"x < low → <=",  // x is low already
		"n > high → >=", // n is high already
	}
	if diff := cmp.Diff(want, idle); diff != "" {
		t.Errorf("mutants that change nothing (-want +got):\n%s", diff)
	}
	if len(mutants) < 15 {
		t.Errorf("only %d mutants", len(mutants))
	}
}

// Prices are changed where they are read, and nowhere else.
func TestInstrumentPrices(t *testing.T) {
	source := `package main

type machine struct{ price, size float64 }

func cost(m machine) float64 {
	m.price = m.price * m.size
	p := &m.price
	return *p + m.price
}
`
	changed, mutants, err := instrument("cost.go", []byte(source), 1, regexp.MustCompile("^cost$"), regexp.MustCompile(`^m\.price$`))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range mutants {
		names = append(names, strings.TrimPrefix(m.name(), "cost.go: cost: "))
	}
	want := []string{
		"without m.price = m.price * m.size",
		"m.price → 0.5 × m.price", "m.price → 1.5 × m.price", "m.price → 0.5 × m.price (2)", "m.price → 1.5 × m.price (2)",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("mutants (-want +got):\n%s", diff)
	}
	if text := string(changed); !strings.Contains(text, "{ m.price = mutantTimes(2, 0.5, mutantTimes(3, 1.5, m.price)) * m.size }") || !strings.Contains(text, "p := &m.price\n") {
		t.Errorf("changed to\n%s", text)
	}
}

// A list has what a report printed.
func TestIn(t *testing.T) {
	list := []byte("guard: 2 of 4 changes noticed\n  a.go: F: x < y → <= (line 3)\n  a.go: F: x < y → >=\n")
	for change, want := range map[string]bool{"x < y → <=": true, "x < y → >=": true, "x < y": false, "x < y → <= (2)": false} {
		if got := (mutant{File: "a.go", Function: "F", Change: change}).in(list); got != want {
			t.Errorf("%s: %v", change, got)
		}
	}
}

func TestReadEquivalent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\n\na.go: F: x → y  # both are the same\n")
	got, err := readEquivalent(path)
	if err != nil || !got["a.go: F: x → y"] || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	write("a.go: F: x → y\n")
	if _, err := readEquivalent(path); err == nil || !strings.Contains(err.Error(), ":1: no reason") {
		t.Errorf("without a reason: %v", err)
	}
}

// Each target's parts are there: code that moves takes its target along.
func TestTargetsAreThere(t *testing.T) {
	t.Chdir("../..")
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		if !regexp.MustCompile(`(?m)^(#|MUTATE).*\b` + target.Name + `\b`).Match(makefile) {
			t.Errorf("%s: the Makefile does not tell of it", target.Name)
		}
		for _, p := range target.Parts {
			files, functions, prices, err := p.selected()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, name := range files {
				source, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				_, mutants, err := instrument(name, source, 1, functions, prices)
				if err != nil {
					t.Fatal(err)
				}
				n += len(mutants)
			}
			if n == 0 {
				t.Errorf("%s: nothing of %s is chosen by files %q and functions %q", target.Name, p.Dir, p.Files, p.Functions)
			}
		}
	}
}
