package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

const folder = "../scenarios"

// The scripts that are committed are those that the scenarios make.
func TestScriptsAreTheScenarios(t *testing.T) {
	names, err := scripted(folder)
	if err != nil || slices.Contains(names, "fleet") || !slices.Contains(names, "train-ticket") {
		t.Fatalf("%v, %v", names, err)
	}
	var want []string
	for _, name := range names {
		want = append(want, name+".js")
		s, err := load(folder, name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := script(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name + ".js")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, text) {
			t.Errorf("%s.js is not what %s.yaml makes: make k6-scripts", name, name)
		}
	}
	got, err := filepath.Glob("*.js")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("scripts %v, scenarios %v", got, want)
	}
}

// ramp of stages as k6 goes through them: see scenarios.Ramp.
func ramp(start int, stages [][2]float64) scenarios.Ramp {
	r := scenarios.Ramp{Start: start, Passes: 1}
	for _, s := range stages {
		r.Stages = append(r.Stages, scenarios.Stage{Duration: time.Duration(s[0] * float64(time.Second)), Target: int(s[1])})
	}
	return r
}

// same compares a ramp with what the simulation lets come: at every second where
// there is nothing but stages, else where samples were taken.
func same(t *testing.T, s scenarios.Scenario, index int, r scenarios.Ramp) {
	t.Helper()
	passes := s.Warmup.Passes + s.Repeat
	if want := time.Duration(passes) * s.PassDuration(); r.Duration() != want {
		t.Errorf("%s takes %v, the scenario %v", s.UserTypes()[index].Name, r.Duration(), want)
	}
	traffic := s.TrafficOf(index, passes, seed)
	step := time.Second
	if s.Noise != nil || len(s.Events) > 0 || len(s.Users) > 0 {
		step = sample
	}
	for at := time.Duration(0); at < r.Duration(); at += step {
		if got, want := r.VUs(at), traffic.VUs(at); got != want {
			t.Fatalf("%s at %v: %d users in the script, %d in the scenario", s.UserTypes()[index].Name, at, got, want)
		}
	}
}

func TestStagesAreTheScenarios(t *testing.T) {
	for _, name := range scenarios.Names() {
		t.Run(name, func(t *testing.T) {
			s, err := load(folder, name)
			if err != nil {
				t.Fatal(err)
			}
			all, err := users(s)
			if err != nil {
				t.Fatal(err)
			}
			if len(all) != len(s.UserTypes()) {
				t.Fatalf("%d types of users of %d", len(all), len(s.UserTypes()))
			}
			for i, u := range all {
				if u.Arrivals == nil {
					same(t, s, i, ramp(u.StartVUs, u.Stages))
				}
			}
		})
	}
}

// k6 is the one that make installs, or that in PATH.
func k6(t *testing.T) string {
	t.Helper()
	file, err := filepath.Abs("../../.cache/bin/k6")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		return file
	}
	if file, err = exec.LookPath("k6"); err != nil {
		t.Skip("k6 is not installed (make k6)")
	}
	return file
}

