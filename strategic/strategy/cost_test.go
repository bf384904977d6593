package strategy

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// dear is a spec of so many features, each of which costs nearly what one expression may.
func dear(features int, priority int) string {
	const list = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30]"
	var all []string
	for i := range features {
		all = append(all, fmt.Sprintf(`"f%d":"size(%s.filter(x, %s.exists(y, x*y+hour > %d)))"`, i, list, list, 100000+i))
	}
	of := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"pools":["pool-%s"],"features":{%s}}`, name, name, strings.Join(all, ","))
	}
	return fmt.Sprintf(`{"priority":%d,"choose":{"candidates":[%s,%s],"score":"1.0"}}`, priority, of("a"), of("b"))
}

// One Strategy's expressions cost no more together than a cycle bears; what is beyond holds.
func TestCostOfAStrategy(t *testing.T) {
	for features, holds := range map[int]bool{5: false, 32: true} {
		s := api.Strategy{Key: api.Key{Namespace: "shop", Name: "a"}, Spec: dear(features, 1)}
		if err := Check(s); err != nil {
			t.Fatal(err)
		}
		out := Decide(Input{Time: begin, Policy: "P", Strategies: []api.Strategy{s}})
		held := len(out.Findings) == 1 && out.Findings[0].Reason == "StrategyHolds" && strings.Contains(out.Findings[0].Message, "200000 are the most in a cycle")
		if held != holds || !holds && len(out.Findings) != 0 {
			t.Errorf("%d dear features of each candidate: %+v", features, out.Findings)
		}
	}
}

// All expressions of a Strategy may have so much text, and take so much memory for each byte of it, and for
// each of them: what a namespace may write is held by an operator of all namespaces.
func TestMemoryOfAStrategy(t *testing.T) {
	spec := func(expressions, bytes int) string {
		var outputs, candidates []string
		for i := range min(expressions, maxOutputs) {
			outputs = append(outputs, fmt.Sprintf(`"o%d":%q`, i, wide(bytes)))
		}
		for at := maxOutputs; at < expressions; at += maxNames {
			var features []string
			for i := range min(expressions-at, maxNames) {
				features = append(features, fmt.Sprintf(`"f%d":%q`, i, wide(bytes)))
			}
			candidates = append(candidates, fmt.Sprintf(`{"name":"c%d","pools":["p"],"features":{%s}}`, at, strings.Join(features, ",")))
		}
		choose := ""
		if candidates != nil {
			choose = fmt.Sprintf(`,"choose":{"candidates":[%s],"score":"1.0"}`, strings.Join(candidates, ","))
		}
		return fmt.Sprintf(`{"sensors":[{"name":"s","http":{"url":"https://a.example/b","jsonPath":"{.a}"}}],"outputs":{%s}%s}`, strings.Join(outputs, ","), choose)
	}
	if _, err := newProgram(spec(maxOutputs, maxExpressions/maxOutputs+20)); err == nil || !strings.Contains(err.Error(), "all expressions together may have 16384 bytes") || strings.Count(err.Error(), "together") != 1 {
		t.Errorf("too much text: %v", err)
	}
	for name, spec := range map[string]string{
		"few long ones":   spec(8, maxExpression-20),
		"many short ones": spec(maxOutputs+maxCandidates*maxNames, 30),
	} {
		const of = 10
		var kept [of]*program
		before := heapInUse()
		for i := range kept {
			var err error
			if kept[i], err = newProgram(spec); err != nil {
				t.Fatal(name, err)
			}
		}
		each := (heapInUse() - before) / of
		t.Logf("%s: %d KiB", name, each>>10)
		if each > 3<<20 {
			t.Errorf("a Strategy of %s takes %d KiB", name, each>>10)
		}
		runtime.KeepAlive(kept)
	}
}

// wide is an expression of so many bytes, or a few less.
func wide(bytes int) string { return strings.Repeat("s>1||", max(bytes-9, 0)/5) + "s>1?1:2" }

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What is wrong with a Strategy is found out once, not in each cycle.
func TestWhatIsWrongIsRemembered(t *testing.T) {
	spec := dear(32, 5000)
	began := time.Now()
	first := Check(api.Strategy{Spec: spec})
	took := time.Since(began)
	began = time.Now()
	for range 10 {
		if err := Check(api.Strategy{Spec: spec}); err == nil || first == nil || err.Error() != first.Error() {
			t.Fatalf("%v, and then %v", first, err)
		}
	}
	if again := time.Since(began); again > took {
		t.Errorf("ten times again took %v, the first time %v", again, took)
	}
}

// However many Strategies there are, each is compiled once, and those that are gone are forgotten.
func TestManyStrategiesAreCompiledOnce(t *testing.T) {
	in := Input{Time: begin, Policy: "P"}
	for i := range maxCompiled + 100 {
		in.Strategies = append(in.Strategies, api.Strategy{
			Key: api.Key{Namespace: "shop", Name: fmt.Sprint("s", i)}, Spec: fmt.Sprintf(`{"outputs":{"many":"%d"}}`, i),
		})
	}
	Decide(in)
	made := map[string]*program{}
	for _, of := range in.Strategies {
		made[of.Spec], _ = compile(of.Spec)
	}
	for range 3 {
		if out := Decide(in); len(out.Findings) != 0 || len(out.States) != len(in.Strategies) {
			t.Fatalf("%d states, findings %+v", len(out.States), out.Findings)
		}
	}
	again := 0
	for _, of := range in.Strategies {
		if p, _ := compile(of.Spec); p != made[of.Spec] {
			again++
		}
	}
	if again > 0 {
		t.Errorf("%d of %d are compiled again", again, len(in.Strategies))
	}
	// Nor where all of them are changed to what can't be used.
	in.Last = Decide(in).States
	for i := range in.Strategies {
		in.Strategies[i].Spec = fmt.Sprintf(`{"outputs":{"many":"%d +"}}`, i)
	}
	for range 3 {
		in.Last = Decide(in).States
	}
	for _, of := range in.Strategies {
		if _, known := compiled.get(of.Spec); !known {
			t.Fatalf("%s is compiled again", of.Spec)
		}
	}
	for spec, p := range made {
		if now, _ := compile(spec); now != p {
			t.Fatalf("%s, which is decided by, is compiled again", spec)
		}
	}
	last := in.Strategies[0].Spec
	in.Last, in.Strategies = nil, in.Strategies[1:]
	Decide(in)
	Decide(in)
	if _, known := compiled.get(last); known {
		t.Error("a Strategy that is gone is remembered")
	}
}

// While one Strategy is compiled, which may take seconds, others are decided on.
func TestCompilingHoldsUpNobody(t *testing.T) {
	in := Input{Time: begin, Strategies: []api.Strategy{{Key: api.Key{Namespace: "shop", Name: "quick"}, Spec: `{"outputs":{"quick":"1"}}`}}}
	Decide(in)
	var slowest, took time.Duration
	for try := range 5 { // on a machine that is busy a decision may be slow for other reasons
		ends := make(chan time.Duration, 1)
		go func() {
			began := time.Now()
			_ = Check(api.Strategy{Spec: dear(32, 100+try)})
			ends <- time.Since(began)
		}()
		slowest = 0
		for took = 0; took == 0; {
			began := time.Now()
			Decide(in)
			slowest = max(slowest, time.Since(began))
			select {
			case took = <-ends:
			default:
			}
		}
		if slowest < took/4 {
			return
		}
	}
	t.Errorf("a decision took %v while a Strategy was compiled, which took %v", slowest, took)
}

// A regular expression is as small as it looks: what repeats something a thousand times would take
// as much memory, in each of a Strategy's 160 expressions.
func TestPatternsAreSmall(t *testing.T) {
	huge := strings.Repeat("a{1000}", 200)
	for expr, want := range map[string]string{
		"policy.matches('^(GREEN|BLUE)-[0-9]{1,4}$')": "",
		"matches(policy, 'a+')":                       "",
		"policy.matches('" + huge + "')":              "longer than 256 bytes",
		"policy.matches('a{1000}')":                   "too large",
		"policy.matches('((a{9}){9}){9}')":            "too large",
		"policy.matches('a{300,}')":                   "too large",
		"matches(policy, 'a{1000}')":                  "too large",
		"[1].exists(x, policy.matches('a{1000}'))":    "too large",
		"policy.matches(policy)":                      "must be a text in quotes",
		"policy.matches('a' + 'b')":                   "must be a text in quotes",
		"policy.matches('(')":                         "error parsing regexp",
	} {
		err := Check(api.Strategy{Spec: fmt.Sprintf(`{"rules":[{"name":"r","when":%q,"actions":[{"setPolicy":{"policy":"P"}}]}]}`, expr)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: got %v, want %q", expr, err, want)
		}
	}
}
