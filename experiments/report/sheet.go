package report

import (
	"fmt"
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sheet is several figures in one picture, row by row. Small ones, which have no
// legends of their own, are followed by that of the last.
type Sheet struct {
	Figures []Figure
	// Columns of the sheet; default 1.
	Columns int
}

// cells are the rectangles of the figures on a canvas whose lower left corner is the
// origin, then that of the legend of small ones, and the size of the whole.
func (s Sheet) cells() (cells []vg.Rectangle, width, height vg.Length) {
	var sizes []vg.Point
	for _, f := range s.Figures {
		w, h := f.size()
		sizes = append(sizes, vg.Point{X: w, Y: h})
	}
	if n := len(s.Figures); n > 0 && s.Figures[n-1].Small {
		sizes = append(sizes, vg.Point{X: smallWidth, Y: smallHeight})
	}
	for row := range slices.Chunk(sizes, max(1, s.Columns)) {
		var left, tall vg.Length
		for _, size := range row {
			cells = append(cells, vg.Rectangle{Min: vg.Point{X: left, Y: -height - size.Y}, Max: vg.Point{X: left + size.X, Y: -height}})
			left, tall = left+size.X, max(tall, size.Y)
		}
		width, height = max(width, left), height+tall
	}
	for i := range cells {
		cells[i] = cells[i].Add(vg.Point{Y: height})
		if s.Columns <= 1 {
			cells[i].Max.X = width
		}
	}
	return cells, width, height
}

// draw draws all figures on a canvas of the size of the whole.
func (s Sheet) draw(dc draw.Canvas) error {
	cells, _, _ := s.cells()
	canvas := func(i int) draw.Canvas {
		return draw.Canvas{Canvas: dc.Canvas, Rectangle: cells[i].Add(dc.Min)}
	}
	for i, f := range s.Figures {
		var legend *draw.Canvas
		if last := len(s.Figures) - 1; i == last && f.Small {
			c := canvas(i + 1)
			legend = &c
		}
		if err := f.draw(canvas(i), legend); err != nil {
			return fmt.Errorf("figure %q: %w", f.Title, err)
		}
	}
	return nil
}

func (s Sheet) extent() (vg.Length, vg.Length, error) {
	_, width, height := s.cells()
	if width <= 0 || height <= 0 {
		return 0, 0, fmt.Errorf("a sheet without figures")
	}
	return width, height, nil
}

// PNG writes the sheet as an image on white.
func (s Sheet) PNG(w io.Writer) error {
	width, height, err := s.extent()
	if err != nil {
		return err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pngDPI), vgimg.UseBackgroundColor(color.White))
	if err := s.draw(draw.New(canvas)); err != nil {
		return err
	}
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// SVG writes the sheet as a file of its own.
func (s Sheet) SVG(w io.Writer) error {
	width, height, err := s.extent()
	if err != nil {
		return err
	}
	canvas := vgsvg.New(width, height)
	if err := s.draw(draw.New(canvas)); err != nil {
		return err
	}
	_, err = canvas.WriteTo(w)
	return err
}
