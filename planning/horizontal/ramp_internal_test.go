package horizontal

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// noise is a series without a trend: normal readings, or averages of some of them,
// as a rate over a window is.
func noise(rng *rand.Rand, n, window int) []float64 {
	raw := make([]float64, n+window)
	for i := range raw {
		raw[i] = 1000 + 100*rng.NormFloat64()
	}
	return averages(raw, window)
}

// averages of so many values on end.
func averages(raw []float64, window int) []float64 {
	out := make([]float64, len(raw)-window)
	for i := range out {
		for _, v := range raw[i : i+window] {
			out[i] += v / float64(window)
		}
	}
	return out
}

func TestNoiseIsTakenForARiseInAHundredthOfCycles(t *testing.T) {
	for name, window := range map[string]int{"readings": 1, "averages of two": 2, "averages of four": 4, "averages of eight": 8} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			v := noise(rng, 20_000, window)
			alarms := 0
			for end := 100; end <= len(v); end++ {
				if slope, _, _ := ramping(v[:end], 60, 0); slope > 0 {
					alarms++
				}
			}
			if share := float64(alarms) / float64(len(v)-99); share > 0.015 || share == 0 {
				t.Errorf("in %.4f of cycles, want about 0.01", share)
			}
		})
	}
}

// Readings that don't rise are taken to rise faster than demand in a cycle of a hundred.
func TestReadingsAreSteeperThanNoiseInAHundredthOfCycles(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	raw := noise(rng, 20_000, 1)
	demand := averages(raw, 4) // of raw[i], and the three after it
	alarms, cycles := 0, 0
	for end := 100; end <= len(demand); end++ {
		scatter, _ := scattered(demand[:end], 60)
		cycles++
		if steepness(0, 0, scatter, usage(0, raw[end+1], 4), usage(1, raw[end+2], 4), 1) > 0 {
			alarms++
		}
	}
	if share := float64(alarms) / float64(cycles); share > 0.015 || share < 0.007 {
		t.Errorf("in %.4f of cycles, want about 0.01", share)
	}
}

// usage is a reading of so many pods at a step.
func usage(step int, milli float64, pods int32) api.Usage {
	return api.Usage{At: time.Time{}.Add(time.Duration(step)), MilliCPU: milli, Pods: pods}
}

func TestSteepness(t *testing.T) {
	for name, c := range map[string]struct {
		scatter       float64
		first, second api.Usage
		want          float64
	}{
		"readings rise alike":                 {0, usage(0, 110, 4), usage(1, 120, 4), 10},
		"they rise no more":                   {1, usage(0, 110, 4), usage(1, 110, 4), 0},
		"they fall":                           {1, usage(0, 110, 4), usage(1, 105, 4), -5},
		"they rise less":                      {1, usage(0, 110, 4), usage(1, 115, 4), 5},
		"they rise more, within scatter":      {1, usage(0, 110, 4), usage(1, 126, 4), 10},
		"they rise more than by scatter":      {1, usage(0, 110, 4), usage(1, 150, 4), 40 - 6.579},
		"without scatter":                     {0, usage(0, 110, 4), usage(1, 150, 4), 40},
		"four steps apart":                    {1, usage(0, 110, 4), usage(4, 190, 4), (80 - 6.579) / 4},
		"four steps apart, but rising less":   {1, usage(0, 110, 4), usage(4, 130, 4), 5},
		"new pods had no reading":             {0, usage(0, 55, 4), usage(1, 120, 8), 20}, // of 100 that demand is
		"new pods had none, and rising alike": {0, usage(0, 55, 4), usage(1, 105, 8), 10},
		"there are new pods":                  {0, usage(0, 110, 4), usage(1, 150, 5), 40},
	} {
		t.Run(name, func(t *testing.T) {
			if got := steepness(10, 100, c.scatter, c.first, c.second, 1); math.Abs(got-c.want) > 1e-3 {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestRising(t *testing.T) {
	ramp := func(flat int, values ...float64) []float64 {
		var out []float64
		for i := range flat {
			out = append(out, 100+float64(i%2)) // even ones are the lower; the same two steps apart
		}
		return append(out, values...)
	}
	for name, c := range map[string]struct {
		v             []float64
		slope, lasted float64
	}{
		"two steps":                  {ramp(21, 120, 140), 19.5, 2},
		"five steps":                 {ramp(21, 110, 120, 140, 160, 180), 20, 5},
		"one step is no ramp yet":    {ramp(20, 101, 140), 0, 0},
		"it has ended":               {ramp(20, 120, 140, 140, 140), 0, 0},
		"a fall":                     {ramp(20, 90, 80), 0, 0},
		"too little is known before": {ramp(8, 120, 140), 0, 0},
		"just enough is known":       {ramp(11, 120, 140), 20, 2},
		"within the tolerance":       {ramp(21, 103, 109), 0, 0},
		"slowly beyond it":           {ramp(21, 103, 106, 109, 112), 3, 4},
		"a gap in it":                {ramp(20, math.NaN(), 140), 0, 0},
		"nothing":                    {nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			slope, lasted, _ := ramping(c.v, 60, 0.1)
			if math.Abs(slope-c.slope) > 0.51 || lasted != c.lasted {
				t.Errorf("%v for %v steps, want %v for %v", slope, lasted, c.slope, c.lasted)
			}
		})
	}
}

// What rises and falls lately is no ramp, though it would be on quiet demand.
func TestARiseMustStandOut(t *testing.T) {
	var v []float64
	for i := range 60 {
		v = append(v, 100+20*math.Sin(float64(i)))
	}
	last := v[len(v)-1]
	if slope, _, _ := ramping(append(v, last+10, last+20), 60, 0.1); slope > 0 {
		t.Errorf("a ramp of %v a step among swings of 20", slope)
	}
	if slope, _, _ := ramping(append(v, last+100, last+200), 60, 0.1); !(slope > 0 && slope < 100) {
		t.Errorf("a ramp of %v a step, want what is beyond the scatter of 100", slope)
	}
}
