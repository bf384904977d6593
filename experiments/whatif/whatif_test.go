package whatif

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/simulation"
)

// Below the bound by the error that the simulation is known to have, the sentence
// says so.
func TestWhatifGateKnowsItsError(t *testing.T) {
	known, err := readKnownError()
	if err != nil {
		t.Fatal(err)
	}
	e, ok := known.of("mash2", "node cost")
	if !ok || e == 0 {
		t.Fatal("the error of the node cost isn't known")
	}
	out := Result{Policies: []string{"COST_SAVING"}, KnownError: known, Runs: []Run{
		{Policy: "COST_SAVING", Run: score.Run{Scaler: "mash2 COST_SAVING", CostUSD: 1, SimulatedSeconds: 3600}},
	}}
	out.sumUp()
	cost := out.of("COST_SAVING").Mean("costUsd")
	for share, want := range map[float64]bool{0.5: true, 2: false} {
		most := cost / (1 + share*math.Abs(e))
		g := Gate{MaxCostUSD: &most}
		g.judge(out)
		if g.Passed || strings.Contains(g.Sentence(), "known to be off") != want {
			t.Errorf("%v of the error: %q", share, g.Sentence())
		}
	}
}

// The comparison that is built in is of this scenario, with recordings that are in the
// repository, and with the figures that are shown.
func TestKnownError(t *testing.T) {
	known, err := readKnownError()
	if err != nil {
		t.Fatal(err)
	}
	for _, figure := range []string{"replicas", "CPU utilisation", "node cost", "pod cost"} {
		for _, scaler := range []string{"mash2", "hpa"} {
			if e, ok := known.of(scaler, figure); !ok || math.Abs(e) > 0.5 {
				t.Errorf("%s %s: error %v, known %v", scaler, figure, e, ok)
			}
		}
	}
	_, files, _ := strings.Cut(known.Command, "--against ")
	files, _, _ = strings.Cut(files, " ")
	for _, file := range strings.Split(files, ",") {
		if _, err := os.Stat(filepath.Join("..", "..", file)); err != nil {
			t.Errorf("a recording of the command: %v", err)
		}
	}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "bin/"+known.Command+" > experiments/whatif/error.json") {
		t.Errorf("make whatif-error does not run %q", known.Command)
	}
}

// The error that users are told is that of the simulation as it is, not of one long ago: its
// command, run now, prints about the same.
func TestKnownErrorIsOfThisProgram(t *testing.T) {
	known, err := readKnownError()
	if err != nil {
		t.Fatal(err)
	}
	_, files, _ := strings.Cut(known.Command, "--against ")
	files, _, _ = strings.Cut(files, " ")
	o := simulation.Options{Scenario: known.Scenario, Scalers: []string{"mash2", "hpa"}, Fidelities: []string{known.Fidelity}, Seed: 1, Seeds: 8, Warm: -1}
	for _, file := range strings.Split(files, ",") {
		o.Against = append(o.Against, filepath.Join("..", "..", file))
	}
	s, err := o.Load()
	if err != nil {
		t.Fatal(err)
	}
	now, err := o.Run(t.Context(), s, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	const about = 0.03
	for _, told := range known.Differences {
		i := slices.IndexFunc(now.Against, func(d score.Difference) bool {
			return d.Scaler == told.Scaler && d.Phase == told.Phase && d.Name == told.Name
		})
		if i < 0 {
			t.Errorf("%s %s is not compared any more", told.Scaler, told.Name)
			continue
		}
		if told.Name == "pending time" || told.Error == nil { // of a few seconds, and of nothing
			continue
		}
		if e := now.Against[i].Error; e == nil || math.Abs(*e-*told.Error) > about {
			t.Errorf("%s %s: users are told an error of %+.1f %%, it is %+.1f %%: make whatif-error", told.Scaler, told.Name, 100**told.Error, 100*deref(e))
		}
	}
}

// What -o json prints has the keys that the guide names.
func TestKeysOfResult(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "whatif.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(guide), "`-o json` prints one object:")
	list, _, _ = strings.Cut(list, "\n\n")
	list = regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(list, "")
	keys := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Result]()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys[key] = true
	}
	named := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(list, -1)
	if len(named) < 6 {
		t.Fatalf("the guide names %q", named)
	}
	for _, name := range named {
		if !keys[name[1]] {
			t.Errorf("there is no key %s", name[1])
		}
	}
}

