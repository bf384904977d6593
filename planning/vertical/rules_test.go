package vertical

import (
	"math"
	"slices"
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

// TestSpread: equal limits where nobody needs more; what somebody needs first, and half of the
// rest to all alike and half to those with the least; nothing that another one has already.
func TestSpread(t *testing.T) {
	rule := DefaultRule()
	ask := func(limit int64, usage float64, others []float64, blind int64) float64 {
		v := seen(limit, usage)
		v.Budget, v.Usages, v.Blind = 1000, append([]float64{usage}, others...), blind
		slices.Sort(v.Usages)
		for _, u := range v.Usages {
			v.Used += u
		}
		for i := range Window {
			v.Window[i*Features+ofUsage] = float32(usage / 1000)
		}
		return rule.Propose(v)
	}
	for name, c := range map[string]struct{ got, want float64 }{
		"nobody uses anything":                  {ask(100, 0, []float64{0, 0, 0}, 0), 250},
		"within the tolerance":                  {ask(240, 0, []float64{0, 0, 0}, 0), 240},
		"alone it gets all":                     {ask(100, 60, nil, 0), 1000},
		"nobody needs more than an equal part":  {ask(100, 240, []float64{60}, 0), 500},
		"its need, and a quarter of the rest":   {ask(100, 400, []float64{60}, 0), 500 + 106.25},
		"who needs less has what is left":       {ask(650, 60, []float64{400}, 0), 1000 - 606.25},
		"of two that need less both have equal": {ask(650, 60, []float64{20, 400}, 0), (1000 - 500 - 66.6667) / 2},
		"nothing is left":                       {ask(100, 300, []float64{300, 300}, 0), 375},
		"what is not known is not given out":    {ask(100, 60, nil, 500), 500},
		"more than there is is not known":       {ask(100, 60, nil, 1500), 75},
	} {
		if math.Abs(c.got-c.want) > 0.01 {
			t.Errorf("%s: %g, want %g", name, c.got, c.want)
		}
	}
}

// TestSpreadGivesOutAll: what all get together is the budget, and nobody gets less than it needs;
// who uses more gets no less.
func TestSpreadGivesOutAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := Spread{Proportional{rapid.Float64Range(0.3, 1).Draw(t, "target"), 0, 0}, rapid.Float64Range(0, 1).Draw(t, "levelled")}
		usages := rapid.SliceOfN(rapid.Float64Range(0, 300), 1, 20).Draw(t, "usages")
		slices.Sort(usages)
		v := &View{Limit: 1, Usages: usages, Window: make([]float32, Inputs)}
		for _, u := range usages {
			v.Used += u
		}
		v.Budget = int64(v.Used/rule.Target) + rapid.Int64Range(1, 2000).Draw(t, "rest")
		sum, last := 0.0, 0.0
		for _, u := range usages {
			v.Usage = u
			got := rule.Propose(v)
			if got < u/rule.Target-1e-6 || got < last-1e-6 {
				t.Fatalf("who uses %g gets %g, and %g who uses less", u, got, last)
			}
			sum, last = sum+got, got
		}
		if math.Abs(sum-float64(v.Budget)) > 1e-6*sum {
			t.Fatalf("all get %g of %d", sum, v.Budget)
		}
	})
}

func TestRuleByName(t *testing.T) {
	for name, want := range map[string]Planner{
		"fixed":               Fixed{},
		"threshold":           DefaultThreshold(),
		"threshold:60:30:100": Threshold{0.6, 0.3, 100},
		"proportional":        DefaultProportional(),
		"proportional:50:0:0": Proportional{0.5, 0, 0},
		"spread":              DefaultRule(),
		"spread:80:12.5:1":    Spread{Proportional{0.8, 0.125, 1}, 0.5},
	} {
		if got, err := RuleByName(name); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{
		"", "rule:spread", "ddpg", "fixed:1:2:3", "threshold:", "threshold:60:30", "threshold:60:30:25:1", "threshold:30:60:25", "threshold:60:30:0",
		"threshold:NaN:30:25", "spread:0:20:3", "spread:101:20:3", "spread:80:100:3", "spread:80:20:7", "spread:80:20:-1", "spread:80:20:3x", "spread:NaN:20:3", "proportional:80:-1:3",
	} {
		if got, err := RuleByName(name); err == nil {
			t.Errorf("%s: %+v, want an error", name, got)
		}
	}
}
