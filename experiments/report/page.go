// Package report writes what an experiment measured as one self-contained HTML
// page, tables and figures as inline SVG, and the figures as PNG files beside
// it.
package report

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

// Table has one row per thing compared, all cells already formatted.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
	Note   string
}

// Section of a page: text, tables, figures, and small figures as a grid.
type Section struct {
	Title   string
	Text    []string
	Tables  []Table
	Figures []Figure
	// Grid of small figures under the legend Legend, whose names have the
	// colours 0, 1, ….
	Grid   []Figure
	Legend []string
	// Lines are shown as they are, such as a transcript.
	Lines []string
}

// Page is a report.
type Page struct {
	Title string
	// Intro says what was run, with which command, seed and parameters.
	Intro    []string
	Sections []Section
	// Made is left out when it is zero, so that the same results give the same
	// page.
	Made time.Time
}

const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root{color-scheme:light dark;--ink:#222;--soft:#555;--line:#ddd;--ground:#fff;--box:#f6f6f6}
@media (prefers-color-scheme:dark){:root{--ink:#e6e6e6;--soft:#aaa;--line:#444;--ground:#16181b;--box:#22252a}}
body{font:15px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem;color:var(--ink);background:var(--ground)}
h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.2rem}h3{font-size:1.05rem;margin-bottom:.3rem}
table{border-collapse:collapse;margin:.5rem 0}
td,th{padding:.25rem .42rem;border-bottom:1px solid var(--line);text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
th{white-space:normal;vertical-align:bottom}
td:first-child,th:first-child{text-align:left}
figure{margin:1rem 0}figcaption,.note{color:var(--soft);font-size:.9rem}
svg{width:100%;height:auto;background:#fff;border-radius:4px}
.wide{overflow-x:auto}.wide table{font-size:.78rem}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:.5rem}.grid figure{margin:0}
pre{background:var(--box);padding:.8rem;overflow:auto;font-size:.8rem;max-height:30rem}
.key span{display:inline-block;margin-right:1rem}.key i{display:inline-block;width:.8em;height:.8em;border-radius:50%;margin-right:.3em}
</style></head><body>
<h1>{{.Title}}</h1>
{{range .Intro}}<p>{{.}}</p>
{{end}}{{range .Sections}}<h2>{{.Title}}</h2>
{{range .Text}}<p>{{.}}</p>
{{end}}{{range .Tables}}{{with .Title}}<h3>{{.}}</h3>{{end}}<div class="wide"><table><thead><tr>{{range .Header}}<th>{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</tbody></table></div>{{with .Note}}<p class="note">{{.}}</p>{{end}}
{{end}}{{range .Figures}}<figure>{{.SVG}}{{with .Note}}<figcaption>{{.}}</figcaption>{{end}}</figure>
{{end}}{{if .Grid}}<p class="key">{{range .Legend}}<span><i style="background:{{.Color}}"></i>{{.Name}}</span>{{end}}</p>
<div class="grid">{{range .Grid}}<figure>{{.SVG}}</figure>{{end}}</div>
{{end}}{{if .Lines}}<pre>{{range .Lines}}{{.}}
{{end}}</pre>
{{end}}{{end}}{{with .Made}}<p class="note">Made {{.}}.</p>{{end}}
</body></html>
`

var page = template.Must(template.New("page").Parse(html))

type drawn struct {
	SVG  template.HTML
	Note string
}

type key struct{ Name, Color string }

type section struct {
	Section
	Figures, Grid []drawn
	Legend        []key
}

// Write renders the page. It fails when a figure can't be drawn.
func Write(w io.Writer, p Page) error {
	render := func(figures []Figure) ([]drawn, error) {
		out := make([]drawn, 0, len(figures))
		for _, f := range figures {
			svg, err := f.SVG()
			if err != nil {
				return nil, err
			}
			out = append(out, drawn{svg, f.Note})
		}
		return out, nil
	}
	sections := make([]section, len(p.Sections))
	for i, s := range p.Sections {
		var err, err2 error
		sections[i].Section = s
		sections[i].Figures, err = render(s.Figures)
		sections[i].Grid, err2 = render(s.Grid)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		for n, name := range s.Legend {
			c := palette[n%len(palette)]
			sections[i].Legend = append(sections[i].Legend, key{name, fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B)})
		}
	}
	made := ""
	if !p.Made.IsZero() {
		made = p.Made.UTC().Format(time.RFC3339)
	}
	return page.Execute(w, map[string]any{"Title": p.Title, "Intro": p.Intro, "Sections": sections, "Made": made})
}

// WriteFolder writes the page as report.html into a folder, and each of its
// figures as a PNG file named by its title. It returns the page's path.
func WriteFolder(dir string, p Page) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("writing the report: %w", err)
	}
	create := func(name string, write func(io.Writer) error) error {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		if err := errors.Join(write(file), file.Close()); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		return nil
	}
	seen := map[string]int{}
	for _, s := range p.Sections {
		for _, f := range append(append([]Figure(nil), s.Figures...), s.Grid...) {
			name := slug(f.Title)
			if seen[name]++; seen[name] > 1 {
				name = fmt.Sprintf("%s-%d", name, seen[name])
			}
			if err := create(name+".png", f.PNG); err != nil {
				return "", err
			}
		}
	}
	const name = "report.html"
	return filepath.Join(dir, name), create(name, func(w io.Writer) error { return Write(w, p) })
}

// slug is a title as the name of a file.
func slug(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if len(words) == 0 {
		return "figure"
	}
	return strings.Join(words, "-")
}
