package scenarios

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestBuiltInScenarios(t *testing.T) {
	if diff := cmp.Diff([]string{
		"day", "flash-sale", "flash-sale-late", "fleet", "fleet-memory", "fleet-right", "fleet-spot", "fleet-types", "fleet-types-right", "heartbeat", "heartbeat-warm", "hotel", "metrics-outage",
		"noise", "regime-change", "sawtooth", "sawtooth-warm", "slow-start", "spot", "stockout", "train-ticket", "week",
	}, Names()); diff != "" {
		t.Errorf("Names (-want +got):\n%s", diff)
	}
	// The stages of the paper, as SPEC row H8 repeats them.
	beat := "30s:400 2m:400 30s:10 1m:10 "
	sale := "2m:20 1m:50 1m:20 30s:200 1m:150 30s:400 1m:300 4m:700 1m:50 2m:50 1m:0"
	for name, test := range map[string]struct {
		wantStages   string
		wantSwitches []time.Duration
	}{
		"heartbeat":       {wantStages: beat + beat + beat + "1m:0"},
		"flash-sale":      {wantStages: sale, wantSwitches: []time.Duration{6*time.Minute + 30*time.Second}},
		"flash-sale-late": {wantStages: sale, wantSwitches: []time.Duration{9 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			var want []Stage
			for _, text := range strings.Fields(test.wantStages) {
				var st Stage
				if err := st.UnmarshalText([]byte(text)); err != nil {
					t.Fatal(err)
				}
				want = append(want, st)
			}
			if diff := cmp.Diff(want, s.Stages); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
			var switches []time.Duration
			for _, sw := range s.Policy.Switches {
				switches = append(switches, sw.At.Duration)
			}
			if diff := cmp.Diff(test.wantSwitches, switches); diff != "" {
				t.Errorf("switches (-want +got):\n%s", diff)
			}
			// The file name is the scenario's name.
			if s.Name != name {
				t.Errorf("name = %q", s.Name)
			}
		})
	}
}

const valid = `name: mine
stages: ["10s:5", "1m:0"]
request:
  cpu: {distribution: constant, mean: 2ms}
  timeout: 1s
slo: {p95Ms: 100, failedRatio: 0.01}
workload:
  cpu: {request: 100m, limit: 200m}
  memory: {request: 64Mi}
  replicas: {min: 1, max: 3}
  targetUtilization: 0.8
`

func TestParseNamesFileLineAndFieldOfAMistake(t *testing.T) {
	for name, test := range map[string]struct {
		old, new string
		want     string
	}{
		"an unknown field":                {"  memory:", "  memori:", `f.yaml:9: workload.memori: unknown field`},
		"a field given twice":             {"name: mine", "name: mine\nname: other", `f.yaml:2: name: given twice`},
		"a bad stage":                     {`"1m:0"`, `"1m-0"`, `f.yaml:2: stages[1]: "1m-0" is not a stage such as "30s:400"`},
		"a negative stage":                {`"1m:0"`, `"-1m:0"`, `f.yaml:2: stages[1]: "-1m:0": duration "-1m" is not one such as 30s`},
		"a bad quantity":                  {"limit: 200m", "limit: lots", `f.yaml:8: workload.cpu.limit: "lots" is not a quantity such as 250m or 128Mi`},
		"a base that leaves nothing":      {"limit: 200m", "limit: 200m, base: 200m", `f.yaml:8: workload.cpu.base: must not be negative, and must be below the limit`},
		"a limit below the request":       {"limit: 200m", "limit: 50m", `f.yaml:8: workload.cpu.limit: must not be below the request`},
		"a text for a number":             {"p95Ms: 100", "p95Ms: fast", `f.yaml:6: slo.p95Ms: "fast" is not a number`},
		"a part of a replica":             {"max: 3", "max: 3.5", `f.yaml:10: workload.replicas.max: "3.5" is not a whole number`},
		"a missing field, at its parent":  {", mean: 2ms", "", `f.yaml:4: request.cpu.mean: must be positive`},
		"not a number":                    {"failedRatio: 0.01", "failedRatio: .nan", `f.yaml:6: slo.failedRatio: must be between 0 and 1`},
		"an unknown distribution":         {"constant", "cauchy", `f.yaml:4: request.cpu: distribution "cauchy" is none of constant, exponential, uniform, lognormal`},
		"a mapping for a list":            {`["10s:5", "1m:0"]`, `{a: b}`, `f.yaml:2: stages: must be a list`},
		"a scalar for a mapping":          {"slo: {p95Ms: 100, failedRatio: 0.01}", "slo: good", `f.yaml:6: slo: must be a mapping`},
		"bounds upside down":              {"min: 1, max: 3", "min: 4, max: 3", `f.yaml:10: workload.replicas.max: must not be below min`},
		"a switch after the pass":         {"name: mine", "name: mine\npolicy: {switches: [{at: 2m, policy: PERFORMANCE}]}", `f.yaml:2: policy.switches[0].at: must not be before the switch above it, and within the pass of 1m10s`},
		"a pass too long to be computed":  {`"1m:0"`, `"100000h:0"`, `f.yaml:2: stages[1]: longer than 24h0m0s`},
		"no thinking at all":              {"name: mine", "name: mine\nthinkTime: {distribution: constant, mean: 0s}", `f.yaml:2: thinkTime.mean: must be at least 1ms: with no think time a refused user would retry for ever at the same moment`},
		"an alias, which is not resolved": {"name: mine", "name: &n mine\ndescription: *n", `f.yaml:2: description: aliases are not supported`},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(valid, test.old) {
				t.Fatalf("the valid file has no %q", test.old)
			}
			_, err := Parse("f.yaml", []byte(strings.Replace(valid, test.old, test.new, 1)))
			if err == nil {
				t.Fatal("no error")
			}
			// Other findings may follow from the same mistake.
			first, _, _ := strings.Cut(err.Error(), "\n")
			if diff := cmp.Diff(test.want, first); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			var fe *FieldError
			if !errors.As(err, &fe) {
				t.Error("not a *FieldError")
			}
		})
	}
}

func TestLoadReadsAUsersFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte(valid), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "mine" || *s.StartVUs != 1 || s.Repeat != 1 || s.Policy.Initial != "COST_SAVING" {
		t.Errorf("defaults not filled in: %+v", s)
	}
	if _, err := Load("no-such-thing"); !errors.Is(err, ErrUnknown) {
		t.Errorf("error = %v, want ErrUnknown", err)
	}
}

func TestRamp(t *testing.T) {
	r := Ramp{Start: 1, Passes: 2, Stages: []Stage{{4 * time.Second, 5}, {2 * time.Second, 5}, {0, 3}, {3 * time.Second, 0}}}
	for name, test := range map[string]struct {
		at   time.Duration
		want int
	}{
		"before the load":                          {-time.Second, 0},
		"starts with the start users":              {0, 1},
		"a user of a ramp up starts on the line":   {time.Second, 2},
		"and not before":                           {time.Second - 1, 1},
		"a flat stage":                             {5 * time.Second, 5},
		"a stage of no duration jumps":             {6 * time.Second, 3},
		"a user of a ramp down stops on the line":  {7 * time.Second, 2},
		"and not before, going down":               {7*time.Second - 1, 3},
		"the second pass begins without a pause":   {9 * time.Second, 1},
		"and does the same":                        {10 * time.Second, 2},
		"the last user leaves at the very end":     {18*time.Second - 1, 1},
		"after the last pass there are none again": {18 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := r.VUs(test.at); got != test.want {
				t.Errorf("VUs(%s) = %d, want %d", test.at, got, test.want)
			}
		})
	}
}

// Next must not miss a change: between t and Next(t) the number is constant,
// checked just before, and at random times between.
func TestNextMissesNoChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Ramp{Start: rapid.IntRange(0, 20).Draw(t, "start"), Passes: rapid.IntRange(1, 3).Draw(t, "passes")}
		for range rapid.IntRange(1, 4).Draw(t, "stages") {
			r.Stages = append(r.Stages, Stage{
				Duration: time.Duration(rapid.Int64Range(0, 1000).Draw(t, "duration")),
				Target:   rapid.IntRange(0, 20).Draw(t, "target"),
			})
		}
		at := time.Duration(0)
		for steps := 0; ; steps++ {
			next, more := r.Next(at)
			if !more {
				break
			}
			if next <= at {
				t.Fatalf("Next(%d) = %d goes nowhere", at, next)
			}
			between := time.Duration(rapid.Int64Range(int64(at), int64(next)-1).Draw(t, "between"))
			if r.VUs(between) != r.VUs(at) || r.VUs(next-1) != r.VUs(at) {
				t.Fatalf("VUs changes between %d (%d) and %d (%d)", at, r.VUs(at), next, r.VUs(next-1))
			}
			if steps > 1000 {
				t.Fatal("does not end")
			}
			at = next
		}
		if at < r.Duration() {
			t.Fatalf("ends at %d of %d", at, r.Duration())
		}
	})
}

// The sample mean of n values is within 5 standard errors of the stated mean,
// and the sample deviation within 5 %.
func TestDistributions(t *testing.T) {
	const n = 200_000
	for name, test := range map[string]struct {
		d       Distribution
		wantDev float64 // seconds
	}{
		"constant":    {Distribution{Kind: Constant, Mean: Duration{2 * time.Second}}, 0},
		"exponential": {Distribution{Kind: Exponential, Mean: Duration{2 * time.Second}}, 2},
		"uniform":     {Distribution{Kind: Uniform, Mean: Duration{2 * time.Second}, Deviation: Duration{time.Second}}, 1 / math.Sqrt(3)},
		"lognormal":   {Distribution{Kind: LogNormal, Mean: Duration{2 * time.Second}, Deviation: Duration{time.Second}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.d.validate(); err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var sum, sum2 float64
			for range n {
				x := test.d.Sample(rng)
				if x < 0 {
					t.Fatalf("negative sample %v", x)
				}
				sum += x
				sum2 += x * x
			}
			mean := sum / n
			dev := math.Sqrt(max(sum2/n-mean*mean, 0))
			if math.Abs(mean-2) > 5*test.wantDev/math.Sqrt(n)+1e-9 {
				t.Errorf("mean = %v, want 2", mean)
			}
			if math.Abs(dev-test.wantDev) > 0.05*test.wantDev+1e-6 {
				t.Errorf("deviation = %v, want %v", dev, test.wantDev)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Add([]byte(shop(3)))
	for _, name := range Names() {
		data, err := builtin.ReadFile(name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f.yaml", data)
		if err != nil {
			return
		}
		if s.traced() {
			return // FuzzTrace goes on with those
		}
		// What is accepted can be run.
		pass := s.PassDuration()
		if pass <= 0 {
			t.Fatalf("accepted a pass of %s", pass)
		}
		if len(s.Deployments()) == 0 {
			t.Error("accepted a scenario without a deployment")
		}
		if pass > time.Hour {
			return // noise would take long
		}
		for i, u := range s.UserTypes() {
			l := s.TrafficOf(i, 1, 1)
			if n := l.VUs(pass / 2); n < 0 {
				t.Errorf("%d users", n)
			}
			l.Next(pass / 2)
			for service, work := range u.MeanWork() {
				if !(work > 0) {
					t.Errorf("%s asks %v of %s", u.Name, work, service)
				}
			}
		}
		s.WorkFactor(DefaultService, pass/2)
	})
}
