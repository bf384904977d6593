// Package seriesfile reads a series from the files that people have: CSV, gzipped
// or not, with gaps, duplicates, rows out of order, blank lines, any line ends.
// It takes an io.Reader and opens nothing itself.
package seriesfile

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// ErrFormat is wrapped by every error that is about what a file says.
var ErrFormat = errors.New("bad series file")

// Options for files that are not just a header, a timestamp and a value.
type Options struct {
	// Name of the file, for messages.
	Name string
	// Time and Value are columns, by name in the header or by number from 0.
	// Without them: the first column whose name says time, or else the first;
	// the column named value, or else the first one that is not the time. Time
	// NoTime says that rows have no timestamps but are Step apart, in order.
	Time, Value string
	// Step between samples; 0 is the median distance of the rows. Rows within
	// one step are averaged. In a file without timestamps it is what lies
	// between two rows.
	Step time.Duration
	// Delimiter of fields, 0 for a comma.
	Delimiter rune
	// NoHeader says that the first row is data.
	NoHeader bool
}

// Read is what a file held.
type Read struct {
	Series api.Series
	// Rows with a value, Missing without one, Duplicates that repeated a
	// timestamp (the last one counts) and Gaps in the series.
	Rows, Missing, Duplicates, Gaps int
	// Unsorted tells that rows were not in order of time.
	Unsorted bool
}

// NoTime stands for the column of timestamps in a file that has none.
const NoTime = "none"

const (
	maxRows    = 5_000_000
	maxSamples = 10_000_000
	// sparse is how many steps per row are too many: the step must be wrong.
	sparse = 100
)

// missing are the ways in which files say that there is no value.
var missing = []string{"", "nan", "na", "n/a", "null", "none", "-"}

var timeNames = []string{"timestamp", "time", "ts", "datetime", "date", "period", "start", "unix"}

var layouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02", "2006/01/02 15:04:05", "2006/01/02 15:04",
	"2006.01.02-15:04:05:000",
}

// row is one with a timestamp; value is NaN where it was missing.
type row struct {
	at    time.Time
	value float64
}

// Parse reads a series. Errors wrap ErrFormat and name file, line and field,
// except those of r itself.
func Parse(r io.Reader, o Options) (Read, error) {
	var out Read
	body, err := plain(r)
	if err != nil {
		return out, fmt.Errorf("%s: %w", o.name(), err)
	}
	c := csv.NewReader(body)
	c.FieldsPerRecord, c.TrimLeadingSpace, c.ReuseRecord = -1, true, true
	if o.Delimiter != 0 {
		c.Comma = o.Delimiter
	}
	rows, err := o.rows(c, &out)
	if err != nil {
		return out, err
	}
	if len(rows) == 0 {
		return out, o.errorf(0, "no rows of data")
	}
	if out.Rows == 0 {
		return out, o.errorf(0, "%d rows, none with a value", len(rows))
	}
	err = o.lay(rows, &out)
	return out, err
}

func (o Options) name() string {
	if o.Name == "" {
		return "input"
	}
	return o.Name
}

func (o Options) errorf(line int, format string, args ...any) error {
	at := o.name()
	if line > 0 {
		at += ":" + strconv.Itoa(line)
	}
	return fmt.Errorf("%s: %w: %s", at, ErrFormat, fmt.Sprintf(format, args...))
}

// plain unpacks gzip, and takes a byte order mark off.
func plain(r io.Reader) (*bufio.Reader, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		b = bufio.NewReader(z)
	}
	if mark, _ := b.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = b.Discard(3) // was peeked at
	}
	return b, nil
}

