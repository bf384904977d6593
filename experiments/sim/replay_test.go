package sim

import (
	"context"
	"flag"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/operator/replay"
	"github.com/mash2-io/mash2/record"
)

var allCycles = flag.Bool("replay.all", false, "replay ten thousand cycles instead of some hundred")

// allSeeds of each scenario make more than ten thousand cycles together.
const allSeeds = 6

// recorded runs a scenario with mash2 and returns its log and how many cycles it has.
func recorded(t *testing.T, scenario, scaler string, seed uint64, config record.Config) (*record.Log, int) {
	t.Helper()
	s, err := scenarios.Load(scenario)
	if err != nil {
		t.Fatal(err)
	}
	config.Dir = t.TempDir()
	var w *record.Writer
	result, err := Run(t.Context(), Options{
		Scenario: s, Scaler: scaler, Seed: seed, WarmupPasses: s.Warmup.Passes,
		Record: func(c core.Config) (mash2.Recorder, error) {
			w, err = c.Records(config)
			return w, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := record.Open(os.DirFS(config.Dir))
	if err != nil {
		t.Fatal(err)
	}
	return l, result.Cycles
}

// TestReplay: recorded cycles give the same bytes again, from every keyframe: moves
// between pools, an outage of metrics, a stockout, seasons that are learnt. With
// -replay.all there are more than ten thousand of them.
func TestReplay(t *testing.T) {
	cases := []struct {
		scenario, scaler string
		seeds            uint64
	}{
		{"flash-sale", Mash2, 1}, {"heartbeat", Mash2, 1}, {"metrics-outage", Mash2, 1}, {"stockout", Mash2Any, 1}, {"sawtooth-warm", Mash2, 1},
	}
	if *allCycles {
		for i := range cases {
			cases[i].seeds = allSeeds
		}
		for _, s := range []string{"heartbeat-warm", "flash-sale-late", "regime-change", "hotel", "train-ticket", "noise"} {
			cases = append(cases, struct {
				scenario, scaler string
				seeds            uint64
			}{s, Mash2Any, allSeeds})
		}
	}
	all, identical, moves, bytes := 0, 0, 0, int64(0)
	var took time.Duration
	for _, c := range cases {
		for seed := uint64(1); seed <= c.seeds; seed++ {
			l, cycles := recorded(t, c.scenario, c.scaler, seed, record.Config{KeyEvery: 97})
			began := time.Now()
			r, err := replay.Run(context.Background(), l, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			took += time.Since(began)
			if r.Cycles+r.Held != cycles || r.Identical != r.Cycles || r.First != nil {
				t.Errorf("%s, %s, seed %d: %d cycles, %d replayed, %d identical; first %+v", c.scenario, c.scaler, seed, cycles, r.Cycles, r.Identical, r.First)
			}
			all += r.Cycles
			identical += r.Identical
			for _, s := range l.Segments {
				bytes += s.Bytes
			}
			moves += movesIn(t, l)
			if len(l.Segments) < 2 {
				continue
			}
			// From a keyframe in the middle, which knows nothing of what came before.
			from := l.Segments[len(l.Segments)/2].Time
			r, err = replay.Run(context.Background(), l, replay.Options{From: from})
			if err != nil || r.Identical != r.Cycles || r.Cycles == 0 {
				t.Errorf("%s, seed %d from %v: %d of %d, %v", c.scenario, seed, from, r.Identical, r.Cycles, err)
			}
		}
	}
	if moves == 0 {
		t.Error("no workload was moved between pools: the test shows less than it says")
	}
	if *allCycles && identical < 10_000 {
		t.Errorf("only %d cycles are identical, want 10,000", identical)
	}
	t.Logf("%d cycles in %d bytes replayed in %v; %d of them chose another pool than the one before", all, bytes, took.Round(time.Millisecond), moves)
}

// movesIn counts the cycles that chose another pool than the one before.
func movesIn(t *testing.T, l *record.Log) (n int) {
	t.Helper()
	pool := ""
	for e, err := range l.Records(time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if is := e.Cycle.Plan.Nodes.Pool; is != pool {
			if pool != "" {
				n++
			}
			pool = is
		}
	}
	return n
}

// replayDir is the environment variable by which TestReplayInAnotherProcess starts
// itself.
const replayDir = "MASH2_TEST_REPLAY_DIR"

// TestReplayInAnotherProcess: nothing of a process decides but what is recorded: not
// the order of its maps, not its caches.
func TestReplayInAnotherProcess(t *testing.T) {
	if dir := os.Getenv(replayDir); dir != "" {
		l, err := record.Open(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		r, err := replay.Run(t.Context(), l, replay.Options{From: l.Segments[1].Time})
		if err != nil || r.Cycles == 0 || r.Identical != r.Cycles {
			t.Fatalf("%d of %d cycles, %v: %+v", r.Identical, r.Cycles, err, r.First)
		}
		return
	}
	s, err := scenarios.Load("flash-sale")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, err = Run(t.Context(), Options{Scenario: s, Scaler: Mash2Any, Record: func(c core.Config) (mash2.Recorder, error) {
		return c.Records(record.Config{Dir: dir, KeyEvery: 20})
	}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestReplayInAnotherProcess$", "-test.v")
	cmd.Env = append(os.Environ(), replayDir+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestReplayFindsAChange: a changed constant of what decides is found at the first
// cycle that it changes, and said in words.
func TestReplayFindsAChange(t *testing.T) {
	l, _ := recorded(t, "flash-sale", Mash2, 1, record.Config{})
	for name, c := range map[string]struct {
		change func(*core.Config)
		want   string // part of the first difference
	}{
		"a window of stabilisation": {func(c *core.Config) {
			c.Planning.Stabilization, c.Planning.NodeStabilization = time.Minute, time.Minute
		}, "kept for 1m0s"},
		"another tolerance":      {func(c *core.Config) { c.Planning.Tolerance = 0.3 }, "mash2/web: "},
		"fewer candidates shown": {func(c *core.Config) { c.Planning.Candidates = 1 }, "candidates["},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := replay.Run(t.Context(), l, replay.Options{Configure: c.change, Differences: math.MaxInt})
			if err != nil {
				t.Fatal(err)
			}
			if r.First == nil || r.Identical == r.Cycles || !strings.Contains(r.First.Text, c.want) {
				t.Fatalf("%d of %d identical, first %+v; want %q", r.Identical, r.Cycles, r.First, c.want)
			}
			t.Logf("%d of %d cycles differ; cycle %d: %s", r.Cycles-r.Identical, r.Cycles, r.First.Cycle, r.First.Text)
			// What the recorded operator did to pools is not somebody else's doing.
			for _, d := range r.Differences {
				if strings.Contains(d.Replayed, "somebody else resized it") {
					t.Errorf("cycle %d: %s", d.Cycle, d)
				}
			}
			// Nothing before it differs: replayed to just before it, all is the same.
			r, err = replay.Run(t.Context(), l, replay.Options{Configure: c.change, To: r.First.Time.Add(-time.Millisecond)})
			if r.First != nil || err != nil && !strings.Contains(err.Error(), "no cycle") {
				t.Errorf("before it: %+v, %v", r.First, err)
			}
		})
	}
}
