package scenarios

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
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
	// Time is the column of timestamps that increase (RFC 3339, "2006-01-02
	// 15:04:05", or seconds from anywhere), by name or number; or Step is the
	// time between two rows. Either is needed.
	Time string   `yaml:"time,omitempty"`
	Step Duration `yaml:"step,omitempty"`
	// From is what is left out at the beginning, Length how much of the rest is
	// one pass, 0 all of it; Repeat is how many times that follows itself in a
	// pass, default 1.
	From   Duration `yaml:"from,omitempty"`
	Length Duration `yaml:"length,omitempty"`
	Repeat int      `yaml:"repeat,omitempty"`
	// PeakRPS scales the values: it is what the 99.9 % quantile of the pass
	// becomes. Or Scale multiplies them, 1/60 for requests per minute. With
	// neither they are requests per second.
	PeakRPS float64 `yaml:"peakRPS,omitempty"`
	Scale   float64 `yaml:"scale,omitempty"`

	// What was read: rates in requests per second at increasing times since the
	// trace began; times are nil with a step.
	rates  []float64
	times  []time.Duration
	length time.Duration // of one round
}

// ArrivalsOf are arrivals without a trace: from a rate, requests per second, along stages whose
// targets are rates.
func ArrivalsOf(start float64, stages []Stage) *Arrivals {
	a := &Arrivals{rates: []float64{start}, times: []time.Duration{0}}
	for _, s := range stages {
		a.length += s.Duration
		a.rates, a.times = append(a.rates, float64(s.Target)), append(a.times, a.length)
	}
	return a
}

// Limits of a trace: rows, and requests per second in any of them, which may be far
// beyond its peak.
const (
	maxRows = 5_000_000
	maxRPS  = 1e9
)

func (a *Arrivals) validate(at string, fail failure) {
	if a == nil {
		return
	}
	if a.CSV == "" {
		fail(at+".csv", "is missing")
	}
	switch {
	case a.Time != "" && a.Step.Duration != 0:
		fail(at+".step", "there is either a step or a time column")
	case a.Time == "" && a.Step.Duration <= 0:
		fail(at+".step", "must be positive, or there must be a time column")
	}
	if a.From.Duration < 0 {
		fail(at+".from", "must not be negative")
	}
	if a.Length.Duration < 0 {
		fail(at+".length", "must not be negative")
	}
	if a.Repeat < 0 || a.Repeat > 10_000 {
		fail(at+".repeat", "must be between 1 and 10000")
	}
	if !(a.PeakRPS >= 0 && a.PeakRPS <= 1e6) {
		fail(at+".peakRPS", "must be above 0 and at most 1e6")
	}
	if !(a.Scale >= 0 && a.Scale <= 1e6) {
		fail(at+".scale", "must be above 0 and at most 1e6")
	}
	if a.PeakRPS != 0 && a.Scale != 0 {
		fail(at+".scale", "there is either a scale or a peak")
	}
}

// Trace is what was read: rates in requests per second at times since it began, which are nil where
// rates are a step apart. Both are in use.
func (a *Arrivals) Trace() (times []time.Duration, rates []float64) { return a.times, a.rates }

// Duration of one pass; 0 before the trace is read.
func (a *Arrivals) Duration() time.Duration { return a.length * time.Duration(max(1, a.Repeat)) }

// rate at a time of a pass, linear between rows; of the pass that comes so many
// before the first one measured.
func (a *Arrivals) rate(at time.Duration, ahead int) float64 {
	if at >= a.Duration() {
		return 0
	}
	begin := a.From.Duration - time.Duration(ahead)*a.Duration()
	x := begin + at
	if ahead == 0 {
		x = begin + at%a.length
	}
	last := len(a.rates) - 1
	var i int
	var w float64
	if a.times == nil {
		i = min(int(x/a.Step.Duration), last)
		w = float64(x-time.Duration(i)*a.Step.Duration) / float64(a.Step.Duration)
	} else {
		i = max(0, sort.Search(len(a.times), func(i int) bool { return a.times[i] > x })-1)
		if i < last {
			w = float64(x-a.times[i]) / float64(a.times[i+1]-a.times[i])
		}
	}
	next := a.rates[min(i+1, last)]
	return a.rates[i]*(1-w) + next*w
}