// rows reads all records.
func (o Options) rows(c *csv.Reader, out *Read) ([]row, error) {
	var rows []row
	timeCol, valueCol := -1, -1
	for first := true; ; {
		record, err := c.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			var parse *csv.ParseError
			if errors.As(err, &parse) {
				return nil, o.errorf(parse.Line, "%v", parse.Err)
			}
			return nil, fmt.Errorf("%s: %w: %w", o.name(), ErrFormat, err)
		}
		line, _ := c.FieldPos(0)
		if blank(record) {
			continue
		}
		if first {
			first = false
			data := o.NoHeader || o.looksLikeData(record)
			if timeCol, valueCol, err = o.columns(line, record, data); err != nil {
				return nil, err
			}
			if !data {
				continue
			}
		}
		if len(rows) == maxRows {
			return nil, o.errorf(line, "more than %d rows", maxRows)
		}
		one := row{at: time.Unix(0, 0).UTC().Add(time.Duration(len(rows)) * o.Step)}
		if timeCol >= 0 {
			if timeCol >= len(record) {
				return nil, o.errorf(line, "field %d (time) is missing: the row has %d", timeCol+1, len(record))
			}
			if one.at, err = parseTime(record[timeCol]); err != nil {
				return nil, o.errorf(line, "field %d: %v", timeCol+1, err)
			}
		}
		if one.value, err = valueOf(record, valueCol); err != nil {
			return nil, o.errorf(line, "field %d: %v", valueCol+1, err)
		}
		if math.IsNaN(one.value) {
			out.Missing++
		} else {
			out.Rows++
		}
		rows = append(rows, one)
	}
}

// looksLikeData tells a first row that can't be a header: a time and a number.
func (o Options) looksLikeData(record []string) bool {
	numbers := 0
	for _, f := range record {
		f = strings.TrimSpace(f)
		if _, err := parseTime(f); err == nil {
			numbers++
		} else if _, err := strconv.ParseFloat(f, 64); err == nil {
			numbers++
		}
	}
	return numbers == len(record)
}

// columns finds time and value; time is −1 in a file without timestamps.
func (o Options) columns(line int, record []string, data bool) (timeCol, valueCol int, err error) {
	find := func(want, flag string) (int, error) {
		if !data {
			for i, name := range record {
				if strings.EqualFold(strings.TrimSpace(name), want) {
					return i, nil
				}
			}
		}
		if i, err := strconv.Atoi(want); err == nil && i >= 0 && i < len(record) {
			return i, nil
		}
		if data {
			return 0, o.errorf(line, "no column %q for --%s: without a header it is a number from 0 to %d", want, flag, len(record)-1)
		}
		return 0, o.errorf(line, "no column %q for --%s among %q", want, flag, record)
	}
	timeCol, valueCol = -1, -1
	if o.Value != "" {
		if valueCol, err = find(o.Value, "value"); err != nil {
			return 0, 0, err
		}
	}
	switch {
	case o.Time == NoTime:
	case o.Time != "":
		if timeCol, err = find(o.Time, "time"); err != nil {
			return 0, 0, err
		}
	case len(record) == 1:
	default:
		timeCol = o.guessTime(record, data, valueCol)
	}
	if timeCol < 0 && o.Step <= 0 {
		return 0, 0, o.errorf(line, "without timestamps --step must say what lies between two rows")
	}
	if valueCol < 0 {
		for i := range record {
			if i != timeCol && (valueCol < 0 || !data && strings.EqualFold(strings.TrimSpace(record[i]), "value")) {
				valueCol = i
			}
		}
	}
	if valueCol < 0 || valueCol == timeCol {
		return 0, 0, o.errorf(line, "time and value are the same column, %d", timeCol)
	}
	return timeCol, valueCol, nil
}

func (o Options) guessTime(record []string, data bool, valueCol int) int {
	if !data {
		for _, name := range timeNames {
			for i, h := range record {
				if i != valueCol && strings.EqualFold(strings.TrimSpace(h), name) {
					return i
				}
			}
		}
	}
	if valueCol == 0 {
		return 1
	}
	return 0
}

func blank(record []string) bool {
	for _, f := range record {
		if strings.TrimSpace(f) != "" {
			return false
		}
	}
	return true
}

func valueOf(record []string, col int) (float64, error) {
	if col >= len(record) {
		return math.NaN(), nil // a short row has no value
	}
	text := strings.TrimSpace(record[col])
	if slices.Contains(missing, strings.ToLower(text)) {
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", text)
	}
	if math.IsInf(v, 0) || v < 0 {
		return 0, fmt.Errorf("%q: demand must be finite and not negative", text)
	}
	return v, nil
}