// Prometheus refuses more than so many samples at once, as its documentation says
// it does, and each part is asked for once more, smaller.
func TestWhatifAsksForLess(t *testing.T) {
	var asked []int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		if !strings.HasSuffix(r.URL.Path, "query_range") {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
			return
		}
		number := func(key string) int64 {
			v, err := strconv.ParseFloat(r.Form.Get(key), 64)
			if err != nil {
				t.Error(err)
			}
			return int64(v)
		}
		start, end, step := number("start"), number("end"), number("step")
		n := int((end-start)/step) + 1
		asked = append(asked, n)
		if n > 100 {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`)
			return
		}
		var values []string
		for at := start; at <= end; at += step {
			values = append(values, fmt.Sprintf(`[%d,"%d"]`, at, at/60%1000+1))
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`, strings.Join(values, ","))
	}))
	defer server.Close()
	o := History{
		PrometheusURL: server.URL, Selector: `{pod=~"web-.*",}`, From: "3h", To: "0s", Warm: 1, Scale: 1, LoadFactor: 2,
		pointsPerQuery: 300, timeoutOfOneQuery: time.Minute, now: func() time.Time { return time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC) },
	}
	h, err := o.read(t.Context(), func(string) bool { return true }, bytes.NewBuffer(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.series.Values) != 360 || h.warm != 1 || h.gaps != 0 || !strings.Contains(h.source, `cpu=~"total|",pod=~"web-.*"}[2m]`) {
		t.Errorf("%d samples, %d passes before, %v gaps, of %s", len(h.series.Values), h.warm, h.gaps, h.source)
	}
	for i, v := range h.series.Values {
		if at := h.series.Start.Add(time.Duration(i) * time.Minute).Unix(); v != 2*float64(at/60%1000+1) {
			t.Fatalf("sample %d is %v", i, v)
		}
	}
	if slices.Max(asked[2:]) > 100 || asked[0] != 300 {
		t.Errorf("asked for %v samples", asked)
	}
}

// Whatever is missing where, what is cut has no gaps, its passes are whole, and
// its window is the one that was asked for.
func TestWhatifCut(t *testing.T) {
	nan := math.NaN()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		values   []float64
		from, to int // minutes
		warm     int
		want     []float64
		wantWarm int
		gaps     float64
	}{
		"all there":                       {[]float64{1, 2, 3, 4, 5, 6}, 4, 6, 2, []float64{1, 2, 3, 4, 5, 6}, 2, 0},
		"less before it than asked for":   {[]float64{1, 2, 3, 4, 5}, 3, 5, 4, []float64{2, 3, 4, 5}, 1, 0},
		"it begins with a gap":            {[]float64{nan, 2, 3, 4, 5, 6}, 4, 6, 2, []float64{3, 4, 5, 6}, 1, 0},
		"a gap takes the value before it": {[]float64{1, 2, nan, 4, 5, nan}, 4, 6, 1, []float64{2, 4, 5, 5}, 1, 0.5},
		"nothing before it":               {[]float64{1, 2}, 0, 2, 1, []float64{1, 2}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := cpuHistory{series: api.Series{Start: start, Step: time.Minute, Values: test.values}}
			o := History{Warm: test.warm, Scale: 1, LoadFactor: 1}
			at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
			if err := o.cut(&h, at(test.from), at(test.to)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, h.series.Values); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if h.warm != test.wantWarm || h.gaps != test.gaps || len(h.window()) != test.to-test.from {
				t.Errorf("%d passes, gaps %v, a window of %d", h.warm, h.gaps, len(h.window()))
			}
		})
	}
}
