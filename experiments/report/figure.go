package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Series is one line or cloud of a figure. X and Y have the same length;
// points with a NaN are left out.
type Series struct {
	Name string
	X, Y []float64
	// Color is the index of the colour, so that a scaler keeps its own
	// through all figures.
	Color int
	// Dash is 0 for a solid line; 1 is for what was planned, forecast or
	// simulated, more for further kinds.
	Dash int
	// Points draws small points instead of a line.
	Points bool
	// Labels of the points; points with labels are marked, with a line between
	// them if there are several.
	Labels []string
	// XHalf and YHalf are half the widths of the points' intervals; nil for none.
	XHalf, YHalf []float64
}

// Mark is a vertical line with a word: a policy switch.
type Mark struct {
	X    float64
	Name string
}

// Figure is one chart.
type Figure struct {
	Title, XLabel, YLabel string
	Series                []Series
	Marks                 []Mark
	// Scatter draws points instead of lines.
	Scatter bool
	// LogY has powers of ten on the vertical axis; points must be above 0.
	LogY bool
	// Small figures are for grids, such as pair plots; they have no legend.
	Small bool
	// Note says below the chart what to see in it.
	Note string
}

// palette is Okabe and Ito's, which colour-blind readers can tell apart, without
// its yellow, which is too light for a line, and with a grey; and two of Paul Tol's
// muted colours, wine and olive.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
	{0x00, 0x00, 0x00, 0xff}, {0x80, 0x80, 0x80, 0xff},
	{0x88, 0x22, 0x55, 0xff}, {0x99, 0x99, 0x33, 0xff},
}

// Colors is how many series a figure can tell apart.
func Colors() int { return len(palette) }

var dashes = [][]vg.Length{nil, {vg.Points(4), vg.Points(2)}, {vg.Points(1), vg.Points(1.5)}, {vg.Points(6), vg.Points(2), vg.Points(1), vg.Points(2)}}

// Most points of a line and of a cloud; more are thinned out.
const (
	maxLine  = 2000
	maxCloud = 400
)

const (
	wideWidth, wideHeight   = 9.2 * vg.Inch, 2.7 * vg.Inch
	smallWidth, smallHeight = 2.7 * vg.Inch, 2.2 * vg.Inch
	legendWidth             = 2.2 * vg.Inch
	pngDPI                  = 144
)

func (f Figure) size() (vg.Length, vg.Length) {
	if f.Small {
		return smallWidth, smallHeight
	}
	return wideWidth, wideHeight
}

// SVG draws the figure as an element of a page.
func (f Figure) SVG() (template.HTML, error) {
	width, height := f.size()
	canvas := vgsvg.New(width, height)
	if err := f.draw(draw.New(canvas), nil); err != nil {
		return "", fmt.Errorf("figure %q: %w", f.Title, err)
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("figure %q: %w", f.Title, err)
	}
	svg := out.String()
	if i := strings.Index(svg, "<svg"); i > 0 { // the XML prologue has no place in HTML
		svg = svg[i:]
	}
	// The typeface that gonum measures with is not everywhere.
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif")
	return template.HTML(svg), nil // drawn above from numbers; names are escaped by vgsvg
}

// PNG writes the figure as an image on white.
func (f Figure) PNG(w io.Writer) error {
	width, height := f.size()
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pngDPI), vgimg.UseBackgroundColor(color.White))
	if err := f.draw(draw.New(canvas), nil); err != nil {
		return fmt.Errorf("figure %q: %w", f.Title, err)
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("figure %q: %w", f.Title, err)
	}
	return nil
}

