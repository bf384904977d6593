package scenarios

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DataEnv overrides the folder that "data:" in a CSV's path stands for; it is
// ../shared/data from the working directory or one above.
const DataEnv = "MASH2_DATA"

// Arrivals is open-loop load: requests per second over one pass, whatever
// becomes of them, read from a CSV file.
type Arrivals struct {
	// CSV is a file of one value per row, gzipped or not; a relative path is
	// relative to the scenario file, "data:" stands for the folder of traces.
	CSV string `yaml:"csv"`
	// Column of the values: the name in the header, or its number from 0;
	// default the last one. Without a name there is a header where the first
	// row's value is no number.
	Column string `yaml:"column,omitempty"`
	// Step is the time between two rows.
	Step Duration `yaml:"step"`
	// From is what is left out at the beginning, Length how much of the rest is
	// one pass; 0 is all of it.
	From   Duration `yaml:"from,omitempty"`
	Length Duration `yaml:"length,omitempty"`
	// PeakRPS scales the values: it is what their 99.9 % quantile becomes.
	PeakRPS float64 `yaml:"peakRPS"`

	rates []float64 // by step, requests per second
}

// Event changes the world for a while, at a time of every pass.
type Event struct {
	At Duration `yaml:"at"`
	// For is how long it lasts; 0 to the end of the pass.
	For Duration `yaml:"for,omitempty"`
	// LoadFactor multiplies users or arrivals, WorkFactor the work of a request;
	// 0 leaves them alone.
	LoadFactor float64 `yaml:"loadFactor,omitempty"`
	WorkFactor float64 `yaml:"workFactor,omitempty"`
	// MetricsOutage: Prometheus is away.
	MetricsOutage bool `yaml:"metricsOutage,omitempty"`
	// Stockout names zones that have no machines.
	Stockout []string `yaml:"stockout,omitempty"`
}

// Noise multiplies the load by a random factor around 1: the exponential of an
// Ornstein–Uhlenbeck process with this standard deviation and correlation time.
type Noise struct {
	Deviation   float64  `yaml:"deviation"`
	Correlation Duration `yaml:"correlation"`
}

func (s *Scenario) validateLoad(fail func(field, format string, args ...any)) {
	if a := s.Arrivals; a != nil {
		if len(s.Stages) > 0 {
			fail("arrivals", "a scenario has either stages or arrivals")
		}
		if a.CSV == "" {
			fail("arrivals.csv", "is missing")
		}
		if a.Step.Duration <= 0 {
			fail("arrivals.step", "must be positive")
		}
		if a.From.Duration < 0 || a.Length.Duration < 0 {
			fail("arrivals", "from and length must not be negative")
		}
		if !(a.PeakRPS > 0) || math.IsInf(a.PeakRPS, 0) {
			fail("arrivals.peakRPS", "must be positive")
		}
	}
	if n := s.Noise; n != nil {
		if !(n.Deviation >= 0 && n.Deviation <= 2) {
			fail("noise.deviation", "must be between 0 and 2")
		}
		if n.Correlation.Duration < time.Second {
			fail("noise.correlation", "must be at least 1s")
		}
	}
	for i, e := range s.Events {
		at := fmt.Sprintf("events[%d]", i)
		if e.At.Duration < 0 || e.For.Duration < 0 {
			fail(at, "at and for must not be negative")
		}
		if !(e.LoadFactor >= 0 && e.LoadFactor <= 100) || !(e.WorkFactor >= 0 && e.WorkFactor <= 100) {
			fail(at, "factors must be between 0 and 100")
		}
		if e.LoadFactor == 0 && e.WorkFactor == 0 && !e.MetricsOutage && len(e.Stockout) == 0 {
			fail(at, "changes nothing")
		}
	}
	if d := s.BootMedian.Duration; d < 0 || d > time.Hour {
		fail("bootMedian", "must be between 0 and 1h")
	}
}

