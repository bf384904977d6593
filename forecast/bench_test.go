package forecast

import (
	"fmt"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
)

var benchLevels = []float64{0.5, 0.9, 0.95, 0.99}

func benchSeries(n int) map[string]api.Series {
	return map[string]api.Series{
		"heartbeat": forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, n, 0.05, 5, 0.02, 1),
		"daily":     forecasttest.Sampled(forecasttest.Sine(86400, 100, 50), time.Minute, n, 0, 10, 0.02, 1),
		"fine":      forecasttest.Sampled(forecasttest.Sine(86400, 100, 50), 15*time.Second, n, 0, 10, 0.02, 1),
	}
}

// BenchmarkForecast is the cost per workload and cycle, without refits.
func BenchmarkForecast(b *testing.B) {
	for _, of := range []struct {
		name       string
		n, horizon int
	}{
		{"heartbeat", 1500, 40}, {"heartbeat", 10080, 40}, {"daily", 1500, 40}, {"daily", 10080, 40},
		// What the operator keeps and asks for by default.
		{"fine", 11520, 64},
	} {
		series := benchSeries(of.n)[of.name]
		b.Run(fmt.Sprintf("%s/%d", of.name, of.n), func(b *testing.B) {
			s, err := Auto{}.Update(NewState("bench"), series, of.horizon)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Auto{}).Forecast(s, series, of.horizon, benchLevels); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRefit is the cost of one refit.
func BenchmarkRefit(b *testing.B) {
	for _, n := range []int{1500, 10080} {
		series := benchSeries(n)["heartbeat"]
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Auto{}).Update(State{}, series, 40); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUpdate is the amortised cost per cycle of a window that slides by a
// sample a cycle: most updates find nothing due.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1500, 10080} {
		long := benchSeries(n + 4000)["heartbeat"]
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var s State
			for i := 0; b.Loop(); i = (i + 1) % 4000 {
				window := long
				window.Values = long.Values[i : i+n]
				window.Start = long.Start.Add(time.Duration(i) * long.Step)
				var err error
				if s, err = (Auto{}).Update(s, window, 40); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPortfolio is the cost of the whole portfolio: a cold fit, one forecast,
// and an update of a window that slides, refits and what is between them together.
func BenchmarkPortfolio(b *testing.B) {
	for _, n := range []int{1500, 10080} {
		long := benchSeries(n + 4000)["daily"]
		series := long
		series.Values = long.Values[:n]
		b.Run(fmt.Sprintf("fit/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Auto{Portfolio: true}).Update(State{}, series, 40); err != nil {
					b.Fatal(err)
				}
			}
		})
		s, err := Auto{Portfolio: true}.Update(NewState("bench"), series, 40)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("forecast/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Auto{Portfolio: true}).Forecast(s, series, 40, benchLevels); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("update/%d", n), func(b *testing.B) {
			s := s
			for i := 0; b.Loop(); i = (i + 1) % 4000 {
				window := long
				window.Values = long.Values[i : i+n]
				window.Start = long.Start.Add(durationOf(i, long))
				var err error
				if s, err = (Auto{Portfolio: true}).Update(s, window, 40); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLong is the cost of a refit of what the operator runs with four weeks
// remembered, and of one that knows two days.
func BenchmarkLong(b *testing.B) {
	whole := month(time.Minute, 0.02)
	n := len(whole.Values)
	series := whole
	series.Start, series.Values = whole.Start.Add(durationOf(n-2880, whole)), whole.Values[n-2880:]
	for name, fold := range map[string]Fold{"two days": {}, "four weeks": Fold{}.Add(whole)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := NewState("long")
				s.Fold = &fold
				if _, err := Guarded(Auto{}).Update(s, series, 20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
