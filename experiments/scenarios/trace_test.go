package scenarios

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTrace(t *testing.T) {
	plain := "10\n20\n40\n0\n"
	clock := "when,n,what\n2026-01-05T00:00:00Z,10,a\n2026-01-05T00:00:10Z,20,b\n2026-01-05T00:00:40Z,80,c\n"
	for name, test := range map[string]struct {
		csv      string
		arrivals Arrivals
		warmup   int
		wantErr  string
		want     map[time.Duration]float64 // RPS of a pass
		wantPass time.Duration
	}{
		"a column of rates at a fixed step, linear in between": {
			csv: plain, arrivals: Arrivals{Step: seconds(10)}, wantPass: 40 * time.Second,
			want: map[time.Duration]float64{0: 10, 5 * time.Second: 15, 20 * time.Second: 40, 25 * time.Second: 20, 35 * time.Second: 0, 40 * time.Second: 0},
		},
		"a header is found without a column's name": {
			csv: "rps\n" + plain, arrivals: Arrivals{Step: seconds(10)}, wantPass: 40 * time.Second,
			want: map[time.Duration]float64{0: 10},
		},
		"a time column with uneven steps; the last row lasts as long as the one before": {
			csv: clock, arrivals: Arrivals{Time: "when", Column: "n"}, wantPass: 70 * time.Second,
			want: map[time.Duration]float64{0: 10, 10 * time.Second: 20, 25 * time.Second: 50, 69 * time.Second: 80},
		},
		"unix seconds, by number of column": {
			csv: "1628640000,5\n1628640060,7\n", arrivals: Arrivals{Time: "0", Column: "1"}, wantPass: 2 * time.Minute,
			want: map[time.Duration]float64{30 * time.Second: 6},
		},
		"a slice": {
			csv: plain, arrivals: Arrivals{Step: seconds(10), From: seconds(10), Length: seconds(20)}, wantPass: 20 * time.Second,
			want: map[time.Duration]float64{0: 20, 10 * time.Second: 40, 15 * time.Second: 20},
		},
		"a slice repeated": {
			csv: plain, arrivals: Arrivals{Step: seconds(10), From: seconds(10), Length: seconds(20), Repeat: 3}, wantPass: time.Minute,
			want: map[time.Duration]float64{20 * time.Second: 20, 50 * time.Second: 40},
		},
		"scaled": {
			csv: plain, arrivals: Arrivals{Step: seconds(10), Scale: 0.5}, wantPass: 40 * time.Second,
			want: map[time.Duration]float64{20 * time.Second: 20},
		},
		"scaled to a peak, the highest of a few rows": {
			csv: plain, arrivals: Arrivals{Step: seconds(10), PeakRPS: 100}, wantPass: 40 * time.Second,
			want: map[time.Duration]float64{10 * time.Second: 50, 20 * time.Second: 100},
		},
		"scaled to a peak, the 99.9 % quantile of many": {
			csv: "99\n" + strings.Repeat("2\n1\n", 1000), arrivals: Arrivals{Step: seconds(1), PeakRPS: 100}, wantPass: 2001 * time.Second,
			want: map[time.Duration]float64{0: 4950, time.Second: 100},
		},
		"a gap takes the value before it": {
			csv: "v,w\n1,5\n2,\n3,7\n", arrivals: Arrivals{Step: seconds(1), Column: "w"}, wantPass: 3 * time.Second,
			want: map[time.Duration]float64{time.Second: 5},
		},
		"warm-up is what comes before":          {csv: plain, arrivals: Arrivals{Step: seconds(10), From: seconds(20)}, warmup: 1, wantPass: 20 * time.Second},
		"more warm-up than there is":            {csv: plain, arrivals: Arrivals{Step: seconds(10), From: seconds(20)}, warmup: 2, wantErr: "warming up for 2 passes takes 40s before from, which is 20s"},
		"no such column":                        {csv: clock, arrivals: Arrivals{Step: seconds(1), Column: "rps"}, wantErr: `there is no column "rps" among`},
		"a column beyond the row":               {csv: plain, arrivals: Arrivals{Step: seconds(1), Column: "3"}, wantErr: "line 1: there is no column 3"},
		"a negative load":                       {csv: "1\n-1\n", arrivals: Arrivals{Step: seconds(1)}, wantErr: `line 2: "-1" is not a load`},
		"a text":                                {csv: "1\nmany\n", arrivals: Arrivals{Step: seconds(1)}, wantErr: `line 2: "many" is not a load`},
		"infinite load":                         {csv: "1\ninf\n", arrivals: Arrivals{Step: seconds(1)}, wantErr: `line 2: "inf" is not a load`},
		"time that stands still":                {csv: "t,v\n5,1\n5,2\n", arrivals: Arrivals{Time: "t", Column: "v"}, wantErr: `line 3: "5" is not after the line before`},
		"a bad time":                            {csv: "t,v\nnoon,1\n", arrivals: Arrivals{Time: "t", Column: "v"}, wantErr: `line 2: "noon" is no time such as`},
		"nothing but a header":                  {csv: "v\n", arrivals: Arrivals{Step: seconds(1)}, wantErr: "has no rows"},
		"nothing but zeros":                     {csv: "0\n0\n", arrivals: Arrivals{Step: seconds(1)}, wantErr: "has no load in it"},
		"a start after the end":                 {csv: plain, arrivals: Arrivals{Step: seconds(1), From: seconds(4)}, wantErr: "lasts 4s, nothing is left after 4s"},
		"a pass longer than the trace":          {csv: plain, arrivals: Arrivals{Step: seconds(1), Length: seconds(5)}, wantErr: "lasts 4s after 0s, less than 5s"},
		"loads that nothing could ever compute": {csv: "1\n1e10\n", arrivals: Arrivals{Step: seconds(1)}, wantErr: "beyond what can be simulated"},
	} {
		t.Run(name, func(t *testing.T) {
			a := test.arrivals
			err := a.decode(strings.NewReader(test.csv), test.warmup)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error = %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s := Scenario{Arrivals: &a}
			if got := s.PassDuration(); got != test.wantPass {
				t.Errorf("pass = %s, want %s", got, test.wantPass)
			}
			l := s.Traffic(1, 1)
			for at, want := range test.want {
				if got := l.RPS(at); math.Abs(got-want) > 1e-9 {
					t.Errorf("RPS(%s) = %v, want %v", at, got, want)
				}
			}
		})
	}
}

