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
	rule := DefaultProportional() // 60 %, a fifth, three
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
		rule := DefaultProportional()
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

// TestSpread: equal limits where nobody needs more; what somebody needs first, and the rest in
// equal parts; nothing that another one has already.
func TestSpread(t *testing.T) {
	rule := DefaultRule()
	ask := func(limit int64, usage, used float64, known int, blind int64) float64 {
		v := seen(limit, usage)
		v.Budget, v.Used, v.Known, v.Blind = 1000, used, known, blind
		for i := range Window {
			v.Window[i*Features+ofUsage] = float32(usage / 1000)
		}
		return rule.Propose(v)
	}
	for name, c := range map[string]struct{ got, want float64 }{
		"nobody uses anything":               {ask(100, 0, 0, 4, 0), 250},
		"within the tolerance":               {ask(240, 0, 0, 4, 0), 240},
		"alone it gets all":                  {ask(100, 60, 60, 1, 0), 1000},
		"its need, and a part of the rest":   {ask(100, 240, 300, 2, 0), 300 + 312.5},
		"who needs less gives":               {ask(650, 60, 300, 2, 0), 75 + 312.5},
		"nothing is left":                    {ask(100, 300, 900, 3, 0), 375},
		"what is not known is not given out": {ask(100, 60, 60, 1, 500), 500},
	} {
		if math.Abs(c.got-c.want) > 0.01 {
			t.Errorf("%s: %g, want %g", name, c.got, c.want)
		}
	}
}
