package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// wide says a mean, and of every quantile a multiple of it.
type wide struct{ mean []float64 }

func (wide) Name() string { return "wide" }

func (wide) Update(s State, _ api.Series, _ int) (State, error) { return s, nil }

func (w wide) Forecast(_ State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	f := api.Forecast{
		Start: series.End().Add(series.Step), Step: series.Step, Levels: levels, Skill: math.NaN(),
		Mean: slices.Clone(w.mean[:horizon]), PeakQuantiles: make([]float64, len(levels)),
	}
	for k, q := range levels {
		row := make([]float64, horizon)
		for j, mean := range f.Mean {
			row[j] = 10 * q * mean
		}
		f.Quantiles = append(f.Quantiles, row)
		f.PeakQuantiles[k] = slices.Max(row)
	}
	return f, nil
}

func TestPrecedented(t *testing.T) {
	nan := math.NaN()
	flat := func(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }
	for _, tc := range []struct {
		name   string
		values []float64
		past   []float64
		bound  bool // the first sample is a lower bound
		mean   []float64
		q      float64
		want   []float64 // of the quantile
		peak   float64
	}{
		{name: "of 27 samples a tenth is three steps", values: append([]float64{5}, flat(26, 1)...),
			mean: flat(5, 1), q: 0.9, want: []float64{5.5, 5.5, 5.5, 9, 9}, peak: 9},
		{name: "and of the peak, where it is no further ahead", values: append([]float64{5}, flat(26, 1)...),
			mean: flat(3, 1), q: 0.9, want: []float64{5.5, 5.5, 5.5}, peak: 5.5},
		{name: "gaps have seen nothing", values: append([]float64{5}, append(flat(17, nan), flat(17, 1)...)...),
			mean: flat(3, 1), q: 0.9, want: []float64{5.5, 5.5, 9}, peak: 9},
		{name: "a high quantile needs more of them", values: append([]float64{5}, flat(98, 1)...),
			mean: flat(3, 1), q: 0.99, want: []float64{5.5, 9.9, 9.9}, peak: 9.9},
		{name: "the mean is not doubted", values: append([]float64{5}, flat(26, 1)...),
			mean: []float64{1, 6, 4}, q: 0.9, want: []float64{5.5, 6, 6}, peak: 6},
		{name: "where a record was set just now there is growth", values: append(flat(26, 1), 5),
			mean: flat(3, 5), q: 0.9, want: flat(3, 45), peak: 45},
		{name: "and two samples ago, for further than that ahead", values: append(flat(25, 1), 5, 1, 1),
			mean: flat(3, 1), q: 0.9, want: []float64{5.5, 5.5, 9}, peak: 9},
		{name: "the past has precedents too", values: flat(27, 1), past: []float64{nan, 7, 2},
			mean: flat(3, 1), q: 0.9, want: flat(3, 7.7), peak: 7.7},
		{name: "what was cut off may have been more", values: append([]float64{3}, flat(26, 1)...), bound: true,
			mean: flat(3, 1), q: 0.9, want: flat(3, 6.6), peak: 6.6},
		{name: "what is below is left", values: append([]float64{50}, flat(26, 1)...),
			mean: flat(3, 1), q: 0.9, want: flat(3, 9), peak: 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			series := api.Series{Start: time.Unix(0, 0), Step: time.Minute, Values: tc.values}
			if tc.past != nil {
				series.Past = &api.Series{Start: series.Start.Add(-3 * time.Hour), Step: time.Hour, Values: tc.past}
			}
			if tc.bound {
				series.Censored = []api.Span{{From: series.Start, To: series.Start}}
			}
			got, err := Precedented{wide{tc.mean}}.Forecast(State{}, series, len(tc.mean), []float64{tc.q})
			if err != nil {
				t.Fatal(err)
			}
			for j, want := range tc.want {
				if v := got.Quantiles[0][j]; math.Abs(v-want) > 1e-9 {
					t.Errorf("quantile of step %d is %v, want %v", j+1, v, want)
				}
			}
			if math.Abs(got.PeakQuantiles[0]-tc.peak) > 1e-9 {
				t.Errorf("quantile of the peak is %v, want %v", got.PeakQuantiles[0], tc.peak)
			}
		})
	}
}

// The bound must hold what it says: of series whose samples come in any order alike,
// of a walk around a level, and of a season with noise no more than a tenth may be
// above it, at any of the steps that it is for.
func TestPrecedentsHold(t *testing.T) {
	const n, histories, q = 90, 4000, 0.9
	for name, draw := range map[string]func(random *rand.Rand) []float64{
		"independent": func(random *rand.Rand) []float64 {
			y := make([]float64, 2*n)
			for i := range y {
				y[i] = random.ExpFloat64()
			}
			return y
		},
		"autoregressive": func(random *rand.Rand) []float64 {
			y, v := make([]float64, 2*n), 0.0
			for i := range 200 + len(y) {
				if v = 0.9*v + random.NormFloat64(); i >= 200 {
					y[i-200] = v
				}
			}
			return y
		},
		"seasonal": func(random *rand.Rand) []float64 {
			y, phase := make([]float64, 2*n), 2*math.Pi*random.Float64()
			for i := range y {
				y[i] = 10 + 5*math.Sin(phase+2*math.Pi*float64(i)/30) + random.NormFloat64()
			}
			return y
		},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			above, counted := map[int]float64{}, map[int]float64{}
			for range histories {
				y := draw(random)
				p := PrecedentOf(api.Series{Step: time.Minute, Values: y[:n]})
				highest := math.Inf(-1)
				for j := 1; j <= n; j++ {
					highest = max(highest, y[n+j-1])
					// Every history is counted, also those that bound nothing; and what is
					// above the largest value, without the tolerance that is around it.
					counted[j]++
					if j <= p.Steps(q) && highest > p.Top/alike {
						above[j]++
					}
				}
			}
			for j, n := range counted {
				// Three standard errors of a tenth.
				if share := above[j] / n; share > 1-q+3*math.Sqrt(q*(1-q)/n) {
					t.Errorf("%.3f of what came within %d steps was above", share, j)
				}
			}
		})
	}
}

