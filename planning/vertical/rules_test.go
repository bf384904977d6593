package vertical

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// seen is a view in which usage was so much, the newest last, of a limit.
func seen(limit int64, usage ...float64) *View {
	v := &View{Limit: limit, Budget: 1000, Usage: usage[len(usage)-1], Window: make([]float32, Inputs)}
	for i := range Window {
		at := max(0, len(usage)-Window+i)
		v.Window[i*Features+ofUsage] = float32(usage[min(at, len(usage)-1)] / float64(v.Budget))
	}
	return v
}

func TestProportional(t *testing.T) {
	rule := DefaultRule() // 60 %, a fifth, three
	for name, c := range map[string]struct {
		v    *View
		want float64
	}{
		"at the target":                     {seen(100, 60), 100},
		"a little above":                    {seen(100, 71), 100},
		"a little below":                    {seen(100, 49), 100},
		"above":                             {seen(100, 90), 150},
		"at the limit":                      {seen(100, 100), 100 / 0.6},
		"below, and so before":              {seen(100, 30, 30, 30, 30, 30, 30), 50},
		"below, and more two readings ago":  {seen(100, 30, 30, 30, 45, 30, 30), 75},
		"below, and much two readings ago":  {seen(100, 30, 30, 30, 90, 30, 30), 100},
		"below, and more three before that": {seen(100, 90, 90, 90, 30, 30, 30), 50},
		"idle":                              {seen(100, 0, 0, 0, 0, 0, 0), 0},
	} {
		if got := rule.Propose(c.v); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("%s: proposes %g, want %g", name, got, c.want)
		}
	}
}

// TestProportionalHasNoScale: pods of any size are treated alike; within the tolerance
// nothing changes, and outside a limit moves towards the target.
func TestProportionalHasNoScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := DefaultRule()
		limit := rapid.Int64Range(100, 1000).Draw(t, "limit")
		share := rapid.Float64Range(0, 1).Draw(t, "usage")
		got := rule.Propose(seen(limit, share*float64(limit))) / float64(limit)
		if other := rule.Propose(seen(10*limit, share*float64(10*limit))) / float64(10*limit); math.Abs(got-other) > 1e-4 {
			t.Fatalf("%g of the limit, and %g of ten times that", got, other)
		}
		switch off := share/rule.Target - 1; {
		case math.Abs(off) < rule.Tolerance-1e-6 && got != 1:
			t.Fatalf("it changes at %g", share)
		case off > rule.Tolerance+1e-6 && got <= 1, off < -rule.Tolerance-1e-6 && got >= 1:
			t.Fatalf("at %g it proposes %g", share, got)
		}
	})
}