// read fills in the rates from the file.
func (a *Arrivals) read(scenario string) error {
	path := a.CSV
	switch {
	case strings.HasPrefix(path, "data:"):
		path = filepath.Join(dataFolder(), strings.TrimPrefix(path, "data:"))
	case !filepath.IsAbs(path):
		path = filepath.Join(filepath.Dir(scenario), path)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading arrivals: %w (%s names the folder of traces)", err, DataEnv)
	}
	defer file.Close()
	values, err := a.values(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	skip := int(a.From.Duration / a.Step.Duration)
	if skip >= len(values) {
		return fmt.Errorf("%s: has %d rows, none is left after %v", path, len(values), a.From)
	}
	values = values[skip:]
	if n := int(a.Length.Duration / a.Step.Duration); n > 0 {
		if n > len(values) {
			return fmt.Errorf("%s: has %d rows after %v, fewer than the %d of %v", path, len(values), a.From, n, a.Length)
		}
		values = values[:n]
	}
	sorted := slices.Sorted(slices.Values(values))
	peak := sorted[int(0.999*float64(len(sorted)-1))]
	if peak <= 0 {
		return fmt.Errorf("%s: has no load in it", path)
	}
	a.rates = make([]float64, len(values))
	for i, v := range values {
		a.rates[i] = v * a.PeakRPS / peak
	}
	return nil
}

// values of the column; a gap takes the value before it.
func (a *Arrivals) values(r io.Reader) ([]float64, error) {
	buffered := bufio.NewReader(r)
	if magic, _ := buffered.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, err
		}
		buffered = bufio.NewReader(unzipped)
	}
	rows := csv.NewReader(buffered)
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	column := -1
	var out []float64
	for line := 1; ; line++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if line == 1 {
			header, err := a.column(row)
			if err != nil {
				return nil, err
			}
			column = header.column
			if header.named {
				continue
			}
		}
		i := column
		if i < 0 {
			i = len(row) - 1
		}
		if i >= len(row) {
			return nil, fmt.Errorf("line %d: there is no column %d", line, i)
		}
		text := strings.TrimSpace(row[i])
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case line == 1 && err != nil && a.Column == "":
			continue // a header
		case (text == "" || math.IsNaN(v)) && len(out) > 0:
			v = out[len(out)-1]
		case err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
			return nil, fmt.Errorf("line %d: %q is not a load", line, text)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, errors.New("has no rows")
	}
	return out, nil
}

type header struct {
	column int // negative for the last
	named  bool
}

func (a *Arrivals) column(first []string) (header, error) {
	if a.Column == "" {
		return header{column: -1}, nil
	}
	if i, err := strconv.Atoi(a.Column); err == nil && i >= 0 {
		_, err := strconv.ParseFloat(strings.TrimSpace(first[min(i, len(first)-1)]), 64)
		return header{i, err != nil}, nil
	}
	for i, name := range first {
		if strings.TrimSpace(name) == a.Column {
			return header{i, true}, nil
		}
	}
	return header{}, fmt.Errorf("there is no column %q among %q", a.Column, first)
}

// dataFolder is where traces are.
func dataFolder() string {
	if dir := os.Getenv(DataEnv); dir != "" {
		return dir
	}
	dir := "."
	for range 6 {
		candidate := filepath.Join(dir, "..", "shared", "data")
		if info, err := os.Stat(candidate); err == nil && info.IsDir() {
			return candidate
		}
		dir = filepath.Join(dir, "..")
	}
	return filepath.Join("..", "shared", "data")
}

// Traffic is what asks for service over time, with the scenario's events and
// noise in it: virtual users where there are stages, else arrivals.
type Traffic struct {
	s      Scenario
	passes int
	noise  []float64 // factor by second, from time 0
}

