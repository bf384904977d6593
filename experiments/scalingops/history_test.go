package scalingops

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

var epoch = time.Date(2026, 8, 3, 0, 0, 0, 0, time.UTC)

// drawn is a history of a service of 4 ms of CPU a request, whose delay is known:
// 20 + 0.5 × CPU + 0.2 × requests, ± 5 ms.
func drawn(n int, seed uint64) History {
	r := rand.New(rand.NewPCG(seed, 1))
	var out History
	pods := 3.0
	for i := range n {
		rate := 80 + 60*math.Sin(2*math.Pi*float64(i)/240) + 10*r.Float64()
		usage := rate * 4 / pods
		out = append(out, Row{
			Time: epoch.Add(time.Duration(i) * 30 * time.Second), CPU: usage, Requests: rate, Replicas: pods,
			Delay: 20 + 0.5*usage + 0.2*rate + 5*r.NormFloat64(),
		})
		if i%5 == 0 {
			pods = min(max(math.Ceil(rate*4/130), 1), 6)
		}
	}
	return out
}

// text is a history as CSV.
func text(h History) string {
	var b strings.Builder
	b.WriteString("requests,delay,time,replicas,cpu,note\n")
	for _, r := range h {
		fmt.Fprintf(&b, "%g,%g,%s,%g,%g,x\n", r.Requests, r.Delay, r.Time.Format(time.RFC3339), r.Replicas, r.CPU)
	}
	return b.String()
}

func TestReadCSV(t *testing.T) {
	h := drawn(120, 1)
	got, err := ReadCSV(strings.NewReader(text(h)))
	if err != nil || len(got) != 120 || got[7] != h[7] {
		t.Fatalf("%d rows, %v: %+v, want %+v", len(got), err, got[7], h[7])
	}
	good := strings.Split(text(h), "\n")
	for name, c := range map[string]struct {
		line int // that is replaced
		with string
		says string
		rows int
	}{
		"no column":            {0, "requests,delay,time,replicas,note,more", `line 1: there is no column "cpu"`, 0},
		"no number":            {4, "1,2,2026-08-03T00:01:30Z,3,fast,x", `line 5: column cpu: "fast"`, 0},
		"less than nothing":    {4, "-1,2,2026-08-03T00:01:30Z,3,4,x", `line 5: column requests: "-1"`, 0},
		"no end":               {4, "1,+Inf,2026-08-03T00:01:30Z,3,4,x", `line 5: column delay: "+Inf"`, 0},
		"no time":              {4, "1,2,soon,3,4,x", `line 5: column time: "soon"`, 0},
		"back in time":         {4, "1,2,2026-08-03T00:00:00Z,3,4,x", "line 5: column time: 2026-08-03T00:00:00Z is not after", 0},
		"too few fields":       {4, "1,2", "wrong number of fields", 0},
		"an empty field":       {4, "1,,2026-08-03T00:01:30Z,3,4,x", "", 119},
		"what nobody measured": {4, "1,NaN,2026-08-03T00:01:30Z,3,4,x", "", 119},
		"nobody served":        {4, "1,2,2026-08-03T00:01:30Z,0,4,x", "", 119},
		"as Excel writes it":   {0, "\ufeffrequests,delay,time,replicas,cpu,note", "", 120},
		"replicas of no world": {4, "1,2,2026-08-03T00:01:30Z,1e18,4,x", "1e+18 replicas", 0},
		"seconds since 1970":   {4, fmt.Sprintf("1,2,%d,3,4,x", epoch.Add(90*time.Second).Unix()), "", 120},
	} {
		lines := append([]string{}, good...)
		lines[c.line] = c.with
		got, err := ReadCSV(strings.NewReader(strings.Join(lines, "\n")))
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !errors.Is(err, ErrHistory)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if err == nil && len(got) != c.rows {
			t.Errorf("%s: %d rows, want %d", name, len(got), c.rows)
		}
	}
	if _, err := ReadCSV(strings.NewReader(text(h[:50]))); err == nil || !strings.Contains(err.Error(), "50 usable rows, 100 are needed") {
		t.Errorf("a short one: %v", err)
	}
}

// FuzzReadCSV: whatever is read is usable, and nothing panics.
func FuzzReadCSV(f *testing.F) {
	f.Add(text(drawn(101, 2)))
	f.Add("time,cpu,requests,delay,replicas\n1,2,3,4,5\n")
	f.Add("time,cpu,requests,delay,replicas\n\"1,2\n")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ReadCSV(strings.NewReader(text))
		if err != nil {
			return
		}
		for i, r := range h {
			if !(r.CPU >= 0 && r.Requests >= 0 && r.Delay >= 0 && r.Replicas >= 1) || math.IsInf(r.CPU+r.Requests+r.Delay+r.Replicas, 0) {
				t.Fatalf("row %d: %+v", i, r)
			}
			if i > 0 && !r.Time.After(h[i-1].Time) {
				t.Fatalf("row %d is not after the one before", i)
			}
		}
	})
}

// TestFromPrometheus: four series become rows where all four are known.
func TestFromPrometheus(t *testing.T) {
	end := epoch.Add(200 * time.Minute)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		asked = append(asked, query)
		var b strings.Builder
		for i := range 201 {
			at := epoch.Add(time.Duration(i) * time.Minute)
			v := float64(i + 1)
			if strings.Contains(query, "duration") && i%10 == 3 {
				continue // nobody asked, and so there is no delay
			}
			if strings.Contains(query, "cpu") && i%10 == 4 {
				v = math.Inf(1) // which no measurement is
			}
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `[%d,"%g"]`, at.Unix(), v)
		}
		fmt.Fprintf(rw, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`, b.String())
	}))
	defer server.Close()
	h, err := FromPrometheus(t.Context(), server.URL, DefaultQueries(api.Key{Namespace: "shop", Name: "web"}), end, 200, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(h) != 201-40 || h[0].CPU != 1 || h[3].Requests != 6 {
		t.Errorf("%d rows, %+v", len(h), h[:4])
	}
	for _, q := range asked {
		if !strings.Contains(q, `"shop"`) {
			t.Errorf("the query %s is not of the namespace", q)
		}
	}
	if len(asked) != 4 {
		t.Errorf("asked %q", asked)
	}
}

// TestDefaultQueriesAreOfTheWorkloadAlone: others whose names begin alike are not averaged in.
func TestDefaultQueriesAreOfTheWorkloadAlone(t *testing.T) {
	for _, tt := range []struct {
		workload, pod string
		want          bool
	}{
		{"web", "web-6d4cf56db6-x7k2p", true},
		{"web", "web-8577746-zl9cd", true},
		{"web", "web-cache-0", false},     // of a StatefulSet web-cache
		{"web", "web-proxy-x7k2p", false}, // of a DaemonSet web-proxy
		{"web", "web-api-6d4cf56db6-x7k2p", false},
		{"web", "my-web-6d4cf56db6-x7k2p", false},
		{"web.v2", "web.v2-6d4cf56db6-x7k2p", true},
		{"web.v2", "web-v2-6d4cf56db6-x7k2p", false},
	} {
		query := DefaultQueries(api.Key{Namespace: "shop", Name: tt.workload}).CPU
		_, rest, _ := strings.Cut(query, "pod=~")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		pods, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		if got := regexp.MustCompile("^(?:" + pods + ")$").MatchString(tt.pod); got != tt.want {
			t.Errorf("%s: %s counts: %v, want %v", tt.workload, tt.pod, got, tt.want)
		}
	}
}
