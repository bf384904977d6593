package forecast_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// minutes is a series of four samples a minute.
func minutes(values ...float64) api.Series {
	s := api.Series{Start: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), Step: 15 * time.Second}
	for _, v := range values {
		s.Values = append(s.Values, v, v, v, v)
	}
	return s
}

// levels are n minutes at a level, of which every k-th is at another one.
func levels(n, k int, level, other float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = level
		if i%k == k-1 {
			out[i] = other
		}
	}
	return out
}

func TestGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		series    api.Series
		lead      time.Duration
		hold      time.Duration
		objective float64
		want      float64
		unknown   bool
	}{
		"level":                                  {minutes(levels(200, 200, 100, 100)...), time.Minute, 0, 0.99, 1, false},
		"peaks in more minutes than may be late": {minutes(levels(200, 20, 100, 300)...), time.Minute, 0, 0.99, 3, false},
		"peaks in fewer":                         {minutes(levels(400, 200, 100, 300)...), time.Minute, 0, 0.99, 1, false},
		"a peak that is held until the next":     {minutes(levels(299, 23, 100, 300)...), time.Minute, 25 * time.Minute, 0.99, 1, false},
		"what falls":                             {minutes(levels(200, 20, 100, 10)...), time.Minute, 5 * time.Minute, 0.99, 1, false},
		"demand after none":                      {minutes(levels(200, 20, 0, 10)...), time.Minute, 0, 0.99, math.Inf(1), false},
		"the first demand of all":                {minutes(append(levels(20, 20, 0, 0), levels(200, 200, 100, 100)...)...), time.Minute, 0, 0.99, 1, false},
		"a first minute in which it comes":       {minutes(append([]float64{0, 0, 5, 60}, levels(150, 150, 100, 100)...)...), 2 * time.Minute, 0, 0.99, 1, false},
		"too short to tell":                      {minutes(levels(90, 90, 100, 100)...), time.Minute, 0, 0.99, 0, true},
		"just long enough":                       {minutes(levels(101, 101, 100, 100)...), time.Minute, 0, 0.99, 1, false},
		"gaps only":                              {minutes(levels(200, 1, 0, math.NaN())...), time.Minute, 0, 0.99, 0, true},
		"no objective":                           {minutes(levels(200, 200, 100, 100)...), time.Minute, 0, 0, 0, true},
		"nothing":                                {api.Series{}, time.Minute, 0, 0.99, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := forecast.GrowthOf(c.series, forecast.GrowthRule{Lead: c.lead, Hold: c.hold}, c.objective)
			if got.Factor != c.want || known == c.unknown || len(got.Phases) > 0 {
				t.Errorf("%+v, known %v; want %v, known %v", got, known, c.want, !c.unknown)
			}
		})
	}
}

// A minute that was seen in part counts as what was seen of it, wherever its gap is.
func TestGrowthOfMinutesWithGaps(t *testing.T) {
	peaks := levels(200, 20, 100, 300)
	for gap := range 4 {
		s := minutes(peaks...)
		for i := gap; i < len(s.Values); i += 4 {
			s.Values[i] = math.NaN()
		}
		got, known := forecast.GrowthOf(s, forecast.GrowthRule{Lead: time.Minute}, 0.99)
		if !known || got.Factor != 3 {
			t.Errorf("sample %d of each minute missing: %+v, known %v; want 3", gap, got, known)
		}
	}
}

// Jobs that begin by the clock are grown for when they come, and not in between.
func TestGrowthByTheClock(t *testing.T) {
	hour := func(burst int) []float64 { return levels(24*60, 30, 100, float64(burst)) }
	noon := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	rule := forecast.GrowthRule{Lead: 2 * time.Minute, Tolerance: 0.1}
	got, known := forecast.GrowthOf(minutes(hour(400)...), rule, 0.99)
	if !known || len(got.Phases) != 30 {
		t.Fatalf("%+v, known %v: want half an hour's", got, known)
	}
	// The burst is in the last minute of each half hour, here one before and after count
	// as it, and two minutes before one asks for it.
	for minute, want := range map[int]float64{0: 4, 1: 1, 10: 1, 25: 1, 26: 4, 29: 4, 30: 4, 31: 1, 56: 4, 59: 4} {
		if f := got.At(noon.Add(time.Duration(minute) * time.Minute)); f < want/1.03 || f > want*1.03 {
			t.Errorf("in minute %d demand may grow by %.2f, want %v", minute, f, want)
		}
	}
	// A burst that comes at any time is grown for at any time.
	r := rand.New(rand.NewPCG(3, 4))
	var any []float64
	for range 24 * 60 {
		any = append(any, 100)
		if r.IntN(30) == 0 {
			any[len(any)-1] = 400
		}
	}
	if got, _ := forecast.GrowthOf(minutes(any...), rule, 0.99); got.At(noon) < 3.9 || got.At(noon.Add(7*time.Minute)) < 3.9 {
		t.Errorf("bursts at random: %v at noon, %v after", got.At(noon), got.At(noon.Add(7*time.Minute)))
	}
	if got := (forecast.Growth{}).At(noon); got != 1 {
		t.Errorf("nothing known grows by %v", got)
	}
}

// What the rule holds is what is grown from.
func TestGrowthKnowsTheRule(t *testing.T) {
	steps := minutes(levels(400, 2, 100, 109)...)
	for name, c := range map[string]struct {
		rule forecast.GrowthRule
		want float64
	}{
		"follows at once": {forecast.GrowthRule{Lead: time.Minute}, 1.09},
		"holds":           {forecast.GrowthRule{Lead: time.Minute, Hold: 5 * time.Minute}, 1},
	} {
		if got, _ := forecast.GrowthOf(steps, c.rule, 0.99); math.Abs(got.Factor-c.want) > 1e-9 || len(got.Phases) > 0 {
			t.Errorf("%s: %+v, want %v", name, got, c.want)
		}
	}
}

