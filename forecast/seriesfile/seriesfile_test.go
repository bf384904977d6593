package seriesfile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/api"
)

var (
	nan   = math.NaN()
	start = time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		file string
		o    Options
		want Read
	}{
		"RFC 3339": {
			file: "timestamp,value\n2024-05-01T10:00:00Z,1\n2024-05-01T12:01:00+02:00,2.5\n",
			want: Read{Series: api.Series{Start: start, Step: time.Minute, Values: []float64{1, 2.5}}, Rows: 2},
		},
		"CRLF, blank lines, a byte order mark and no last line end": {
			file: "\xef\xbb\xbfts,v\r\n\r\n2024-05-01 10:00:00,1\r\n  \r\n2024-05-01 10:01:00,2\r\n,\r\n2024-05-01 10:02:00,3",
			want: Read{Series: api.Series{Start: start, Step: time.Minute, Values: []float64{1, 2, 3}}, Rows: 3},
		},
		"gaps, rows and values": {
			file: "ts,v\n2024-05-01 10:00:00,1\n2024-05-01 10:01:00,2\n2024-05-01 10:02:00,\n2024-05-01 10:03:00,NaN\n2024-05-01 10:06:00,3\n2024-05-01 10:07:00,4\n",
			want: Read{Series: api.Series{Start: start, Step: time.Minute, Values: []float64{1, 2, nan, nan, nan, nan, 3, 4}}, Rows: 4, Missing: 2, Gaps: 4},
		},
		"unsorted, the last of duplicates counts": {
			file: "ts,v\n1714557720,3\n1714557600,7\n1714557660,2\n1714557600,1\n",
			want: Read{Series: api.Series{Start: start, Step: time.Minute, Values: []float64{1, 2, 3}}, Rows: 4, Duplicates: 1, Unsorted: true},
		},
		"seconds that jitter": {
			file: "ts,v\n1714557600,1\n1714557661.2,2\n1714557719.6,3\n1714557780,4\n",
			want: Read{Series: api.Series{Start: start, Step: time.Minute, Values: []float64{1, 2, 3, 4}}, Rows: 4},
		},
		"milliseconds": {
			file: "ts,v\n1714557600000,1\n1714557660000,2\n",
			want: Read{Series: api.Series{Start: start, Step: time.Minute, Values: []float64{1, 2}}, Rows: 2},
		},
		"a longer step averages": {
			file: "ts,v\n1714557600,1\n1714557630,3\n1714557660,5\n1714557690,7\n",
			o:    Options{Step: time.Minute},
			want: Read{Series: api.Series{Start: start, Step: time.Minute, Values: []float64{2, 6}}, Rows: 4},
		},
		"columns by name, another delimiter": {
			file: "host;CPU;when\na;1;2024-05-01 10:00\nb;2;2024-05-01 10:05\n",
			o:    Options{Time: "when", Value: "cpu", Delimiter: ';'},
			want: Read{Series: api.Series{Start: start, Step: 5 * time.Minute, Values: []float64{1, 2}}, Rows: 2},
		},
		"columns by number, no header": {
			file: "pool,2024-05-01 10:00:00,,14\npool,2024-05-01 10:00:30,,15\n",
			o:    Options{Time: "1", Value: "3", NoHeader: true},
			want: Read{Series: api.Series{Start: start, Step: 30 * time.Second, Values: []float64{14, 15}}, Rows: 2},
		},
		"no header, although none was told": {
			file: "1714557600,1\n1714557660,2\n",
			want: Read{Series: api.Series{Start: start, Step: time.Minute, Values: []float64{1, 2}}, Rows: 2},
		},
		"rows in order, several columns": {
			file: "cpu,mem\n1,5\n2,6\n",
			o:    Options{Step: time.Hour, Time: NoTime, Value: "mem"},
			want: Read{Series: api.Series{Start: time.Unix(0, 0).UTC(), Step: time.Hour, Values: []float64{5, 6}}, Rows: 2},
		},
		"values only": {
			file: "value\n1\n2\n",
			o:    Options{Step: time.Hour},
			want: Read{Series: api.Series{Start: time.Unix(0, 0).UTC(), Step: time.Hour, Values: []float64{1, 2}}, Rows: 2},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(strings.NewReader(tc.file), tc.o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, _ = z.Write([]byte(tc.file)) // into memory
			_ = z.Close()
			again, err := Parse(&packed, tc.o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, again, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("gzipped (-plain +gzipped):\n%s", diff)
			}
		})
	}
}

func TestMessagesNameFileLineAndField(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		o    Options
		want string
	}{
		"nothing":           {"", Options{}, "f.csv: bad series file: no rows of data"},
		"a header only":     {"ts,v\n", Options{}, "no rows of data"},
		"no values":         {"ts,v\n1714557600,\n1714557660,NA\n", Options{}, "2 rows, none with a value"},
		"a word":            {"ts,v\n1714557600,1\n\n1714557660,many\n", Options{}, `f.csv:4: bad series file: field 2: "many" is no number`},
		"negative":          {"ts,v\n1714557600,-1\n", Options{}, "f.csv:2: bad series file: field 2"},
		"infinite":          {"ts,v\n1714557600,Inf\n", Options{}, "demand must be finite"},
		"a bad time":        {"ts,v\nyesterday,1\n", Options{}, `f.csv:2: bad series file: field 1: "yesterday" is no time`},
		"no such column":    {"ts,v\n1714557600,1\n", Options{Value: "cpu"}, `f.csv:1: bad series file: no column "cpu" for --value among ["ts" "v"]`},
		"one column":        {"v\n1\n2\n", Options{}, "--step must say"},
		"one row":           {"ts,v\n1714557600,1\n", Options{}, "give --step"},
		"far too sparse":    {"ts,v\n0,1\n1,1\n2,1\n1714557600,1\n", Options{}, "too sparse"},
		"a quote left open": {"ts,v\n1714557600,\"1\n", Options{}, "f.csv:"},
		"broken gzip":       {"\x1f\x8bnonsense", Options{}, "f.csv: bad series file"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.Name = "f.csv"
			_, err := Parse(strings.NewReader(tc.file), tc.o)
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// FuzzParse: any bytes give a sound series or an error that names the file.
func FuzzParse(f *testing.F) {
	f.Add([]byte("ts,v\n1714557600,1\n1714557660,2\n"), "", "", int64(0))
	f.Add([]byte("ts,v\r\n\r\n2024-05-01 10:00:00,1e308\r\n2024-05-01 10:00:00,NaN\r\n1,1e308\n"), "0", "1", int64(1e9))
	f.Add([]byte("\x1f\x8b"), "ts", "v", int64(-1))
	f.Fuzz(func(t *testing.T, file []byte, at, value string, step int64) {
		got, err := Parse(bytes.NewReader(file), Options{Name: "f.csv", Time: at, Value: value, Step: time.Duration(step)})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.csv") {
				t.Errorf("%v does not name the file", err)
			}
			return
		}
		s := got.Series
		if s.Step <= 0 || len(s.Values) == 0 || math.IsNaN(s.Values[0]) && got.Missing == 0 {
			t.Fatalf("%+v", got)
		}
		for i, v := range s.Values {
			if math.IsInf(v, 0) || v < 0 {
				t.Fatalf("sample %d is %v", i, v)
			}
		}
	})
}