// draw draws the figure, its legend beside it; that of a small figure where the side
// is, if it is anywhere.
func (f Figure) draw(dc draw.Canvas, side *draw.Canvas) error {
	const margin = 7 // points
	dc = draw.Crop(dc, margin, -margin, margin, -margin)
	p := plot.New()
	p.Title.Text = f.Title
	p.X.Label.Text, p.Y.Label.Text = f.XLabel, f.YLabel
	p.BackgroundColor = color.Transparent
	size := font.Length(10)
	if f.Small {
		size = 8
	}
	legend := plot.NewLegend()
	for _, t := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &legend.TextStyle,
	} {
		t.Font.Typeface, t.Font.Variant, t.Font.Size = "Liberation", "Sans", size
	}
	p.Title.TextStyle.Font.Size, legend.TextStyle.Font.Size = size+2, size-1
	p.Y.Padding, p.X.Padding = vg.Points(2), vg.Points(2)
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{9}, ticks{5}
	if f.Small {
		p.X.Tick.Marker, p.Y.Tick.Marker = ticks{4}, ticks{4}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color = color.Gray{0xe4}
	grid.Horizontal.Color = color.Gray{0xe4}
	p.Add(grid)
	top, drawn := 0.0, 0
	levels := f.levels()
	for i, s := range f.Series {
		high, err := f.add(p, &legend, s, levels[i], size)
		if err != nil {
			return fmt.Errorf("series %q: %w", s.Name, err)
		}
		if !math.IsNaN(high) {
			drawn++
			top = max(top, high)
		}
	}
	if drawn == 0 {
		return fmt.Errorf("there are no points")
	}
	if !f.Scatter {
		room := 1.05
		if len(f.Marks) > 0 {
			room = 1.15 // for their words
		}
		p.Y.Min = min(0, p.Y.Min)
		p.Y.Max = max(p.Y.Max, top*room)
	}
	if !f.Scatter && p.X.Min > 0 && p.X.Min < (p.X.Max-p.X.Min)/20 {
		p.X.Min = 0 // time that begins with the middle of a bucket
	}
	if low := f.lowest(); low >= 0 && p.Y.Min < 0 {
		p.Y.Min = low - 0.04*(p.Y.Max-low) // intervals may reach below 0, what they are of doesn't
	}
	widen(&p.X)
	widen(&p.Y)
	if f.LogY {
		low := f.lowest()
		if !(low > 0) {
			return fmt.Errorf("%v is the lowest on a logarithmic axis", low)
		}
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Y.Min = math.Pow(10, math.Floor(math.Log10(low)))
		p.Y.Max = math.Pow(10, math.Ceil(math.Log10(top)+1e-9))
	}
	if err := f.addMarks(p, size); err != nil {
		return err
	}
	beside := dc
	if !f.Small {
		beside = draw.Crop(dc, 0, -legendWidth, 0, 0)
		space := draw.Crop(dc, dc.Size().X-legendWidth, 0, 0, 0)
		side = &space
	}
	p.Draw(beside)
	if side != nil {
		legend.Top, legend.Left = true, true
		legend.Padding = vg.Points(2)
		legend.ThumbnailWidth = vg.Points(18)
		legend.Draw(draw.Crop(*side, vg.Points(6), 0, 0, -vg.Points(20)))
	}
	return nil
}

// add draws a series and returns its highest value, NaN when it has no points.
func (f Figure) add(p *plot.Plot, legend *plot.Legend, s Series, levels []int, size font.Length) (float64, error) {
	points, kept, err := pointsOf(s)
	if err != nil {
		return 0, err
	}
	if len(points) == 0 {
		return math.NaN(), nil
	}
	high := math.Inf(-1)
	for _, xy := range points {
		high = max(high, xy.Y)
	}
	c := palette[s.Color%len(palette)]
	if f.Scatter || s.Points {
		points = every(points, maxCloud)
		cloud, err := plotter.NewScatter(points)
		if err != nil {
			return 0, err
		}
		c.A = 0x70
		cloud.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(1.6), Shape: draw.CircleGlyph{}}
		p.Add(cloud)
		dot := *cloud
		dot.Color, dot.Radius = palette[s.Color%len(palette)], vg.Points(3)
		legend.Add(s.Name, &dot)
		return high, nil
	}
	thinned := points
	if s.Labels == nil {
		thinned = thin(points, maxLine)
	}
	line, err := plotter.NewLine(thinned)
	if err != nil {
		return 0, err
	}
	line.Color, line.Width, line.Dashes = c, vg.Points(1.3), dashes[s.Dash%len(dashes)]
	if s.Labels == nil {
		p.Add(line)
		legend.Add(s.Name, line)
		return high, nil
	}
	return high, addLabelled(p, legend, s, points, kept, levels, line, size)
}

// lowest is the least Y of all series.
func (f Figure) lowest() float64 {
	low := math.Inf(1)
	for _, s := range f.Series {
		for _, y := range s.Y {
			if !math.IsNaN(y) {
				low = min(low, y)
			}
		}
	}
	return low
}

// widen gives an axis without extent one.
func widen(a *plot.Axis) {
	if scale := max(1, math.Abs(a.Min), math.Abs(a.Max)); a.Max-a.Min < 1e-9*scale {
		a.Max = a.Min + scale
	}
}

// levels say by how many lines the labels of each series' points are raised, so
// that those of points beside each other don't cover each other.
func (f Figure) levels() [][]int {
	type place struct{ series, point, level int }
	out := make([][]int, len(f.Series))
	var placed []place
	low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for i, s := range f.Series {
		out[i] = make([]int, len(s.X))
		for j := range min(len(s.X), len(s.Y)) {
			for k, v := range [2]float64{s.X[j], s.Y[j]} {
				if !math.IsNaN(v) && !math.IsInf(v, 0) {
					low[k], high[k] = min(low[k], v), max(high[k], v)
				}
			}
		}
	}
	// A label takes about a twelfth of the width and of the height.
	const wide, tall = 0.085, 0.08
	for i, s := range f.Series {
		for j := range min(len(s.X), len(s.Y), len(s.Labels)) {
			level := 0
			covers := func(p place) bool {
				o := f.Series[p.series]
				dx := math.Abs(o.X[p.point]-s.X[j]) / max(high[0]-low[0], math.SmallestNonzeroFloat64)
				dy := (o.Y[p.point]-s.Y[j])/max(high[1]-low[1], math.SmallestNonzeroFloat64) + tall*float64(p.level-level)
				return dx < wide && math.Abs(dy) < tall
			}
			for level < 12 && slices.ContainsFunc(placed, covers) {
				level++
			}
			out[i][j] = level
			placed = append(placed, place{i, j, level})
		}
	}
	return out
}

