package baseline

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestKEDA(t *testing.T) {
	// 20 requests per second each.
	tests := map[string]struct {
		current, observed int32
		rps               float64
		want              int32
		wantErr           error
	}{
		"as many as the metric asks for":        {current: 4, observed: 4, rps: 110, want: 6},
		"within a tenth of it nothing changes":  {current: 4, observed: 4, rps: 87, want: 4},
		"at most double, or four":               {current: 2, observed: 2, rps: 1000, want: 4},
		"at most the maximum":                   {current: 9, observed: 9, rps: 1000, want: 12},
		"at least the minimum":                  {current: 2, observed: 2, rps: 0, want: 2},
		"pods that are still to come count not": {current: 6, observed: 4, rps: 80, want: 6},
		"no metric, no change":                  {current: 5, observed: 5, rps: math.NaN(), want: 5, wantErr: ErrNoMetrics},
		"scaled to zero by hand it stays there": {current: 0, observed: 0, rps: 100, want: 0},
		"above the maximum it comes down":       {current: 20, observed: 20, rps: 1000, want: 12},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k := NewKEDA(20, 2, 12)
			got, err := k.Reconcile(time.Hour, tc.current, tc.observed, tc.rps)
			if got != tc.want || !errors.Is(err, tc.wantErr) {
				t.Errorf("%d replicas, error %v; want %d, %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

// A lower metric is followed after five minutes, not before.
func TestKEDAComesDownLate(t *testing.T) {
	k := NewKEDA(20, 2, 12)
	n := int32(2)
	var down time.Duration
	for at := time.Duration(0); at < 20*time.Minute; at += 15 * time.Second {
		rps := 200.0
		if at >= 10*time.Minute {
			rps = 40
		}
		n, _ = k.Reconcile(at, n, n, rps)
		if at < 10*time.Minute && at >= time.Minute && n != 10 {
			t.Fatalf("%v: %d replicas for 200 requests per second, want 10", at, n)
		}
		if n == 2 && at > 10*time.Minute && down == 0 {
			down = at
		}
	}
	if down < 14*time.Minute+45*time.Second || down > 15*time.Minute+15*time.Second {
		t.Errorf("came down at %v, want five minutes after the load did at 10m", down)
	}
}

func TestPlaceholders(t *testing.T) {
	tests := map[string]struct {
		percent  float64
		milliCPU int64
		want     int32
	}{
		"the FAQ's: one for each core":    {20, 6000, 6},
		"parts of a core count whole":     {20, 1880, 2},
		"none for no nodes":               {20, 0, 0},
		"half of that":                    {10, 6000, 3},
		"a part of a placeholder is one":  {10, 5000, 3},
		"an eighth of a large cluster":    {12.5, 64000, 40},
		"with a quotient that is inexact": {30, 2000, 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Placeholders(tc.percent).Replicas(tc.milliCPU); got != tc.want {
				t.Errorf("%d placeholders, want %d", got, tc.want)
			}
		})
	}
}

// As many placeholders as hold the share of the cores, and not one more.
func TestPlaceholdersHoldTheShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent, cores := rapid.IntRange(1, 90).Draw(t, "percent"), rapid.IntRange(0, 5000).Draw(t, "cores")
		n := int(Placeholders(float64(percent)).Replicas(int64(cores) * 1000))
		if held, want := n*PlaceholderMilliCPU, cores*10*percent; held < want || held-PlaceholderMilliCPU >= want {
			t.Errorf("%d placeholders hold %dm, want %dm", n, held, want)
		}
	})
}

// steady are pods with this utilisation of 100m, Ready for long.
func steady(n int32, percent float64) []Pod {
	var out []Pod
	for range n {
		out = append(out, Pod{
			Request: 1000, Ready: true, HasStarted: true, Started: -time.Hour, ReadyChanged: -time.Hour,
			HasMetric: true, Usage: int64(10 * percent), MetricAt: 0, Window: time.Minute,
		})
	}
	return out
}