func seconds(n int) Duration { return Duration{time.Duration(n) * time.Second} }

// A warm-up over arrivals is the trace before the measured pass, so that nobody
// has seen what is measured.
func TestWarmupIsThePast(t *testing.T) {
	a := Arrivals{Step: seconds(10), From: seconds(20), Length: seconds(10)}
	s := Scenario{Arrivals: &a, Warmup: Warmup{Passes: 2}}
	if err := a.decode(strings.NewReader("1\n2\n3\n4\n"), 2); err != nil {
		t.Fatal(err)
	}
	l := s.Traffic(4, 1)
	for i, want := range []float64{1, 2, 3, 3, 0} { // two of warm-up, the pass, the pass again, nothing
		if got := l.RPS(time.Duration(i) * 10 * time.Second); got != want {
			t.Errorf("pass %d begins with %v, want %v", i, got, want)
		}
	}
}

func TestLoadReadsAUsersTrace(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := fmt.Fprint(z, "rps\n10\n30\n"); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write("mine.csv.gz", zipped.Bytes())
	text := strings.Replace(valid, `stages: ["10s:5", "1m:0"]`, "arrivals: {csv: mine.csv.gz, step: 1m}", 1)
	file := write("mine.yaml", []byte(text))
	s, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Traffic(1, 1).RPS(30 * time.Second); got != 20 {
		t.Errorf("RPS = %v", got)
	}
	other := write("other.csv", []byte("50\n50\n50\n"))
	if s, err = LoadWith(file, Changes{Trace: other, Warmup: -1}); err != nil {
		t.Fatal(err)
	}
	if got := s.PassDuration(); got != 3*time.Minute {
		t.Errorf("pass of the other trace = %s", got)
	}
	if _, err := LoadWith("heartbeat", Changes{Trace: other}); err == nil {
		t.Error("a trace for a scenario without arrivals was accepted")
	}
	// A mistake in the trace names the scenario, the field, the trace and the line.
	write("mine.csv.gz", []byte("10\nx\n"))
	_, err = Load(file)
	want := fmt.Sprintf("%s: arrivals: %s: line 2: \"x\" is not a load", file, filepath.Join(dir, "mine.csv.gz"))
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
	// A scenario based on this one, in its folder.
	write("mine.csv.gz", []byte("10\n"))
	based := write("based.yaml", []byte("name: based\nbase: mine.yaml\nslo: {p95Ms: 50}\n"))
	if s, err = Load(based); err != nil {
		t.Fatal(err)
	}
	if s.SLO.P95Ms != 50 || s.SLO.FailedRatio != 0.01 || s.Arrivals == nil {
		t.Errorf("not based on the other: %+v", s)
	}
	loop := write("loop.yaml", []byte("name: loop\nbase: loop.yaml\n"))
	if _, err = Load(loop); err == nil || !strings.Contains(err.Error(), "base: more than 4 scenarios stand on each other") {
		t.Errorf("a scenario based on itself: %v", err)
	}
}

