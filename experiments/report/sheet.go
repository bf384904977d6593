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

// Sheet is several figures in one picture, row by row.
type Sheet struct {
	Figures []Figure
	// Columns of the sheet; default 1.
	Columns int
}

// size of the whole and of a row.
func (s Sheet) layout() (columns int, width vg.Length, rows []vg.Length) {
	columns = max(1, s.Columns)
	for row := range slices.Chunk(s.Figures, columns) {
		var wide, tall vg.Length
		for _, f := range row {
			w, h := f.size()
			wide, tall = wide+w, max(tall, h)
		}
		width, rows = max(width, wide), append(rows, tall)
	}
	return columns, width, rows
}

// draw draws all figures on a canvas of the layout's size.
func (s Sheet) draw(dc draw.Canvas) error {
	columns, width, rows := s.layout()
	top := dc.Max.Y
	for i, tall := range rows {
		left := dc.Min.X
		for _, f := range s.Figures[i*columns : min((i+1)*columns, len(s.Figures))] {
			w, h := f.size()
			if columns == 1 {
				w = width
			}
			cell := draw.Canvas{Canvas: dc.Canvas, Rectangle: vg.Rectangle{
				Min: vg.Point{X: left, Y: top - h}, Max: vg.Point{X: left + w, Y: top},
			}}
			if err := f.draw(cell); err != nil {
				return fmt.Errorf("figure %q: %w", f.Title, err)
			}
			left += w
		}
		top -= tall
	}
	return nil
}

func (s Sheet) extent() (vg.Length, vg.Length, error) {
	_, width, rows := s.layout()
	var height vg.Length
	for _, tall := range rows {
		height += tall
	}
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
