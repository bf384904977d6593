// Package report writes what an experiment measured as one self-contained HTML
// page: tables, and figures as inline SVG.
package report

import (
	"fmt"
	"html/template"
	"io"
	"time"
)

// Table has one row per thing compared, all cells already formatted.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
	Note   string
}

// Page is a report.
type Page struct {
	Title string
	// Intro says what was run, with which command, seed and parameters.
	Intro   []string
	Tables  []Table
	Figures []Figure
	// Pairs are small figures shown as a grid under the legend Legend.
	Pairs  []Figure
	Legend []string
	// Transcript is what the operator did, line by line.
	Transcript []string
	Made       time.Time
}

const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}
table{border-collapse:collapse;margin:.5rem 0}
td,th{padding:.25rem .7rem;border-bottom:1px solid #ddd;text-align:right;font-variant-numeric:tabular-nums}
td:first-child,th:first-child{text-align:left}
figure{margin:1rem 0}figcaption,.note{color:#555;font-size:.9rem}
svg{max-width:100%;height:auto}
.wide{overflow-x:auto}.wide table{font-size:.8rem}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:.5rem}
pre{background:#f6f6f6;padding:.8rem;overflow:auto;font-size:.8rem;max-height:30rem}
.key span{display:inline-block;margin-right:1rem}.key i{display:inline-block;width:.8em;height:.8em;border-radius:50%;margin-right:.3em}
</style></head><body>
<h1>{{.Title}}</h1>
{{range .Intro}}<p>{{.}}</p>{{end}}
{{range .Tables}}<h2>{{.Title}}</h2><div class="wide"><table><thead><tr>{{range .Header}}<th>{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>{{end}}</tbody></table></div>{{with .Note}}<p class="note">{{.}}</p>{{end}}{{end}}
<h2>Over time</h2>
{{range .Figures}}<figure>{{.SVG}}{{with .Note}}<figcaption>{{.}}</figcaption>{{end}}</figure>{{end}}
{{if .Pairs}}<h2>Pair plots</h2><p class="key">{{range .Legend}}<span><i style="background:{{.Color}}"></i>{{.Name}}</span>{{end}}</p>
<div class="grid">{{range .Pairs}}<figure>{{.SVG}}</figure>{{end}}</div>{{end}}
{{if .Transcript}}<h2>What mash2 did</h2><pre>{{range .Transcript}}{{.}}
{{end}}</pre>{{end}}
<p class="note">Made {{.Made}}.</p>
</body></html>
`

var page = template.Must(template.New("page").Parse(html))

// Write renders the page. It fails when a figure can't be drawn.
func Write(w io.Writer, p Page) error {
	type drawn struct {
		SVG  template.HTML
		Note string
	}
	type key struct{ Name, Color string }
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
	figures, err := render(p.Figures)
	if err != nil {
		return err
	}
	pairs, err := render(p.Pairs)
	if err != nil {
		return err
	}
	legend := make([]key, len(p.Legend))
	for i, name := range p.Legend {
		c := palette[i%len(palette)]
		legend[i] = key{name, fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B)}
	}
	return page.Execute(w, map[string]any{
		"Title": p.Title, "Intro": p.Intro, "Tables": p.Tables, "Figures": figures, "Pairs": pairs,
		"Legend": legend, "Transcript": p.Transcript, "Made": p.Made.UTC().Format(time.RFC3339),
	})
}
