package mash2

import (
	"flag"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of docs/explanation/architecture.md anew")

// top is the folder at the root that a room is in.
func top(room string) string {
	first, _, _ := strings.Cut(room, "/")
	return strings.TrimSuffix(first, "/...")
}

// drawn are the rooms as a graph of mermaid: an arrow is a row of the table of rooms.
// api is left out, which everybody knows, and what tests are made of.
func drawn() string {
	names := map[string]string{".": "loop"}
	edges := map[string]bool{}
	for room, row := range rooms {
		from := top(room)
		if slices.Contains([]string{"api", "experiments", "container"}, from) || strings.HasSuffix(room, "test") {
			continue
		}
		for _, to := range row.ours {
			to = top(to)
			if to != from && !slices.Contains([]string{"api", "experiments", "..."}, to) {
				edges[fmt.Sprintf("  %s --> %s\n", name(names, from), name(names, to))] = true
			}
		}
	}
	return "```mermaid\nflowchart TD\n" + strings.Join(slices.Sorted(maps.Keys(edges)), "") + "```\n"
}

func name(names map[string]string, room string) string {
	if n, ok := names[room]; ok {
		return n
	}
	return room
}

// listed are the product's rooms, each with the first sentence of its package doc and the
// rooms that it may import.
func listed(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| room | what it is | may import |\n|---|---|---|\n")
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		if strings.HasSuffix(room, "/...") {
			continue
		}
		fset := token.NewFileSet()
		paths, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", room, len(paths), err)
		}
		synopsis := ""
		for _, path := range paths {
			file, err := parser.ParseFile(fset, path, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if text := file.Doc.Text(); text != "" && !strings.HasSuffix(path, "_test.go") {
				synopsis = new(doc.Package).Synopsis(text)
			}
		}
		// A synopsis ends at the first full stop, that of an abbreviation too.
		synopsis = regexp.MustCompile(` \([^()]*(eq|et al)\.$`).ReplaceAllString(synopsis, ".")
		if synopsis == "" {
			t.Errorf("%s has no package comment", room)
		}
		ours := slices.DeleteFunc(slices.Clone(rooms[room].ours), func(p string) bool { return strings.HasPrefix(p, "experiments/") })
		if len(ours) < len(rooms[room].ours) {
			ours = append(ours, "experiments")
		}
		slices.Sort(ours)
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", room, strings.ReplaceAll(synopsis, "|", "\\|"), strings.Join(ours, ", "))
	}
	return b.String()
}

// TestArchitecture: the picture and the table of docs/explanation/architecture.md are
// what the table of rooms says.
func TestArchitecture(t *testing.T) {
	const page = "docs/explanation/architecture.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for part, content := range map[string]string{"picture": drawn(), "rooms": listed(t)} {
		marks := regexp.MustCompile(`(?s)(<!-- generated: ` + part + ` -->\n).*?(<!-- end -->)`)
		if !marks.MatchString(want) {
			t.Fatalf("%s:1: there is no place for %s", page, part)
		}
		want = marks.ReplaceAllString(want, "${1}"+strings.ReplaceAll(content, "$", "$$")+"${2}")
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s:1: not what the table of rooms says: run make reference", page)
	}
}