// unpacked is a trace as a script reads it; k6 does not unpack.
func unpacked(t *testing.T, csv string) string {
	t.Helper()
	name, ok := strings.CutPrefix(csv, "data:")
	if !ok {
		t.Fatalf("%s is not among the traces", csv)
	}
	in, err := os.Open(filepath.Join(scenarios.DataFolder(), filepath.Clean(name)))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no traces in %s; set %s", scenarios.DataFolder(), scenarios.DataEnv)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // only read
	body, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// options as k6 has read them.
type options struct {
	Scenarios map[string]struct {
		Executor  string
		StartVUs  int
		StartRate float64
		TimeUnit  string
		Stages    []struct {
			Duration string
			Target   float64
		}
	}
	Thresholds map[string][]string
}

// Real k6 reads of every script the load that the simulation has of its scenario.
func TestK6ReadsTheScenarios(t *testing.T) {
	program := k6(t)
	names, err := scripted(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			s, err := load(folder, name)
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"inspect"}
			if s.Arrivals != nil {
				args = append(args, "-e", "TRACE="+unpacked(t, s.Arrivals.CSV))
			}
			cmd := exec.CommandContext(t.Context(), program, append(args, name+".js")...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			printed, err := cmd.Output()
			if err != nil {
				t.Fatalf("k6 inspect: %v: %s", err, stderr.String())
			}
			var o options
			if err := json.Unmarshal(printed, &o); err != nil {
				t.Fatal(err)
			}
			for i, u := range s.UserTypes() {
				got := o.Scenarios[u.Name]
				var stages [][2]float64
				for _, st := range got.Stages {
					d, err := time.ParseDuration(st.Duration)
					if err != nil {
						t.Fatal(err)
					}
					stages = append(stages, [2]float64{d.Seconds(), st.Target})
				}
				if want := []string{"p(95)<" + strconv.FormatFloat(u.SLO.P95Ms, 'g', -1, 64)}; !slices.Equal(o.Thresholds["http_req_duration{user:"+u.Name+"}"], want) {
					t.Errorf("thresholds %v, want %v", o.Thresholds, want)
				}
				if s.Arrivals == nil {
					if got.Executor != "ramping-vus" {
						t.Errorf("executor %s", got.Executor)
					}
					same(t, s, i, ramp(got.StartVUs, stages))
					continue
				}
				if got.Executor != "ramping-arrival-rate" || got.TimeUnit != "1m0s" && got.TimeUnit != "1m" {
					t.Errorf("executor %s per %s", got.Executor, got.TimeUnit)
				}
				arrive(t, name, i, got.StartRate, stages)
			}
		})
	}
}

// arrive compares a script's arrivals per minute with the simulation's, whose noise
// no script has.
func arrive(t *testing.T, name string, index int, start float64, stages [][2]float64) {
	t.Helper()
	s, err := scenarios.LoadWith(name, scenarios.Changes{})
	if err != nil {
		t.Fatal(err)
	}
	s.Noise = nil
	traffic := s.TrafficOf(index, 1, seed)
	at, rate := time.Duration(0), start
	for i := 0; ; i++ {
		if want := 60 * traffic.RPS(at); at < s.PassDuration() && math.Abs(rate-want) > 0.51 {
			t.Fatalf("at %v: %v requests a minute in the script, %v in the scenario", at, rate, want)
		}
		if i == len(stages) {
			break
		}
		at += time.Duration(stages[i][0] * float64(time.Second))
		rate = stages[i][1]
	}
	if at != s.PassDuration() {
		t.Errorf("the script takes %v, a pass %v", at, s.PassDuration())
	}
}

// A run of real k6, small and short: users come, think as the scenario says, and
// ask for the work that it says.
func TestK6Runs(t *testing.T) {
	program := k6(t)
	var mu sync.Mutex
	var work []float64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := strconv.ParseFloat(r.Header.Get("X-Cpu-Seconds"), 64)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || r.URL.Path != "/users" {
			t.Errorf("%s with %v", r.URL, r.Header)
		}
		work = append(work, v)
	}))
	defer server.Close()
	// 13 minutes in 7.8 s, 400 users as 80.
	cmd := exec.CommandContext(t.Context(), program, "run", "--quiet", "-e", "TARGET="+server.URL, "-e", "TIME_SCALE=0.01", "-e", "VU_SCALE=0.2", "heartbeat.js")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("k6 run: %v\n%s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	// Three beats of 80 users, 1.5 s each in the mean, who think for a second
	// after each request: 360 requests, and the first of each user at once.
	if n := len(work); n < 250 || n > 1200 {
		t.Errorf("%d requests", n)
	}
	sum := 0.0
	for _, v := range work {
		sum += v
	}
	if mean := sum / float64(len(work)); mean < 0.002 || mean > 0.004 {
		t.Errorf("%v s of work a request, want 0.003", mean)
	}
	if !strings.Contains(string(out), "http_req_duration") {
		t.Errorf("no summary in %s", out)
	}
}