// corners calls look for the times of a pass at rows between two such times.
func (a *Arrivals) corners(from, to time.Duration, ahead int, look func(time.Duration)) {
	to = min(to, a.Duration())
	from = max(from, 0)
	rounds := []time.Duration{-time.Duration(ahead) * a.Duration()}
	if ahead == 0 {
		rounds = rounds[:0]
		for round := from / a.length; round <= to/a.length+1; round++ { // a short trace has several
			rounds = append(rounds, -round*a.length)
		}
	}
	for _, shift := range rounds { // time in the trace = time in the pass + shift + From
		shift += a.From.Duration
		first, row := 0, func(i int) time.Duration { return time.Duration(i) * a.Step.Duration }
		if a.times != nil {
			row = func(i int) time.Duration { return a.times[i] }
		}
		first = sort.Search(len(a.rates), func(i int) bool { return row(i)-shift >= from })
		for i := first; i < len(a.rates) && row(i)-shift <= to; i++ {
			look(row(i) - shift)
		}
		look(a.From.Duration - shift) // a round begins
	}
}

// traced tells whether any load is read from a file.
func (s Scenario) traced() bool {
	return slices.ContainsFunc(s.loads(), func(l load) bool { return l.arrivals != nil })
}

// readTraces reads the files of all arrivals; scenario is the file that names
// them.
func (s *Scenario) readTraces(scenario string) error {
	if !s.traced() {
		return nil
	}
	all := map[string]*Arrivals{"arrivals": s.Arrivals}
	for i, u := range s.Users {
		all[fmt.Sprintf("users[%d].arrivals", i)] = u.Arrivals
	}
	for field, a := range all {
		if a == nil {
			continue
		}
		if err := a.read(scenario, s.Warmup.Passes); err != nil {
			return fmt.Errorf("%s: %s: %w", scenario, field, err)
		}
	}
	pass := s.PassDuration()
	if total := time.Duration(s.Repeat + s.Warmup.Passes); pass > maxDuration/total {
		return fmt.Errorf("%s: all passes together take longer than %s", scenario, maxDuration)
	}
	for i, e := range s.Events {
		if e.At.Duration >= pass {
			return fmt.Errorf("%s: events[%d].at: must be within the pass of %s", scenario, i, pass)
		}
	}
	for i, w := range s.Policy.Switches {
		if w.At.Duration >= pass {
			return fmt.Errorf("%s: policy.switches[%d].at: must be within the pass of %s", scenario, i, pass)
		}
	}
	return nil
}

