package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"
	"pgregory.net/rapid"
)

// figure has all that a figure can have.
func figure() Figure {
	return Figure{
		Title: "Load <b> & \"more\"", XLabel: "time, min", YLabel: "1/s", Note: "a <note>",
		Series: []Series{
			{Name: "mash2 <x>", X: []float64{0, 1, 2, 3}, Y: []float64{1, math.NaN(), 3, math.Inf(1)}},
			{Name: "simulated", X: []float64{0, 3}, Y: []float64{2, 2}, Color: 1, Dash: 1},
			{Name: "points", X: []float64{1, 1.01}, Y: []float64{1, 1}, Color: 2, Labels: []string{"a", "b"}, XHalf: []float64{0.5, 0.1}, YHalf: []float64{0, 0.3}},
		},
		Marks: []Mark{{X: 2.9, Name: "PERFORMANCE"}},
	}
}

func somePage() Page {
	scatter := figure()
	scatter.Scatter, scatter.Small, scatter.Marks = true, true, nil
	return Page{
		Title: "a <title>", Intro: []string{"made by x & y <script>alert(1)</script>"},
		Sections: []Section{
			{Title: "Results", Text: []string{"text <i>"}, Tables: []Table{{Title: "T", Header: []string{"a<b"}, Rows: [][]string{{"<td>"}}, Note: "n&"}}, Figures: []Figure{figure(), figure()}},
			{Title: "Pairs", Grid: []Figure{scatter}, Legend: []string{"mash2 <x>"}},
			{Title: "Did", Lines: []string{"1s scale <web>"}},
		},
	}
}

// A page is well formed, complete in itself, and what it was given as text stays
// text.
func TestPageIsWellFormedAndEscaped(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, somePage()); err != nil {
		t.Fatal(err)
	}
	html := out.String()
	// As XML: no element left open, no attribute unquoted. The doctype and the
	// two void elements of HTML are no XML.
	text := strings.Replace(html, "<!doctype html>", "", 1)
	text = regexp.MustCompile(`<meta [^>]*>`).ReplaceAllString(text, "")
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, never := range []string{"NaN", "Inf", "<script", "<b>", "<note>", "<td><td>", "<web>", "ZgotmplZ", "src=", "@import", "url("} {
		if strings.Contains(html, never) {
			t.Errorf("the page has %q in it", never)
		}
	}
	// Nothing is fetched: the only addresses are names of XML namespaces.
	for _, address := range regexp.MustCompile(`https?://[^"\s<]+`).FindAllString(html, -1) {
		if !strings.HasPrefix(address, "http://www.w3.org/") {
			t.Errorf("the page refers to %s", address)
		}
	}
	if got := strings.Count(html, "<svg"); got != 3 {
		t.Errorf("%d figures, want 3", got)
	}
	// The same input gives the same page.
	var again bytes.Buffer
	if err := Write(&again, somePage()); err != nil {
		t.Fatal(err)
	}
	if html != again.String() {
		t.Error("a second page differs")
	}
}

// Text has contrast enough on what is behind it, by day and by night: at least
// 4.5 to 1 (WCAG 2, 1.4.3), and lines on a figure's white 2 to 1.
func TestLightAndDarkAreLegible(t *testing.T) {
	variables := func(block string) map[string]string {
		out := map[string]string{}
		for _, m := range regexp.MustCompile(`--(\w+):(#[0-9a-f]+)`).FindAllStringSubmatch(block, -1) {
			out[m[1]] = m[2]
		}
		return out
	}
	light, dark, found := strings.Cut(html, "prefers-color-scheme:dark")
	if !found {
		t.Fatal("there is no dark scheme")
	}
	dark, _, _ = strings.Cut(dark, "}}")
	for name, colors := range map[string]map[string]string{"light": variables(light), "dark": variables(dark)} {
		for _, pair := range [][2]string{{"ink", "ground"}, {"soft", "ground"}, {"ink", "box"}} {
			if c := contrast(t, colors[pair[0]], colors[pair[1]]); c < 4.5 {
				t.Errorf("%s: contrast of %s on %s is %.1f", name, pair[0], pair[1], c)
			}
		}
	}
	// Axes and words of figures are black: they lie on white in both schemes.
	if !strings.Contains(html, "svg{width:100%;height:auto;background:#fff") {
		t.Error("figures have no white ground of their own")
	}
	for i, c := range palette {
		if got := contrast(t, fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B), "#fff"); got < 2 {
			t.Errorf("colour %d has contrast %.1f on white", i, got)
		}
	}
}