// Three beats and a pause, seen once and a little more: whatever is thought of where
// the next one is, it is hardly higher than the last.
func TestYoungSeasonAsksForNoMoreThanWasEverSeen(t *testing.T) {
	beat := func(i int) float64 {
		if i %= 52; i < 48 && i%16 < 12 {
			return 1200
		}
		return 50
	}
	for n := 60; n <= 120; n++ {
		series := api.Series{Start: time.Unix(0, 0), Step: 15 * time.Second}
		for i := range n {
			series.Values = append(series.Values, beat(i)*(1+0.03*math.Sin(float64(7*i))))
		}
		f, err := Predict(Guarded(Auto{}), series, 60, []float64{0.5, 0.9})
		if err != nil {
			t.Fatal(err)
		}
		top := slices.Max(series.Values)
		for j := range min(n/9, PrecedentOf(series).Since) {
			if v, most := f.Quantiles[1][j], max(alike*top, slices.Max(f.Mean)); v > most+1e-9 {
				t.Errorf("after %d samples: %.0f at q=0.9, %d steps ahead; there never was more than %.0f", n, v, j+1, top)
			}
		}
	}
}

func TestPrecedentOf(t *testing.T) {
	nan := math.NaN()
	for name, tc := range map[string]struct {
		values, past []float64
		cut          int // the sample that is a lower bound; -1 for none
		want         Precedent
	}{
		"the largest, and how long ago":             {[]float64{1, 5, 2, 3}, nil, -1, Precedent{5 * alike, 4, 2}},
		"of equal ones the newest":                  {[]float64{5, 1, 5, 1}, nil, -1, Precedent{5 * alike, 4, 1}},
		"gaps are no samples but time":              {[]float64{1, 5, nan, 3}, nil, -1, Precedent{5 * alike, 3, 2}},
		"what was cut off may have been more":       {[]float64{1, 5, 4, 3}, nil, 2, Precedent{4 * beyond * alike, 4, 1}},
		"a past that was higher":                    {[]float64{1, 5, 2, 3}, []float64{7, nan}, -1, Precedent{7 * alike, 4, 4}},
		"a past that was as high is further ago":    {[]float64{1, 5, 2, 3}, []float64{5}, -1, Precedent{5 * alike, 4, 2}},
		"nothing has been seen where all are gaps":  {[]float64{nan, nan}, nil, -1, Precedent{math.Inf(-1), 0, 2}},
		"nothing has been seen where there is none": {nil, nil, -1, Precedent{math.Inf(-1), 0, 0}},
	} {
		series := byTheMinute(0, tc.values...)
		if tc.cut >= 0 {
			series.Censored = []api.Span{{From: minute(tc.cut), To: minute(tc.cut)}}
		}
		if tc.past != nil {
			past := byTheMinute(-60, tc.past...)
			series.Past = &past
		}
		if got := PrecedentOf(series); !cmp.Equal(got, tc.want, nearly) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
		if tc.cut < 0 { // series with bounds are read in another way
			series.Censored = []api.Span{{From: minute(-90), To: minute(-90)}}
			if got := PrecedentOf(series); !cmp.Equal(got, tc.want, nearly) {
				t.Errorf("%s, with a bound of before: %+v, want %+v", name, got, tc.want)
			}
		}
	}
}

// Of many stretches that were cut off each sample is read as Series.Bound reads it.
func TestPrecedentOfManyBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 60).Draw(t, "values")
		series := byTheMinute(0, values...)
		for from := rapid.IntRange(-5, 5).Draw(t, "first"); from < len(values)+5; from += rapid.IntRange(1, 9).Draw(t, "free") {
			to := from + rapid.IntRange(0, 4).Draw(t, "length")
			off := time.Duration(rapid.IntRange(0, 59).Draw(t, "off")) * time.Second
			series.Censored = append(series.Censored, api.Span{From: minute(from).Add(off), To: minute(to).Add(off)})
			from = to
		}
		as := series
		as.Values, as.Censored = slices.Clone(values), nil
		for i := range as.Values {
			if series.Bound(minute(i)) {
				as.Values[i] *= beyond
			}
		}
		if got, want := PrecedentOf(series), PrecedentOf(as); !cmp.Equal(got, want, nearly) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// Two days of samples of which each fourth was at its limit: a pass over them, whatever
// the number of stretches.
func BenchmarkPrecedentOf(b *testing.B) {
	series := api.Series{Start: time.Unix(0, 0), Step: 15 * time.Second}
	for i := range 48 * 240 {
		series.Values = append(series.Values, 1000+float64(i%7))
		if at := series.End(); i%4 == 0 {
			series.Censored = append(series.Censored, api.Span{From: at, To: at})
		}
	}
	for b.Loop() {
		PrecedentOf(series)
	}
}
