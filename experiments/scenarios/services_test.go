package scenarios

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shop is a scenario of n services behind a gateway and four types of users:
// each goes through the gateway, then a chain over a quarter of the services,
// the last of which fans out over four stores at once.
func shop(n int) string {
	var b strings.Builder
	b.WriteString(valid)
	b.WriteString("services:\n  - {name: gateway, work: {distribution: exponential, mean: 500us}, replicas: {min: 2}}\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: s%d}\n", i)
	}
	b.WriteString("users:\n")
	for u := range 4 {
		fmt.Fprintf(&b, "  - name: u%d\n    share: 0.25\n    request:\n      service: gateway\n", u)
		indent := "      "
		for i := u; i < n; i += 4 {
			parallel := ""
			if i+4 >= n {
				parallel = ", parallel: true, calls: [{service: s0, probability: 0.5}, {service: s0}, {service: s0}, {service: s0, times: 2}]"
			}
			if parallel != "" {
				fmt.Fprintf(&b, "%scalls: [{service: s%d%s}]\n", indent, i, parallel)
				break
			}
			fmt.Fprintf(&b, "%scalls:\n%s  - service: s%d\n", indent, indent, i)
			indent += "    "
		}
	}
	return b.String()
}

func TestFortyServicesAndFourTypesOfUsers(t *testing.T) {
	s, err := Parse("shop.yaml", []byte(shop(40)))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Deployments()) != 41 || len(s.UserTypes()) != 4 || s.Single() {
		t.Fatalf("%d services, %d types of users", len(s.Deployments()), len(s.UserTypes()))
	}
	gateway, first := s.Deployments()[0], s.Deployments()[1]
	if gateway.Replicas != (Bounds{2, 3}) || first.Replicas != (Bounds{1, 3}) {
		t.Errorf("replicas: gateway %v, service %v: what is left out must be the workload's", gateway.Replicas, first.Replicas)
	}
	if got := gateway.CPU.Request.String() + " " + gateway.CPU.Limit.String(); got != "100m 200m" {
		t.Errorf("CPU of the gateway is %s", got)
	}
	if gateway.Work.Mean.Duration != 500*time.Microsecond || first.Work != s.Request.CPU {
		t.Errorf("work: gateway %v, service %v", gateway.Work, first.Work)
	}
	// u1 goes through s1, s5, …, s37 and asks s0 four and a half times at the end.
	work := s.UserTypes()[1].MeanWork()
	want := map[string]float64{"gateway": 0.0005, "s0": 4.5 * 0.002}
	for i := 1; i < 40; i += 4 {
		want[fmt.Sprintf("s%d", i)] = 0.002
	}
	if diff := cmp.Diff(want, work, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })); diff != "" {
		t.Errorf("mean work (-want +got):\n%s", diff)
	}
	// The users are shared out.
	users := 0
	for i := range s.UserTypes() {
		users += s.TrafficOf(i, 1, 1).VUs(10 * time.Second)
	}
	if users != 4 { // a quarter of 5 rounds to 1
		t.Errorf("%d users of 5", users)
	}
}