// The bound that thinning needs is a bound, whatever the events and the noise.
func TestMaxRPSIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Arrivals{Step: Duration{time.Duration(rapid.Int64Range(1e8, 1e11).Draw(t, "step"))}, Repeat: rapid.IntRange(0, 3).Draw(t, "repeat")}
		var text strings.Builder
		rows := rapid.SliceOfN(rapid.Float64Range(0, 1000), 2, 20).Draw(t, "rows")
		for _, v := range rows {
			fmt.Fprintf(&text, "%g\n", v)
		}
		if err := a.decode(strings.NewReader(text.String()), 0); err != nil {
			t.Skip(err)
		}
		s := Scenario{Arrivals: &a}
		if rapid.Bool().Draw(t, "noisy") {
			s.Noise = &Noise{Deviation: 0.5, Correlation: seconds(5)}
		}
		pass := s.PassDuration()
		for range rapid.IntRange(0, 3).Draw(t, "events") {
			e := Event{
				At:         Duration{time.Duration(rapid.Int64Range(0, int64(pass)-1).Draw(t, "at"))},
				For:        Duration{time.Duration(rapid.Int64Range(0, int64(pass)).Draw(t, "for"))},
				LoadFactor: rapid.Float64Range(0.1, 5).Draw(t, "factor"),
			}
			if rapid.Bool().Draw(t, "storm") {
				e.Noise = &Noise{Deviation: 0.3, Correlation: seconds(3)}
			}
			s.Events = append(s.Events, e)
		}
		l := s.Traffic(2, 1)
		from := time.Duration(rapid.Int64Range(0, int64(2*pass)-1).Draw(t, "from"))
		bound := l.MaxRPS(from)
		for range 50 {
			at := from + time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "later"))
			if got := l.RPS(at); got > bound {
				t.Fatalf("RPS(%d) = %v beyond the bound %v from %d on", at, got, bound, from)
			}
		}
	})
}

// A trace that is shorter than the window of the bound repeats in it more than once.
func TestMaxRPSOfAShortTrace(t *testing.T) {
	a := Arrivals{Step: Duration{100 * time.Millisecond}, Repeat: 3}
	if err := a.decode(strings.NewReader("1\n4.9375\n1\n"), 0); err != nil {
		t.Fatal(err)
	}
	s := Scenario{Arrivals: &a, Events: []Event{{For: Duration{415432669}, LoadFactor: 0.5}}}
	l := s.Traffic(2, 1)
	if bound := l.MaxRPS(1); bound < l.RPS(684567441) || bound < 4.9 {
		t.Errorf("%g", bound)
	}
}

// What is read from a trace can be run: rates are finite and not negative.
func FuzzTrace(f *testing.F) {
	f.Add([]byte("ts,value\n1628640000,39.7\n1628640060,39.8\n"), "ts", "value", int64(0), int64(0), int64(0))
	f.Add([]byte("10\n20\n"), "", "", int64(time.Second), int64(time.Second), int64(0))
	f.Add([]byte("a;b\n1;2\n"), "0", "1", int64(1), int64(0), int64(9))
	f.Add([]byte{0x1f, 0x8b, 8, 0}, "", "0", int64(time.Minute), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, clock, column string, step, from, length int64) {
		a := Arrivals{CSV: "f.csv", Time: clock, Column: column, Step: Duration{time.Duration(step)}, From: Duration{time.Duration(from)}, Length: Duration{time.Duration(length)}}
		refused := false
		a.validate("arrivals", func(string, string, ...any) { refused = true })
		if refused || a.decode(bytes.NewReader(data), 0) != nil {
			return
		}
		s := Scenario{Arrivals: &a}
		pass := s.PassDuration()
		if pass <= 0 {
			t.Fatalf("accepted a pass of %s", pass)
		}
		l := s.Traffic(1, 1)
		for _, at := range []time.Duration{0, pass / 3, pass - 1, pass} {
			if v := l.RPS(at); !(v >= 0) || math.IsInf(v, 0) {
				t.Errorf("RPS(%s of %s) = %v", at, pass, v)
			}
			if at < pass && l.RPS(at) > l.MaxRPS(at) {
				t.Errorf("beyond its bound at %s", at)
			}
		}
	})
}
