package forecast

import (
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Fold is the long memory of a series: 28 days of ten minutes, in which the seasons
// of a day and of a week are found that a history of samples, which is of two days
// and finer than a minute, is too short for. It is a value of at most 18 KiB: Add returns another
// one and writes to nothing that the old one refers to. Folding a history at once
// or as it comes is the same.
type Fold struct {
	Tens Bins
	// PastFrom is the start of the coarser past that was put before the rest, the
	// zero time without one.
	PastFrom time.Time
}

// FoldStep and FoldReach are the bins of a fold and how far back they go: what a past read elsewhere should have.
const (
	FoldStep  = 10 * time.Minute
	FoldReach = foldTens * FoldStep
)

const foldTens = 28 * 24 * 6 // bins

// Bins are means over equal stretches of time at single precision, oldest first,
// NaN where nothing was seen.
type Bins struct {
	Width time.Duration
	Start time.Time // of the first bin, a multiple of Width since the epoch
	Means []float32
	// Sum and Count are of the bin that is open, the one after the last of Means;
	// To is the newest sample in it.
	Sum   float64
	Count int
	To    time.Time
}

// Add folds what series has that is newer than what was folded. A series that
// begins before what is known is put before it, and so is its coarser past, once.
func (f Fold) Add(series api.Series) Fold {
	f.Tens = f.Tens.add(series, FoldStep, foldTens)
	if past := series.Past; past != nil && !past.Start.Equal(f.PastFrom) {
		f.Tens, f.PastFrom = f.Tens.add(*past, FoldStep, foldTens), past.Start
	}
	return f
}

func (b Bins) add(series api.Series, width time.Duration, most int) Bins {
	if series.Step <= 0 || series.Step > width || len(series.Values) == 0 {
		return b // coarser than this
	}
	if !b.Start.IsZero() && series.Start.Before(b.Start.Add(-width)) && len(b.Means) < most {
		return b.before(Bins{}.add(series, width, most), most)
	}
	from := 0
	if !b.To.IsZero() {
		from = max(0, int(b.To.Sub(series.Start)/series.Step)+1)
	}
	fresh := false // whether Means is ours to append to
	for i := from; i < len(series.Values); i++ {
		at := series.Start.Add(time.Duration(i) * series.Step)
		if b.Start.IsZero() {
			b.Width, b.Start = width, at.Truncate(width)
		}
		if at.Sub(b.Start) > time.Duration(len(b.Means)+2*most)*width {
			// After an absence longer than all that is kept.
			b = Bins{Width: width, Start: at.Truncate(width)}
			fresh = true
		}
		for !at.Before(b.Start.Add(time.Duration(len(b.Means)+1) * width)) {
			mean := math.NaN()
			if b.Count > 0 {
				mean = b.Sum / float64(b.Count)
			}
			if !fresh {
				b.Means, fresh = append(make([]float32, 0, len(b.Means)+16), b.Means...), true
			}
			b.Means = append(b.Means, single(mean))
			b.Sum, b.Count = 0, 0
		}
		if v := series.Values[i]; !math.IsNaN(v) {
			b.Sum += v
			b.Count++
		}
		b.To = at
	}
	if over := len(b.Means) - most; over > 0 {
		b.Means = b.Means[over:]
		b.Start = b.Start.Add(time.Duration(over) * width)
	}
	if cap(b.Means) > len(b.Means)+len(b.Means)/8+16 { // after much at once
		b.Means = slices.Clone(b.Means)
	}
	return b
}

// before is b with the older bins of past put before its own, and into its gaps.
func (b Bins) before(past Bins, most int) Bins {
	ahead := int(b.Start.Sub(past.Start) / b.Width)
	means := make([]float32, ahead+len(b.Means))
	for i := range means {
		means[i] = float32(math.NaN())
		if i < len(past.Means) {
			means[i] = past.Means[i]
		}
		if i >= ahead && !math.IsNaN(float64(b.Means[i-ahead])) {
			means[i] = b.Means[i-ahead]
		}
	}
	over := max(0, len(means)-most)
	b.Means, b.Start = means[over:], past.Start.Add(time.Duration(over)*b.Width)
	return b
}

// values are the means at double precision.
func (b Bins) values() []float64 {
	out := make([]float64, len(b.Means))
	for i, v := range b.Means {
		out[i] = float64(v)
	}
	return out
}
