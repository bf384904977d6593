package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/backtest"
	"github.com/mash2-io/mash2/experiments/forecasters"
)

// daily writes days of an hourly series with a gap, a duplicate, blank lines and
// Windows' line ends, its rows in another order, and returns its path.
func daily(t *testing.T, days int) string {
	t.Helper()
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	rows := []string{}
	for i := range 24 * days {
		if i == 50 {
			continue
		}
		rows = append(rows, fmt.Sprintf("%s,%.3f", start.Add(time.Duration(i)*time.Hour).Format(time.RFC3339),
			100+50*math.Sin(2*math.Pi*float64(i)/24)+3*math.Sin(float64(i*i))))
	}
	rows = append(rows[30:], append(rows[:30:30], rows[7], "")...)
	path := filepath.Join(t.TempDir(), "daily.csv")
	if err := os.WriteFile(path, []byte("timestamp,value\r\n\r\n"+strings.Join(rows, "\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// call runs a command line and decodes what it prints.
func call(t *testing.T, into any, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("mash2 %s: exit %d: %s", strings.Join(args, " "), code, stderr.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
		t.Fatalf("%v in %s", err, stdout.String())
	}
	return stderr.String()
}

func TestForecastOfAFile(t *testing.T) {
	var got forecastResult
	notes := call(t, &got, "forecast", "--input", daily(t, 14), "--horizon", "12h", "--quantiles", "0.5,0.9", "-o", "json")
	for _, want := range []string{"1 of 336 samples are gaps", "1 rows repeated", "not in order"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes %q without %q", notes, want)
		}
	}
	if len(got.Mean) != 12 || len(got.Quantiles["0.9"]) != 12 || got.Step != 3600 || got.Timestamps[0] != "2024-01-15T00:00:00Z" {
		t.Fatalf("%+v", got)
	}
	if len(got.Season) == 0 || math.Abs(got.Season[len(got.Season)-1]-24) > 0.5 {
		t.Errorf("seasons %v, want 24 among them", got.Season)
	}
	for h, v := range got.Mean {
		if want := 100 + 50*math.Sin(2*math.Pi*float64(h)/24); math.Abs(v-want) > 8 {
			t.Errorf("step %d: %v, want about %.0f", h, v, want)
		}
		if got.Quantiles["0.5"][h] > got.Quantiles["0.9"][h] || got.Quantiles["0.9"][h] > got.Peak["0.9"] {
			t.Errorf("step %d: quantiles cross, or the peak is below them", h)
		}
	}
}

func TestBacktestOfAFile(t *testing.T) {
	var got struct {
		Series, Mean []map[string]any
	}
	dir := t.TempDir()
	call(t, &got, "backtest", "--input", daily(t, 14), "--horizon", "12", "--windows", "6", "--report", dir, "-o", "json")
	if len(got.Series) != 3 || len(got.Mean) != 3 {
		t.Fatalf("%d scores and %d means, want 3 and 3", len(got.Series), len(got.Mean))
	}
	for _, s := range got.Series {
		for _, key := range []string{"input", "model", "smape", "mase", "wql", "pinball", "coverage", "peakUnderRatio", "fitMillis"} {
			if s[key] == nil {
				t.Errorf("no %s in %v", key, s)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
		t.Error(err)
	}
}

// prometheusOf is a Prometheus that answers as its HTTP API documents: a matrix of one
// series of a sample a minute, with sample 20 missing and sample 30 not a number.
// It notes what it was asked.
func prometheusOf(t *testing.T, asked *string, samples int, value func(i int) float64) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		*asked = r.Form.Get("query")
		var values []string
		for i := range samples {
			switch i {
			case 20:
			case 30:
				values = append(values, fmt.Sprintf(`[%d,"NaN"]`, 1704067200+60*i))
			default:
				values = append(values, fmt.Sprintf(`[%d,"%g"]`, 1704067200+60*i, value(i)))
			}
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`, strings.Join(values, ","))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestForecastOfAQuery(t *testing.T) {
	var asked string
	url := prometheusOf(t, &asked, 100, func(int) float64 { return 7 })
	var got forecastResult
	call(t, &got, "forecast", "--prometheus", url, "--query", "sum(x)", "--since", "2h", "--horizon", "3m", "-o", "json")
	if asked != "sum(x)" || len(got.Mean) != 3 || math.Abs(got.Mean[0]-7) > 1e-9 || got.Timestamps[0] != "2024-01-01T01:40:00Z" {
		t.Errorf("asked %q, got %+v", asked, got)
	}
}

// A query is scored as a file is: a line that rises by 2 a minute is k·2 off k
// steps after its last value.
func TestBacktestOfAQuery(t *testing.T) {
	var asked string
	url := prometheusOf(t, &asked, 100, func(i int) float64 { return float64(100 + 2*i) })
	var got struct{ Series []backtest.Score }
	call(t, &got, "backtest", "--prometheus", url, "--query", "sum(y)", "--since", "2h", "--horizon", "3m", "--windows", "2",
		"--models", "naive", "--quantiles", "0.5,0.9", "-o", "json")
	if asked != "sum(y)" || len(got.Series) != 1 {
		t.Fatalf("asked %q, got %+v", asked, got)
	}
	s := got.Series[0]
	sum := 0.0
	for _, origin := range []int{93, 96} { // the last two stretches of three
		for h := 1; h <= 3; h++ {
			last, is := float64(100+2*origin), float64(100+2*(origin+h))
			sum += 200 * (is - last) / (is + last) / 6
		}
	}
	if s.Model != "naive" || s.SMAPE == nil || math.Abs(*s.SMAPE-sum) > 1e-9 {
		t.Errorf("sMAPE of %s is %v, want %v", s.Model, *s.SMAPE, sum)
	}
}

func TestForecastRefusals(t *testing.T) {
	file := daily(t, 3)
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("ts,v\n1,2\n2,many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no input":          {[]string{"forecast", "--horizon", "3"}, "--input must name a file"},
		"no such file":      {[]string{"forecast", "--input", "nowhere.csv", "--horizon", "3"}, "nowhere.csv"},
		"no horizon":        {[]string{"forecast", "--input", file}, "--horizon must say how far"},
		"a bad horizon":     {[]string{"forecast", "--input", file, "--horizon", "soon"}, `"soon"`},
		"unknown model":     {[]string{"forecast", "--input", file, "--horizon", "3", "--model", "oracle"}, "oracle"},
		"crossing levels":   {[]string{"forecast", "--input", file, "--horizon", "3", "--quantiles", "0.9,0.5"}, "increasing"},
		"a bad cell":        {[]string{"forecast", "--input", bad, "--horizon", "3"}, "bad.csv:3: bad series file: field 2"},
		"too many windows":  {[]string{"backtest", "--input", file, "--horizon", "24", "--windows", "9"}, "9 windows of 24 samples in a series of 72"},
		"a query alone":     {[]string{"forecast", "--query", "up", "--horizon", "3"}, "--query needs a --prometheus"},
		"both sources":      {[]string{"forecast", "--input", file, "--prometheus", "http://x", "--horizon", "3"}, "either --input or --prometheus"},
		"a long delimiter":  {[]string{"forecast", "--input", file, "--delimiter", "ab", "--horizon", "3"}, "--delimiter"},
		"a column not here": {[]string{"backtest", "--input", file, "--value", "cpu", "--horizon", "3"}, `no column "cpu"`},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), tc.args, &stdout, &stderr); code != cli.ExitUsage || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("exit %d: %s; want %d and %q", code, stderr.String(), cli.ExitUsage, tc.want)
			}
		})
	}
}

// Models that mash2 is compared with are there for comparisons; the operator refuses
// them before it does anything else, and names what it takes.
func TestModelsToCompareWith(t *testing.T) {
	for _, name := range []string{forecasters.DSPName, forecasters.AutopilotName} {
		var forecast forecastResult
		call(t, &forecast, "forecast", "--input", daily(t, 14), "--horizon", "2h", "--model", name, "-o", "json")
		var scores backtest.Result
		call(t, &scores, "backtest", "--input", daily(t, 14), "--horizon", "2h", "--models", name, "-o", "json")
		if forecast.Model != name || len(scores.Series) != 1 || scores.Series[0].Model != name {
			t.Errorf("%s: forecast by %s, scored %+v", name, forecast.Model, scores.Series)
		}
		if code, _, stderr := simulateCommand(t, "--scenario", short(t), "--scaler", "mash2", "--forecaster", name); code != 0 {
			t.Errorf("mash2 simulate --forecaster %s: exit %d: %s", name, code, stderr)
		}
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"operator", "--forecaster", name}, &stdout, &stderr)
		if want := fmt.Sprintf(`--forecaster: unknown forecast model %q (have ["auto" "quick" `, name); code != cli.ExitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("exit %d: %s; want %d and %s", code, stderr.String(), cli.ExitUsage, want)
		}
		if _, have, _ := strings.Cut(stderr.String(), "(have"); strings.Contains(have, name) {
			t.Errorf("%s is refused and offered: %s", name, stderr.String())
		}
	}
}