// contrast of two colours as WCAG 2 defines it.
func contrast(t *testing.T, a, b string) float64 {
	luminance := func(text string) float64 {
		text = strings.TrimPrefix(text, "#")
		if len(text) == 3 {
			text = string([]byte{text[0], text[0], text[1], text[1], text[2], text[2]})
		}
		var c [3]uint8
		if _, err := fmt.Sscanf(text, "%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
			t.Fatalf("colour %q: %v", text, err)
		}
		var l float64
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			v := float64(c[i]) / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			l += weight * v
		}
		return l
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestWriteFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path, err := WriteFolder(dir, somePage())
	if err != nil {
		t.Fatal(err)
	}
	if path != filepath.Join(dir, "report.html") {
		t.Errorf("path = %s", path)
	}
	for _, name := range []string{"load-b-more.png", "load-b-more-2.png", "load-b-more-3.png"} {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		image, err := png.Decode(file)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// On white, with something on it.
		dark := 0
		for x := range image.Bounds().Dx() {
			for y := range image.Bounds().Dy() {
				r, g, b, a := image.At(x, y).RGBA()
				if a != 0xffff {
					t.Fatalf("%s is transparent at %d,%d", name, x, y)
				}
				if r+g+b < 3*0x8000 {
					dark++
				}
			}
		}
		if dark < 500 {
			t.Errorf("%s has %d dark points", name, dark)
		}
	}
}

func TestFiguresThatCannotBeDrawnAreErrors(t *testing.T) {
	for name, f := range map[string]Figure{
		"no points at all":           {Title: "f", Series: []Series{{Name: "s", X: []float64{1}, Y: []float64{math.NaN()}}}},
		"no series":                  {Title: "f"},
		"more times than values":     {Title: "f", Series: []Series{{Name: "s", X: []float64{1, 2}, Y: []float64{1}}}},
		"infinite time, and no else": {Title: "f", Series: []Series{{Name: "s", X: []float64{math.Inf(1)}, Y: []float64{1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := f.SVG(); err == nil || !strings.Contains(err.Error(), `figure "f"`) {
				t.Errorf("error = %v", err)
			}
			if err := Write(io.Discard, Page{Sections: []Section{{Figures: []Figure{f}}}}); err == nil {
				t.Error("the page was written")
			}
		})
	}
}

// Whatever the numbers, a figure has no NaN in it and ticks lie within the axis.
func TestAnyNumbersCanBeDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "n")
		number := rapid.OneOf(rapid.Float64Range(-1e6, 1e6), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), 1e-9, 1e12}))
		f := Figure{Title: "f", Small: rapid.Bool().Draw(t, "small"), Scatter: rapid.Bool().Draw(t, "scatter"), Series: []Series{{
			Name: "s", X: rapid.SliceOfN(number, n, n).Draw(t, "x"), Y: rapid.SliceOfN(number, n, n).Draw(t, "y"),
		}}}
		if rapid.Bool().Draw(t, "labels") {
			f.Series[0].Labels = make([]string, n)
		}
		svg, err := f.SVG()
		if err != nil {
			if strings.Contains(err.Error(), "no points") {
				return
			}
			t.Fatal(err)
		}
		if strings.Contains(string(svg), "NaN") {
			t.Fatal("NaN in the figure")
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e6, 1e6).Draw(t, "low")
		high := low + rapid.Float64Range(1e-3, 1e7).Draw(t, "range")
		labels := 0
		for _, tick := range (ticks{6}).Ticks(low, high) {
			if tick.Value < low-1e-6*(high-low) || tick.Value > high+1e-6*(high-low) {
				t.Fatalf("a tick at %v of %v to %v", tick.Value, low, high)
			}
			if tick.Label != "" {
				labels++
			}
		}
		if labels < 2 || labels > 8 {
			t.Fatalf("%d labels from %v to %v", labels, low, high)
		}
	})
}

// A thinned line keeps its extremes, its order and both its ends.
func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ys := rapid.SliceOfN(rapid.Float64Range(-10, 10), 1, 200).Draw(t, "ys")
		points := make(plotter.XYs, len(ys))
		x := 0.0
		for i, y := range ys {
			points[i] = plotter.XY{X: x, Y: y}
			x += rapid.SampledFrom([]float64{0.5, 1, 30}).Draw(t, "gap")
		}
		out := thin(points, 20)
		if len(out) > 20 {
			t.Fatalf("%d points left", len(out))
		}
		extremes := func(p plotter.XYs) (float64, float64) {
			_, _, low, high := plotter.XYRange(p)
			return low, high
		}
		low, high := extremes(points)
		if l, h := extremes(out); l != low || h != high {
			t.Fatalf("from %v to %v, of %v to %v", l, h, low, high)
		}
		if out[0] != points[0] || out[len(out)-1] != points[len(points)-1] {
			t.Fatal("an end is missing")
		}
		for i := 1; i < len(out); i++ {
			if out[i].X <= out[i-1].X {
				t.Fatal("out of order")
			}
		}
	})
}

