package queueing

import (
	"math"
	"testing"
	"time"
)

func TestHistogramQuantiles(t *testing.T) {
	var h, left, right Histogram
	for i := range 10_000 {
		d := time.Duration(i+1) * 100 * time.Microsecond
		h.Record(d)
		if i%3 == 0 {
			left.Record(d)
		} else {
			right.Record(d)
		}
	}
	left.Add(right)
	for _, q := range []float64{0, 0.01, 0.5, 0.95, 0.99, 1} {
		want := max(math.Ceil(q*10_000), 1) * 1e-4
		got, ok := h.Quantile(q)
		if !ok || math.Abs(got.Seconds()-want) > 0.008*want {
			t.Errorf("quantile %v = %v, want %v s ± 0.8 %%", q, got, want)
		}
		if merged, _ := left.Quantile(q); merged != got {
			t.Errorf("quantile %v of the merged parts = %v, of the whole %v", q, merged, got)
		}
	}
	if _, ok := (Histogram{}).Quantile(0.5); ok {
		t.Error("an empty histogram has a quantile")
	}
}