func TestOneWorkloadIsOneServiceAndOneTypeOfUsers(t *testing.T) {
	s, err := Parse("f.yaml", []byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	if !s.Single() || len(s.Deployments()) != 1 || len(s.UserTypes()) != 1 {
		t.Fatalf("%v %v", s.Deployments(), s.UserTypes())
	}
	if diff := cmp.Diff(map[string]float64{DefaultService: 0.002}, s.UserTypes()[0].MeanWork()); diff != "" {
		t.Error(diff)
	}
	r, l := s.Ramp(2), s.Traffic(2, 1)
	for at := time.Duration(0); at < 2*s.PassDuration()+time.Second; at += 333 * time.Millisecond {
		if r.VUs(at) != l.VUs(at) {
			t.Fatalf("at %s the ramp has %d users, the traffic %d", at, r.VUs(at), l.VUs(at))
		}
		rn, rmore := r.Next(at)
		ln, lmore := l.Next(at)
		if rn != ln || rmore != lmore {
			t.Fatalf("Next(%s): ramp %s %v, traffic %s %v", at, rn, rmore, ln, lmore)
		}
	}
}

// Every mistake in what a scenario may have beside one workload names file, line
// and field.
func TestParseNamesMistakesOfTheWholeSchema(t *testing.T) {
	const pools = "pools: [{name: p, machineType: e2-medium, zones: [a], nodes: 1}]\n"
	const services = "services: [{name: a}, {name: b}]\n"
	for name, test := range map[string]struct{ add, want string }{
		"arrivals beside stages":              {"arrivals: {csv: x, step: 1m}", "f.yaml:12: arrivals: a scenario has either stages or arrivals"},
		"an unknown field of a call":          {services + "users: [{name: u, share: 1, request: {service: a, call: []}}]", "f.yaml:13: users[0].request.call: unknown field"},
		"services that nobody asks":           {services, "f.yaml:1: users: are missing: who asks which of the 2 services?"},
		"a call to nowhere":                   {services + "users: [{name: u, share: 1, request: {service: c}}]", `f.yaml:13: users[0].request.service: "c" is none of the services`},
		"shares that are not the whole":       {services + "users: [{name: u, share: 0.5, request: {service: a}}]", "f.yaml:13: users: the shares add up to 0.5, not to 1"},
		"neither a share nor a load":          {services + "users: [{name: u, request: {service: a}}]", "f.yaml:13: users[0].share: must be above 0 and at most 1, or there must be stages or arrivals"},
		"a share and a load":                  {services + `users: [{name: u, share: 1, stages: ["1m:1"], request: {service: a}}]`, "f.yaml:13: users[0].share: users have either a share or stages or arrivals of their own"},
		"a service twice":                     {"services: [{name: a}, {name: a}]", `f.yaml:12: services[1].name: "a" is there already`},
		"a mistake in a service's workload":   {"services: [{name: a, cpu: {request: 1, limit: 500m}}]", "f.yaml:12: services[0].cpu.limit: must not be below the request"},
		"a probability of more than all":      {services + "users: [{name: u, share: 1, request: {service: a, probability: 2}}]", "f.yaml:13: users[0].request.probability: must be above 0 and at most 1"},
		"calls without an end":                {services + "users: [{name: u, share: 1, request: {service: a, times: 1000, calls: [{service: b, times: 1000}]}}]", "f.yaml:13: users[0].request: makes 1001000 calls, more than 100000"},
		"an event that changes nothing":       {"events: [{at: 1s}]", "f.yaml:12: events[0]: changes nothing"},
		"an event after the pass":             {"events: [{at: 2m, loadFactor: 2}]", "f.yaml:12: events[0].at: must be within the pass of 1m10s"},
		"a stockout where no pool is":         {pools + "events: [{at: 1s, stockout: [b]}]", `f.yaml:13: events[0].stockout[0]: no pool is in the zone "b"`},
		"a resize below its request":          {pools + "events: [{at: 1s, resize: {request: 200m, limit: 100m}}]", `f.yaml:13: events[0].resize.limit: must not be below the request`},
		"a resize to nothing":                 {pools + "events: [{at: 1s, resize: {request: 0}}]", `f.yaml:13: events[0].resize.request: must be positive`},
		"a resize of what a pod uses":         {pools + "events: [{at: 1s, resize: {request: 1, base: 10m}}]", `f.yaml:13: events[0].resize.base: a resize does not change what a pod uses`},
		"a resize of no service":              {pools + "events: [{at: 1s, resize: {request: 1}, service: q}]", `f.yaml:13: events[0].service: "q" is none of the services`},
		"a negative share of the metric":      {pools + "events: [{at: 1s, metricsFactor: -1}]", `f.yaml:13: events[0].metricsFactor: must be between 0 and 100`},
		"a priority beyond those of users":    {pools + "services: [{name: a, priority: 1000000001}]", `f.yaml:13: services[0].priority: must be at most 1000000000`},
		"failing nodes of no pool":            {pools + "events: [{at: 1s, failNodes: 1, pool: q}]", `f.yaml:13: events[0].pool: "q" is none of the pools`},
		"a machine that is none":              {"pools: [{name: p, machineType: zz-9, zones: [a], nodes: 1}]", `f.yaml:12: pools[0].machineType: "zz-9" is none of `},
		"no pools at all":                     {"pools: []", "f.yaml:12: pools: must not be empty"},
		"a negative quota":                    {"events: [{at: 1s, quotaVCPU: -1}]", "f.yaml:12: events[0].quotaVCPU: must not be negative"},
		"a work factor of an unknown service": {"events: [{at: 1s, workFactor: 2, service: x}]", `f.yaml:12: events[0].service: "x" is none of the services`},
		"a load factor of unknown users":      {"events: [{at: 1s, loadFactor: 2, users: x}]", `f.yaml:12: events[0].users: "x" are none of the scenario's users`},
		"noise that is none":                  {"noise: {deviation: .nan, correlation: 1m}", "f.yaml:12: noise.deviation: must be between 0 and 2"},
		"a boot of days":                      {"bootMedian: 48h", "f.yaml:12: bootMedian: must be between 0 and 1h"},
		"a base that is not there":            {"base: none", "f.yaml:12: base: unknown scenario"},
		"a warm-up of less than nothing":      {"warmup: {passes: -1}", "f.yaml:12: warmup.passes: must be between 0 and 10000"},
		"both a step and a time column":       {"users: [{name: u, arrivals: {csv: x, step: 1m, time: t}, request: {service: web}}]", "f.yaml:12: users[0].arrivals.step: there is either a step or a time column"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(valid+test.add))
			if err == nil {
				t.Fatal("no error")
			}
			for _, line := range strings.Split(err.Error(), "\n") {
				if strings.HasPrefix(line, test.want) {
					var fe *FieldError
					if !errors.As(err, &fe) {
						t.Error("not a *FieldError")
					}
					return
				}
			}
			t.Errorf("error = %v\nwant    %s", err, test.want)
		})
	}
}