// addLabelled draws points with their labels and intervals.
func addLabelled(p *plot.Plot, legend *plot.Legend, s Series, points plotter.XYs, kept, levels []int, line *plotter.Line, size font.Length) error {
	c := palette[s.Color%len(palette)]
	marks, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	marks.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
	labels := make([]string, len(points))
	halves := func(of []float64) []float64 {
		out := make([]float64, len(points))
		for i, k := range kept {
			if k < len(of) {
				out[i] = of[k]
			}
		}
		return out
	}
	for i, k := range kept {
		if k < len(s.Labels) {
			labels[i] = s.Labels[k]
		}
	}
	if len(points) > 1 {
		line.Width = vg.Points(0.7)
		p.Add(line)
	}
	errs := halves(s.XHalf)
	bars := xyErrors{points, make(plotter.XErrors, len(points)), make(plotter.YErrors, len(points))}
	for i := range points {
		bars.x[i].Low, bars.x[i].High = errs[i], errs[i]
	}
	errs = halves(s.YHalf)
	for i := range points {
		bars.y[i].Low, bars.y[i].High = errs[i], errs[i]
	}
	horizontal, err := plotter.NewXErrorBars(bars)
	if err != nil {
		return err
	}
	vertical, err := plotter.NewYErrorBars(bars)
	if err != nil {
		return err
	}
	horizontal.Color, vertical.Color = c, c
	p.Add(horizontal, vertical, marks)
	for i := range points {
		word, err := plotter.NewLabels(plotter.XYLabels{XYs: points[i : i+1], Labels: labels[i : i+1]})
		if err != nil {
			return err
		}
		word.TextStyle[0].Font.Typeface, word.TextStyle[0].Font.Variant = "Liberation", "Sans"
		word.TextStyle[0].Font.Size = size - 1
		word.TextStyle[0].Color = c
		word.Offset = vg.Point{X: vg.Points(4), Y: vg.Points(3) + vg.Length(levels[kept[i]])*size}
		p.Add(word)
	}
	legend.Add(s.Name, marks)
	return nil
}

type xyErrors struct {
	plotter.XYs
	x plotter.XErrors
	y plotter.YErrors
}

func (e xyErrors) XError(i int) (float64, float64) { return e.x.XError(i) }
func (e xyErrors) YError(i int) (float64, float64) { return e.y.YError(i) }

func (f Figure) addMarks(p *plot.Plot, size font.Length) error {
	for _, m := range f.Marks {
		if m.X < p.X.Min || m.X > p.X.Max {
			continue
		}
		line, err := plotter.NewLine(plotter.XYs{{X: m.X, Y: p.Y.Min}, {X: m.X, Y: p.Y.Max}})
		if err != nil {
			return err
		}
		line.Color, line.Width = color.Gray{0x60}, vg.Points(0.8)
		line.Dashes = []vg.Length{vg.Points(2), vg.Points(2)}
		at := p.Y.Min + (p.Y.Max-p.Y.Min)*0.93
		if f.LogY {
			at = p.Y.Min * math.Pow(p.Y.Max/p.Y.Min, 0.93)
		}
		label, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: m.X, Y: at}}, Labels: []string{" " + m.Name}})
		if err != nil {
			return err
		}
		label.TextStyle[0].Font.Typeface, label.TextStyle[0].Font.Variant = "Liberation", "Sans"
		label.TextStyle[0].Font.Size = size - 1
		if m.X > p.X.Min+(p.X.Max-p.X.Min)*0.85 { // room to the left only
			label.TextStyle[0].XAlign = text.XRight
		}
		p.Add(line, label)
	}
	return nil
}

// pointsOf are the finite points of a series and which of it they are.
func pointsOf(s Series) (plotter.XYs, []int, error) {
	if len(s.X) != len(s.Y) {
		return nil, nil, fmt.Errorf("%d x and %d y", len(s.X), len(s.Y))
	}
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	points := make(plotter.XYs, 0, len(s.X))
	kept := make([]int, 0, len(s.X))
	for i := range s.X {
		if finite(s.X[i]) && finite(s.Y[i]) {
			points = append(points, plotter.XY{X: s.X[i], Y: s.Y[i]})
			kept = append(kept, i)
		}
	}
	return points, kept, nil
}
