package demand

import (
	"math"
	"time"
)

// Grid numbers sample times: step i is at i·Step since the Unix epoch, so that
// every workload and every restart samples at the same times.
type Grid struct{ Step time.Duration }

// At is the last step that is not after t.
func (g Grid) At(t time.Time) int64 {
	n, s := t.UnixNano(), int64(g.Step)
	i := n / s
	if n%s < 0 {
		i--
	}
	return i
}

// Time of step i.
func (g Grid) Time(i int64) time.Time { return time.Unix(0, i*int64(g.Step)).UTC() }

// Usable reports whether v can be usage at all: neither NaN nor infinite nor negative.
// Everything else is a gap.
func Usable(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0 }