// parseTime reads a timestamp; without a zone it is UTC. Numbers are seconds
// since 1970, or milliseconds when seconds would be beyond the year 5000.
func parseTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil && t.Year() > 0 && t.Year() < 5000 {
			return t.UTC(), nil
		}
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(seconds) || math.Abs(seconds) >= 1e14 {
		return time.Time{}, fmt.Errorf("%q is no time: want RFC 3339, 2006-01-02 15:04:05 or unix seconds", text)
	}
	if math.Abs(seconds) >= 1e11 {
		seconds /= 1000
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(math.Round(part*1e6))*1000).UTC(), nil
}

// lay puts rows on a grid.
func (o Options) lay(rows []row, out *Read) error {
	byTime := func(a, b row) int { return a.at.Compare(b.at) }
	if out.Unsorted = !slices.IsSortedFunc(rows, byTime); out.Unsorted {
		slices.SortStableFunc(rows, byTime)
	}
	kept := rows[:0]
	for _, r := range rows {
		if n := len(kept); n > 0 && kept[n-1].at.Equal(r.at) {
			out.Duplicates++
			if !math.IsNaN(r.value) {
				kept[n-1].value = r.value
			}
			continue
		}
		kept = append(kept, r)
	}
	step := o.Step
	if step <= 0 {
		if step = median(kept); step <= 0 {
			return o.errorf(0, "a single timestamp: the step between samples is unknown, give --step")
		}
	}
	start := kept[0].at
	span := kept[len(kept)-1].at.Sub(start)
	if samples := span / step; samples >= maxSamples || samples > time.Duration(sparse*len(kept)+1000) {
		return o.errorf(0, "%d rows from %s to %s are %d steps of %v: too sparse, give a longer --step",
			len(kept), start.Format(time.RFC3339), kept[len(kept)-1].at.Format(time.RFC3339), samples, step)
	}
	// Averaged into steps of their own start when there are more rows than
	// steps, else each to the nearest one.
	half := step / 2
	if median(kept) <= step*2/3 {
		half = 0
	}
	n := int((span+half)/step) + 1
	values, counts := make([]float64, n), make([]float64, n)
	for _, r := range kept {
		if i := int((r.at.Sub(start) + half) / step); !math.IsNaN(r.value) {
			counts[i]++
			values[i] += (r.value - values[i]) / counts[i] // no sum to overflow
		}
	}
	for i, c := range counts {
		if c == 0 {
			values[i] = math.NaN()
			out.Gaps++
		}
	}
	out.Series = api.Series{Start: start, Step: step, Values: values}
	return nil
}

// median distance of two rows, 0 for one row; whole seconds where it is close.
func median(rows []row) time.Duration {
	if len(rows) < 2 {
		return 0
	}
	d := make([]time.Duration, len(rows)-1)
	for i := range d {
		d[i] = rows[i+1].at.Sub(rows[i].at)
	}
	slices.Sort(d)
	m := d[len(d)/2]
	if whole := m.Round(time.Second); whole > 0 && (m-whole).Abs() < whole/20 {
		return whole
	}
	return m
}

// Open parses a file by name; - is stdin.
func Open(name string, stdin io.Reader, o Options) (Read, error) {
	if name == "-" {
		return Parse(stdin, o)
	}
	file, err := os.Open(name)
	if err != nil {
		return Read{}, fmt.Errorf("reading the series: %w", err)
	}
	got, err := Parse(file, o)
	return got, errors.Join(err, file.Close())
}

// Remarks say what was put right; empty for nothing.
func (r Read) Remarks() string {
	var out []string
	add := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(r.Gaps, "of "+strconv.Itoa(len(r.Series.Values))+" samples are gaps")
	add(r.Missing, "rows without a value")
	add(r.Duplicates, "rows repeated a timestamp, the last one counts")
	if r.Unsorted {
		out = append(out, "rows were not in order of time")
	}
	return strings.Join(out, "; ")
}