// Traffic over a number of passes. The seed is that of the noise.
func (s Scenario) Traffic(passes int, seed uint64) Traffic {
	l := Traffic{s: s, passes: passes}
	if n := s.Noise; n != nil && n.Deviation > 0 {
		rng := rand.New(rand.NewPCG(seed, 11))
		keep := math.Exp(-1 / n.Correlation.Seconds())
		kick := n.Deviation * math.Sqrt(1-keep*keep)
		x := n.Deviation * rng.NormFloat64()
		for range int(s.PassDuration().Seconds())*passes + 1 {
			l.noise = append(l.noise, math.Exp(x-n.Deviation*n.Deviation/2))
			x = keep*x + kick*rng.NormFloat64()
		}
	}
	return l
}

// Open tells whether load is arrivals.
func (l Traffic) Open() bool { return l.s.Arrivals != nil }

// factor is what noise and events make of the load at time t.
func (l Traffic) factor(t time.Duration) float64 {
	f := 1.0
	if len(l.noise) > 0 {
		f = l.noise[min(int(t.Seconds()), len(l.noise)-1)]
	}
	at := t % l.s.PassDuration()
	for _, e := range l.s.Events {
		if e.LoadFactor > 0 && e.during(at) {
			f *= e.LoadFactor
		}
	}
	return f
}

func (e Event) during(at time.Duration) bool {
	return at >= e.At.Duration && (e.For.Duration == 0 || at < e.At.Duration+e.For.Duration)
}

// Work is what events make of a request's work at time t.
func (l Traffic) Work(t time.Duration) float64 {
	f := 1.0
	at := t % l.s.PassDuration()
	for _, e := range l.s.Events {
		if e.WorkFactor > 0 && e.during(at) {
			f *= e.WorkFactor
		}
	}
	return f
}

// VUs are the virtual users at time t; it implements queueing.Ramp with Next.
func (l Traffic) VUs(t time.Duration) int {
	n := l.s.Ramp(l.passes).VUs(t)
	if n == 0 || len(l.noise) == 0 && len(l.s.Events) == 0 {
		return n
	}
	return int(math.Round(float64(n) * l.factor(t)))
}

// Next is the next time at which VUs may change.
func (l Traffic) Next(t time.Duration) (time.Duration, bool) {
	next, more := l.s.Ramp(l.passes).Next(t)
	if len(l.noise) == 0 && len(l.s.Events) == 0 {
		return next, more
	}
	if t >= time.Duration(l.passes)*l.s.PassDuration() {
		return 0, false
	}
	second := t.Truncate(time.Second) + time.Second
	if more && next < second {
		return next, true
	}
	return second, true
}

// RPS are the arrivals per second at time t, linear between the rows.
func (l Traffic) RPS(t time.Duration) float64 {
	a := l.s.Arrivals
	pass := l.s.PassDuration()
	if a == nil || t < 0 || t >= time.Duration(l.passes)*pass {
		return 0
	}
	x := float64(t%pass) / float64(a.Step.Duration)
	i := min(int(x), len(a.rates)-1)
	next := a.rates[min(i+1, len(a.rates)-1)]
	w := x - float64(i)
	return (a.rates[i]*(1-w) + next*w) * l.factor(t)
}

// MaxRPS is no less than RPS at any time within the next step.
func (l Traffic) MaxRPS(t time.Duration) float64 {
	most := 0.0
	for d := time.Duration(0); d <= 2*time.Second; d += 500 * time.Millisecond {
		most = max(most, l.RPS(t+d))
	}
	return 1.05 * most
}

// Peak is the highest load of one pass without noise: users or arrivals per
// second.
func (s Scenario) Peak() float64 {
	l := Traffic{s: s, passes: 1}
	most := 0.0
	pass := s.PassDuration()
	for t := time.Duration(0); t < pass; t += max(time.Second, pass/20_000) {
		if l.Open() {
			most = max(most, l.RPS(t))
		} else {
			most = max(most, float64(l.VUs(t)))
		}
	}
	return most
}