// Of what comes the objective's share is covered, on demand with noise, bursts at random
// and gaps, whatever their size: that is the promise. Half of each series is what is
// known, the other half what comes. Capacity follows demand at once, or by a tolerance
// and a while late.
func TestGrowthCovers(t *testing.T) {
	const objective, lead, n = 0.99, 3 * time.Minute, 40_000
	for name, c := range map[string]struct {
		size float64
		rule forecast.GrowthRule
	}{
		"one pod's":           {1, forecast.GrowthRule{Lead: lead}},
		"three hundred pods'": {300, forecast.GrowthRule{Lead: lead}},
		"held":                {1, forecast.GrowthRule{Lead: lead, Hold: 5 * time.Minute, Tolerance: 0.1}},
	} {
		size := c.size
		r := rand.New(rand.NewPCG(7, 9))
		missed, minutes := 0, 0
		for range 10 {
			s := api.Series{Start: time.Unix(0, 0), Step: 15 * time.Second}
			burst := 0
			for i := range n {
				if burst--; r.IntN(700) == 0 {
					burst = 8 + r.IntN(20)
				}
				v := size * (2 + math.Sin(float64(i)/900)) * math.Exp(0.05*r.NormFloat64())
				if burst > 0 {
					v *= 3
				}
				if r.IntN(50) == 0 {
					v = math.NaN()
				}
				s.Values = append(s.Values, v)
			}
			past := s
			past.Values = s.Values[:n/2]
			growth, known := forecast.GrowthOf(past, c.rule, objective)
			if !known {
				t.Fatal("not known")
			}
			ahead, has := int(lead/s.Step), math.NaN()
			capacity := make([]float64, n)
			for i, v := range s.Values {
				need := func(k int) float64 {
					return s.Values[k] * growth.At(s.Start.Add(time.Duration(k)*s.Step))
				}
				most := 0.0
				for k := max(0, i-int(c.rule.Hold/s.Step)); k <= i; k++ {
					if !math.IsNaN(s.Values[k]) {
						most = max(most, need(k))
					}
				}
				if math.IsNaN(has) || !math.IsNaN(v) && need(i) > has*(1+c.rule.Tolerance) {
					has = need(i)
				} else if most > 0 && most < has*(1-c.rule.Tolerance) {
					has = most
				}
				capacity[i] = has
			}
			for i := n / 2; i+4 <= n; i += 4 {
				late := false
				for k := i; k < i+4; k++ {
					late = late || s.Values[k] > capacity[k-ahead]
				}
				minutes++
				if late {
					missed++
				}
			}
		}
		// Bursts come together in minutes: the share's own deviation is about a tenth of it.
		if share := 1 - float64(missed)/float64(minutes); share < objective-0.003 || share > objective+0.003 {
			t.Errorf("%s demand: %.4f of minutes were covered, want about %v", name, share, objective)
		}
	}
}

// Two days of samples: what a workload costs every five minutes.
func BenchmarkGrowth(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	s := api.Series{Start: time.Unix(0, 0), Step: 15 * time.Second}
	for i := range 48 * 240 {
		s.Values = append(s.Values, (2+math.Sin(float64(i)/900))*math.Exp(0.05*r.NormFloat64()))
	}
	for b.Loop() {
		if _, known := forecast.GrowthOf(s, forecast.GrowthRule{Lead: 3 * time.Minute, Hold: 10 * time.Minute, Tolerance: 0.1}, 0.999); !known {
			b.Fatal("not known")
		}
	}
}

// What comes again is held for as long as it takes to come: it need not be foreseen then. What
// comes once, or never, is not.
func TestHoldOfWhatComesAgain(t *testing.T) {
	holds := []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute}
	every := func(n int) []float64 { // five minutes of ten times as much, every n, and once even more
		var out []float64
		for i := range 1440 {
			out = append(out, map[bool]float64{true: 1000, false: 100}[n > 0 && i%n < 5])
		}
		out[1] = 3000
		return out
	}
	for name, c := range map[string]struct {
		values []float64
		want   time.Duration
	}{
		"every quarter of an hour": {every(15), 10 * time.Minute}, // it is still there when the next one comes
		"every 22 minutes":         {every(22), 20 * time.Minute},
		"every 35 minutes":         {every(35), 40 * time.Minute},
		"once a day":               {every(1440), 10 * time.Minute},
		"never":                    {every(0), 10 * time.Minute},
		"a history too short":      {every(15)[:40], 10 * time.Minute},
	} {
		if got := forecast.HoldOf(minutes(c.values...), forecast.GrowthRule{Lead: 4 * time.Minute}, holds, 0.99); got != c.want {
			t.Errorf("%s: held for %v, want %v", name, got, c.want)
		}
	}
}

// Of two ways to have as much, the one that changes less is cheaper.
func TestHoldOfCountsChanges(t *testing.T) {
	var saw []float64
	for i := range 1440 {
		saw = append(saw, 100+float64(i%30)) // up by the minute, and down at once
	}
	holds := []time.Duration{0, 30 * time.Minute}
	at := func(lead time.Duration) time.Duration {
		return forecast.HoldOf(minutes(saw...), forecast.GrowthRule{Lead: lead}, holds, 0.99)
	}
	for lead, want := range map[time.Duration]time.Duration{time.Minute: holds[0], 10 * time.Minute: holds[1]} {
		if got := at(lead); got != want {
			t.Errorf("what is added serves after %v: held for %v, want %v", lead, got, want)
		}
	}
}