// read fills in the rates from the file.
func (a *Arrivals) read(scenario string, warmup int) error {
	path := a.CSV
	hint := ""
	switch {
	case strings.HasPrefix(path, "data:"):
		path = filepath.Join(DataFolder(), strings.TrimPrefix(path, "data:"))
		hint = " (" + DataEnv + " names the folder of traces)"
	case !filepath.IsAbs(path):
		path = filepath.Join(filepath.Dir(scenario), path)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading arrivals: %w%s", err, hint)
	}
	err = errors.Join(a.decode(file, warmup), file.Close())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// decode reads a trace and cuts and scales it.
func (a *Arrivals) decode(r io.Reader, warmup int) error {
	values, err := a.values(r)
	if err != nil {
		return err
	}
	whole := a.Step.Duration * time.Duration(len(values))
	if a.times != nil {
		n := len(a.times)
		if n < 2 {
			return errors.New("has one row only: with a time column two are needed")
		}
		whole = a.times[n-1] + (a.times[n-1] - a.times[n-2]) // the last row lasts as long as the one before
	}
	if a.From.Duration >= whole {
		return fmt.Errorf("lasts %v, nothing is left after %v", whole, a.From)
	}
	a.length = whole - a.From.Duration
	if n := a.Length.Duration; n > 0 {
		if n > a.length {
			return fmt.Errorf("lasts %v after %v, less than %v", a.length, a.From, n)
		}
		a.length = n
	}
	if before := time.Duration(warmup) * a.Duration(); before > a.From.Duration {
		return fmt.Errorf("warming up for %d passes takes %v before from, which is %v", warmup, before, a.From)
	}
	factor := max(a.Scale, 0)
	if a.Scale == 0 {
		factor = 1
	}
	var pass []float64
	for i, v := range values {
		at := time.Duration(i) * a.Step.Duration
		if a.times != nil {
			at = a.times[i]
		}
		if at >= a.From.Duration && at < a.From.Duration+a.length {
			pass = append(pass, v)
		}
	}
	if len(pass) == 0 {
		return errors.New("has no row within the pass")
	}
	slices.Sort(pass)
	peak := pass[int(math.Ceil(0.999*float64(len(pass))))-1]
	if peak <= 0 {
		return errors.New("has no load in it")
	}
	if a.PeakRPS > 0 {
		factor = a.PeakRPS / peak
	}
	for i := range values {
		if values[i] *= factor; !(values[i] <= maxRPS) {
			return fmt.Errorf("row %d: %g requests per second are beyond what can be simulated", i+1, values[i])
		}
	}
	a.rates = values
	return nil
}

// values of the column, and their times; a gap takes the value before it.
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
	a.times = nil
	var value, clock header
	var start time.Time
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
			if value, err = columnOf(a.Column, row); err != nil {
				return nil, err
			}
			if clock, err = columnOf(a.Time, row); err != nil {
				return nil, err
			}
			if value.named || clock.named {
				continue
			}
		}
		text, err := value.cell(row, line)
		if err != nil {
			return nil, err
		}
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case line == 1 && err != nil && a.Column == "":
			continue // a header
		case (text == "" || math.IsNaN(v)) && len(out) > 0:
			v = out[len(out)-1]
		case err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
			return nil, fmt.Errorf("line %d: %q is not a load", line, text)
		}
		if a.Time != "" {
			if text, err = clock.cell(row, line); err != nil {
				return nil, err
			}
			t, err := timestamp(text)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			if len(a.times) == 0 {
				start = t
			} else if t.Sub(start) <= a.times[len(a.times)-1] {
				return nil, fmt.Errorf("line %d: %q is not after the line before", line, text)
			}
			a.times = append(a.times, t.Sub(start))
		}
		if out = append(out, v); len(out) > maxRows {
			return nil, fmt.Errorf("has more than %d rows", maxRows)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("has no rows")
	}
	return out, nil
}

// header says which column something is in.
type header struct {
	column int // negative for the last
	named  bool
}

func (h header) cell(row []string, line int) (string, error) {
	i := h.column
	if i < 0 {
		i = len(row) - 1
	}
	if i >= len(row) {
		return "", fmt.Errorf("line %d: there is no column %d", line, i)
	}
	return strings.TrimSpace(row[i]), nil
}

// columnOf finds a column by number or name in the first row.
func columnOf(name string, first []string) (header, error) {
	if name == "" {
		return header{column: -1}, nil
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 {
		_, err := strconv.ParseFloat(strings.TrimSpace(first[min(i, len(first)-1)]), 64)
		_, notTime := timestamp(strings.TrimSpace(first[min(i, len(first)-1)]))
		return header{i, err != nil && notTime != nil}, nil
	}
	for i, n := range first {
		if strings.TrimSpace(n) == name {
			return header{i, true}, nil
		}
	}
	return header{}, fmt.Errorf("there is no column %q among %q", name, first)
}

// timestamp in one of the usual spellings.
func timestamp(text string) (time.Time, error) {
	if x, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(x) < 1e12 {
		whole, part := math.Modf(x)
		return time.Unix(int64(whole), int64(part*1e9)).UTC(), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time such as 2026-01-05T00:00:00Z, 2026-01-05 00:00:00 or unix seconds", text)
}

// DataFolder is where traces are.
func DataFolder() string {
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