// Events concern the users and the services that they name.
func TestEventsAreOfTheirUsersAndServices(t *testing.T) {
	s, err := Parse("f.yaml", []byte(valid+`services: [{name: a}, {name: b}]
users:
  - {name: one, share: 0.5, request: {service: a}}
  - {name: two, share: 0.5, request: {service: b}}
events:
  - {at: 10s, for: 10s, loadFactor: 3, users: two}
  - {at: 30s, workFactor: 2, service: b}
`))
	if err != nil {
		t.Fatal(err)
	}
	one, two := s.TrafficOf(0, 1, 1), s.TrafficOf(1, 1, 1)
	at := 11 * time.Second // the whole load is then 5 users
	if got := []int{one.VUs(at), two.VUs(at)}; !cmp.Equal(got, []int{2, 7}) && !cmp.Equal(got, []int{3, 8}) {
		t.Errorf("users at %s: %v", at, got)
	}
	if s.WorkFactor("a", time.Minute) != 1 || s.WorkFactor("b", time.Minute) != 2 || s.WorkFactor("b", 29*time.Second) != 1 {
		t.Error("the work of b is doubled from 30s on, and nothing else")
	}
	if one.Work(time.Minute) != 1 || two.Work(time.Minute) != 2 {
		t.Error("and so is that of the users who come to it first")
	}
}

// What the documentation shows is accepted, and shows every field there is.
func TestDocumentedScenarios(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "scenarios.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```")
	n := 0
	for _, block := range blocks {
		yaml, ok := strings.CutPrefix(block, "yaml\n")
		if !ok {
			continue
		}
		n++
		if _, err := Parse("docs/how-to/scenarios.md", []byte(yaml)); err != nil {
			t.Error(err)
		}
	}
	if n != 2 {
		t.Errorf("%d scenarios in the documentation", n)
	}
	for _, name := range Names() {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("the documentation does not name %s", name)
		}
	}
	fields := map[string][]int{}
	for _, of := range []any{Scenario{}, Arrivals{}, Event{}, Call{}, UserType{}, Pool{}, Service{}} {
		fieldsOf(reflect.TypeOf(of), nil, fields)
	}
	for name := range fields {
		if name != "copies" && name != "endpointPropagation" && !regexp.MustCompile(`\b`+name+`\b`).Match(text) {
			t.Errorf("the documentation does not show %s", name)
		}
	}
}