// After some seasons of the same, Holt-Winters has the next value right, whatever
// the season is: the smoothing has nothing left to correct.
func TestHoltWintersKnowsASeason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(4, 40).Draw(t, "season")
		season := rapid.SliceOfN(rapid.Int32Range(1, 30), m, m).Draw(t, "values")
		p := NewPHPA(80, 1, 100, time.Duration(m)*PHPASync)
		// Gentle coefficients: with the example's the model swings for long about what
		// it began with.
		p.Alpha, p.Beta, p.Gamma = 0.3, 0.1, 0.3
		var last int32
		for i := range 60 * m {
			last = p.seasonal(season[i%m])
		}
		if want := season[0]; last < want || last > want+1 {
			t.Errorf("predicts %d, what comes is %d", last, want)
		}
	})
}

// What is kept from sync to sync is what a fit from the beginning gives.
func TestHoltWintersGoesOnAsItBegan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(4, 20).Draw(t, "season")
		p := NewPHPA(80, 1, 100, time.Duration(m)*PHPASync)
		for i, v := range rapid.SliceOfN(rapid.Int32Range(1, 40), 1, 8*m).Draw(t, "values") {
			got := p.seasonal(v)
			if n := len(p.past); n > (p.StoredSeasons+1)*m {
				t.Fatalf("%d values of seasons of %d are kept", n, m)
			}
			if i+1 < 10+2*(m/2) {
				if got != 0 {
					t.Fatalf("predicts %d from %d values", got, i+1)
				}
				continue
			}
			if p.fit == nil {
				continue // seasons went: it begins anew
			}
			if want := p.fitted(p.past); math.Abs(want.next()-p.fit.next()) > 1e-6*max(1, math.Abs(want.next())) {
				t.Fatalf("after %d values %g, a fit from the beginning gives %g", i+1, p.fit.next(), want.next())
			}
		}
	})
}

// By hand, season of 2: level 10, no trend, season +2, −2 and nothing to correct.
func TestHoltWintersByHand(t *testing.T) {
	h := &holtWinters{alpha: 0.9, beta: 0.9, gamma: 0.9, level: 10, season: []float64{2, -2}}
	h.add(12)
	if got := h.next(); math.Abs(got-8) > 1e-9 {
		t.Errorf("after what was expected %g is, want 8", got)
	}
	// 10 instead of 8: level 0.9·12 + 0.1·10 = 11.8, trend 0.9·1.8 = 1.62, and 2 + both.
	h.add(10)
	if got := h.next(); math.Abs(got-15.42) > 1e-9 {
		t.Errorf("after two more than expected %g is, want 15.42", got)
	}
}

func TestLinear(t *testing.T) {
	p := NewPHPA(80, 1, 100, 10*time.Minute)
	// One value is all there is to go by; then the guide's 1, 3, 5, a sync of 10 s each.
	for i, want := range []int32{1, 5, 7} {
		if got := p.linear(time.Duration(i)*10*time.Second, int32(1+2*i)); got != want {
			t.Errorf("after %d values %d, want %d", i+1, got, want)
		}
	}
	for range 20 {
		p.linear(0, 4)
	}
	if len(p.recent) != p.HistorySize {
		t.Errorf("%d values are kept, want %d", len(p.recent), p.HistorySize)
	}
}

// A PHPA wants no less than what an HPA calculates from the same picture, within
// the bounds and its rate.
func TestPHPAWantsNoLessThanAnHPA(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewPHPA(80, 2, 30, time.Duration(rapid.IntRange(1, 20).Draw(t, "season"))*time.Minute)
		n := int32(2)
		for i := range rapid.IntRange(1, 80).Draw(t, "syncs") {
			pods := steady(n, float64(rapid.IntRange(0, 200).Draw(t, "utilisation")))
			now := time.Duration(i) * PHPASync
			calculated, err := p.calculate(now, n, pods)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Reconcile(now, n, pods)
			if err != nil {
				t.Fatal(err)
			}
			if got < 2 || got > 30 || got < min(calculated, 30, max(n+4, 2*n)) {
				t.Fatalf("wants %d of 2 to 30 with %d, an HPA %d", got, n, calculated)
			}
			n = got
		}
	})
}
