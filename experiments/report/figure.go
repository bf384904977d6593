package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
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
	// Dashed lines are for what was planned or forecast.
	Dashed bool
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
	// Small figures are for grids, such as pair plots.
	Small bool
	// Note says below the chart what to see in it.
	Note string
}

// palette is Okabe and Ito's, which colour-blind readers can tell apart.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
}

// SVG draws the figure.
func (f Figure) SVG() (template.HTML, error) {
	p, width, height, err := f.plot()
	if err != nil {
		return "", err
	}
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("figure %q: %w", f.Title, err)
	}
	svg := out.String()
	if i := strings.Index(svg, "<svg"); i > 0 { // the XML prologue has no place in HTML
		svg = svg[i:]
	}
	return template.HTML(svg), nil // drawn above from numbers; names are escaped by vgsvg
}

// PNG draws the figure as a picture, on white.
func (f Figure) PNG() ([]byte, error) {
	p, width, height, err := f.plot()
	if err != nil {
		return nil, err
	}
	p.BackgroundColor = color.White
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))}
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("figure %q: %w", f.Title, err)
	}
	return out.Bytes(), nil
}

// plot lays the figure out.
func (f Figure) plot() (p *plot.Plot, width, height vg.Length, err error) {
	p = plot.New()
	p.Title.Text = f.Title
	p.X.Label.Text, p.Y.Label.Text = f.XLabel, f.YLabel
	p.Legend.Top = true
	p.BackgroundColor = color.Transparent
	width, height = 8.2*vg.Inch, 2.7*vg.Inch
	size := font.Length(10)
	if f.Small {
		width, height, size = 2.7*vg.Inch, 2.2*vg.Inch, 8
	}
	for _, t := range []*draw.TextStyle{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		t.Font.Size = size
	}
	p.Title.TextStyle.Font.Size = size + 2
	grid := plotter.NewGrid()
	grid.Vertical.Color = color.Gray{0xe4}
	grid.Horizontal.Color = color.Gray{0xe4}
	p.Add(grid)

	top := 0.0
	drawn := 0
	for _, s := range f.Series {
		points, err := pointsOf(s)
		if err != nil {
			return nil, 0, 0, fmt.Errorf("figure %q: %w", f.Title, err)
		}
		if len(points) == 0 {
			continue
		}
		drawn++
		for _, xy := range points {
			top = max(top, xy.Y)
		}
		c := palette[s.Color%len(palette)]
		if f.Scatter {
			cloud, err := plotter.NewScatter(points)
			if err != nil {
				return nil, 0, 0, err
			}
			c.A = 0x70
			cloud.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(1.6), Shape: draw.CircleGlyph{}}
			p.Add(cloud)
			p.Legend.Add(s.Name, cloud)
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, 0, 0, err
		}
		line.Color, line.Width = c, vg.Points(1.3)
		if s.Dashed {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		p.Add(line)
		p.Legend.Add(s.Name, line)
	}
	if drawn == 0 {
		return nil, 0, 0, fmt.Errorf("figure %q has no points", f.Title)
	}
	if !f.Scatter {
		p.Y.Min = min(0, p.Y.Min)
		p.Y.Max = max(p.Y.Max, top*1.15)
	}
	if p.Y.Max == p.Y.Min {
		p.Y.Max = p.Y.Min + 1
	}
	if f.Small {
		p.Legend = plot.NewLegend() // the grid has one legend of its own
	}
	for _, m := range f.Marks {
		line, err := plotter.NewLine(plotter.XYs{{X: m.X, Y: p.Y.Min}, {X: m.X, Y: p.Y.Max}})
		if err != nil {
			return nil, 0, 0, err
		}
		line.Color, line.Width = color.Gray{0x60}, vg.Points(0.8)
		line.Dashes = []vg.Length{vg.Points(2), vg.Points(2)}
		label, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: m.X, Y: p.Y.Max * 0.93}}, Labels: []string{" " + m.Name}})
		if err != nil {
			return nil, 0, 0, err
		}
		label.TextStyle[0].Font.Size = size - 1
		p.Add(line, label)
	}
	return p, width, height, nil
}

func pointsOf(s Series) (plotter.XYs, error) {
	if len(s.X) != len(s.Y) {
		return nil, fmt.Errorf("series %q has %d x and %d y", s.Name, len(s.X), len(s.Y))
	}
	points := make(plotter.XYs, 0, len(s.X))
	for i := range s.X {
		if !math.IsNaN(s.X[i]) && !math.IsNaN(s.Y[i]) && !math.IsInf(s.Y[i], 0) {
			points = append(points, plotter.XY{X: s.X[i], Y: s.Y[i]})
		}
	}
	return points, nil
}