// Stairs stay stairs: at no time between two stretches of the axis is a thinned
// line off the original by a slope.
func TestThinnedStairsAreLevel(t *testing.T) {
	var points plotter.XYs
	for i := range 400 { // many steps at the beginning, then level for as long, then one step
		points = append(points, plotter.XY{X: float64(i) / 40, Y: float64(i % 7)}, plotter.XY{X: float64(i+1) / 40, Y: float64(i % 7)})
	}
	points = append(points, plotter.XY{X: 10, Y: 5}, plotter.XY{X: 90, Y: 5}, plotter.XY{X: 90, Y: 2}, plotter.XY{X: 100, Y: 2})
	out := thin(points, 200)
	for i := 1; i < len(out); i++ {
		a, b := out[i-1], out[i]
		if b.X-a.X > 2*100.0/50 && a.Y != b.Y {
			t.Errorf("a slope from %v to %v", a, b)
		}
	}
	if len(out) >= len(points) {
		t.Error("nothing was thinned")
	}
}

// Labels of points at one place are raised above each other.
func TestLabelsDoNotCoverEachOther(t *testing.T) {
	f := Figure{Series: []Series{
		{X: []float64{0, 1}, Y: []float64{0, 1}, Labels: []string{"a", "b"}},
		{X: []float64{0, 0}, Y: []float64{0, 0}, Labels: []string{"c", "d"}},
	}}
	got := f.levels()
	if got[0][0] != 0 || got[0][1] != 0 || got[1][0] != 1 || got[1][1] != 2 {
		t.Errorf("levels = %v", got)
	}
}

// A sheet has all its figures, in rows, and none is empty.
func TestSheet(t *testing.T) {
	small := figure()
	small.Small, small.Marks = true, nil
	one := func(s Sheet) (width, height int) {
		var out bytes.Buffer
		if err := s.PNG(&out); err != nil {
			t.Fatal(err)
		}
		image, err := png.Decode(&out)
		if err != nil {
			t.Fatal(err)
		}
		return image.Bounds().Dx(), image.Bounds().Dy()
	}
	w1, h1 := one(Sheet{Figures: []Figure{figure()}})
	if w, h := one(Sheet{Figures: []Figure{figure(), figure(), figure()}}); w != w1 || h/3 != h1/1 && h < 3*h1-3 {
		t.Errorf("three rows are %d × %d, one is %d × %d", w, h, w1, h1)
	}
	// A small figure has its legend in the next cell, whether the row has one left or not.
	w1, h1 = one(Sheet{Figures: []Figure{small}, Columns: 2})
	w1 /= 2
	for n, rows := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3} {
		w, h := one(Sheet{Figures: slices.Repeat([]Figure{small}, n), Columns: 2})
		if w < 2*w1-2 || w > 2*w1+2 || h < rows*h1-rows || h > rows*h1+rows {
			t.Errorf("%d figures and a legend in two columns are %d × %d, a cell is %d × %d", n, w, h, w1, h1)
		}
	}
	var small3 bytes.Buffer
	if err := (Sheet{Figures: []Figure{small, small, small}, Columns: 2}).SVG(&small3); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(small3.String(), ">simulated<"); n != 1 {
		t.Errorf("%d legends of three small figures", n)
	}
	var svg bytes.Buffer
	if err := (Sheet{Figures: []Figure{figure(), figure()}}).SVG(&svg); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(svg.String(), ">simulated<"); n != 2 {
		t.Errorf("%d legends of two figures", n)
	}
	if err := (Sheet{}).PNG(io.Discard); err == nil {
		t.Error("a sheet of nothing was drawn")
	}
	if Colors() < 10 {
		t.Errorf("%d colours: the comparisons have ten scalers", Colors())
	}
}

// A logarithmic axis has powers of ten, and none for what isn't above 0.
func TestLogarithmicAxis(t *testing.T) {
	f := Figure{LogY: true, Series: []Series{{Name: "p95", X: []float64{0, 1, 2}, Y: []float64{22, 4800, math.NaN()}}}, Marks: []Mark{{X: 1, Name: "switch"}}}
	svg, err := f.SVG()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">10<", ">100<", ">1000<", ">10000<"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %s on the axis", want)
		}
	}
	f.Series[0].Y[0] = 0
	if _, err := f.SVG(); err == nil {
		t.Error("0 was drawn on a logarithmic axis")
	}
}
