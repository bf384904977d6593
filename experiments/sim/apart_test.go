package sim

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/operator/replay"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/strategic/strategy"
)

// TestOneWorkloadMoves: a strategy takes one of two workloads to another pool and back. At
// every second all of its replicas are Ready, and no pod of the other one is touched.
func TestOneWorkloadMoves(t *testing.T) {
	users := 60
	for name, c := range map[string]struct {
		pods, max int32
		most      int   // pods at once
		nodes     int32 // of each pool at least
		stockout  bool  // the other pool gets no machine
		elsewhere bool  // the scheduler prefers another pool whatever pods prefer
	}{
		"in waves, as its maximum has it": {pods: 4, max: 4, most: 5},
		"at once":                         {pods: 4, max: 16, most: 8},
		"no machine for it":               {pods: 4, max: 5, most: 4, stockout: true},
		"the scheduler prefers another":   {pods: 4, max: 4, most: 5, nodes: 2, elsewhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := loadScenario(t, "heartbeat")
			s.Copies, s.Warmup.Passes, s.StartVUs = 2, 0, &users
			s.Stages = []scenarios.Stage{{Duration: 3 * time.Hour, Target: users}}
			s.Workload.Replicas = scenarios.Bounds{Min: c.pods, Max: c.max}
			for i, pool := range []string{"cloud", "edge"} {
				s.Pools[i] = scenarios.Pool{
					Name: pool, MachineType: "n2-standard-2", Zones: []string{string("ab"[i])}, Nodes: max(c.nodes, []int32{2, 0}[i]), NodesPerZone: scenarios.Bounds{Min: c.nodes, Max: 6},
				}
			}
			rules, err := strategy.Parse([]byte(`
apiVersion: mash2.io/v1alpha1
kind: Strategy
metadata: {name: night, namespace: mash2}
spec:
  rules: [{name: away, when: hour == 1, actions: [{move: {pools: [edge], workload: "` + s.Deployments()[0].Name + `-00"}}]}]
`))
			if err != nil {
				t.Fatal(err)
			}
			var world *Cluster
			where := func(w *workload) map[string]int {
				out := map[string]int{}
				for _, p := range w.pods {
					if p.node != nil && p.ready && !p.terminating {
						out[p.node.pool.name]++
					}
				}
				return out
			}
			own := map[string]bool{}    // the other workload's pods, ever
			places := map[int]string{}  // by quarter of an hour
			told := map[string]string{} // findings of moves, by reason
			all := map[string]bool{}    // the pods of the one that moves, ever
			lack, made := 0, 0
			var w *record.Writer
			dir := t.TempDir()
			result, err := Run(t.Context(), Options{
				Scenario: s, Scaler: Mash2, Seed: 1, Fidelity: Fluid, Passes: 1, Strategies: rules,
				Policies: "policies: {COST_SAVING: {nodePools: [cloud, edge]}}",
				Record: func(cfg core.Config) (mash2.Recorder, error) {
					w, err = cfg.Records(record.Config{Dir: dir, KeyEvery: 97})
					return w, err
				},
				Report: func(c api.Cycle) {
					for _, f := range c.Findings {
						if strings.HasPrefix(f.Reason, "Migration") || strings.HasPrefix(f.Reason, "Move") || strings.HasPrefix(f.Reason, "Strategy") {
							told[f.Reason] = f.String()
						}
					}
				},
				prepare: func(cl *Cluster) {
					world = cl
					if c.stockout {
						cl.stockout = map[string]bool{"b": true}
					}
					if c.elsewhere {
						cl.unaware = func(p *pod) *node {
							for _, n := range cl.sorted {
								if n.pool.name == "cloud" && cl.fits(p, n) {
									return n
								}
							}
							return nil
						}
					}
					cl.every(15*time.Minute, time.Second, func() bool {
						one, other := cl.workloads[0], cl.workloads[1]
						n := 0
						for _, k := range where(one) {
							n += k
						}
						if n < int(c.pods) {
							lack++
						}
						made = max(made, len(one.pods))
						for _, p := range other.pods {
							own[p.uid] = true
						}
						for _, p := range one.pods {
							all[p.uid] = true
						}
						places[int(cl.now/(15*time.Minute))] = fmt.Sprint(where(one), where(other))
						return true
					})
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range slices.Sorted(maps.Keys(places)) {
				t.Logf("%v: %s", time.Duration(q)*15*time.Minute, places[q])
			}
			t.Logf("%v", told)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			log, err := record.Open(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			if r, err := replay.Run(t.Context(), log, replay.Options{}); err != nil || r.Identical != result.Cycles {
				t.Errorf("of %d cycles %d are replayed to the same bytes, %v; first %+v", result.Cycles, r.Identical, err, r.First)
			}
			if lack > 0 {
				t.Errorf("for %d seconds fewer than %d pods were Ready", lack, c.pods)
			}
			if len(own) != int(c.pods) {
				t.Errorf("%d pods of the other workload, want the same %d all the time", len(own), c.pods)
			}
			if made > c.most {
				t.Errorf("%d pods at once, want %d at most", made, c.most)
			}
			if c.stockout {
				if len(all) != int(c.pods) {
					t.Errorf("%d pods, want the same %d all the time; told %v", len(all), c.pods, told)
				}
				return
			}
			if c.elsewhere {
				// It gives up for a while, and says so.
				if len(all) > 4*int(c.pods) || told["MoveRefused"] == "" {
					t.Errorf("%d pods were made in vain; told %v", len(all), told)
				}
				return
			}
			if len(all) != 3*int(c.pods) {
				t.Errorf("%d pods of the one that moves, want %d for each place it was in", len(all), c.pods)
			}
			home, away := fmt.Sprint(map[string]int{"cloud": int(c.pods)}), fmt.Sprint(map[string]int{"edge": int(c.pods)})
			for quarter, want := range map[int]string{3: home, 6: away, 7: away, 10: home} {
				if got := places[quarter]; got != want+" "+home && got != want+home {
					t.Errorf("after %d quarters %s, want %s and %s", quarter, got, want, home)
				}
			}
			for _, p := range world.pools {
				if p.name == "edge" && p.sizes[0] != c.nodes {
					t.Errorf("pool %s still has %d nodes", p.name, p.sizes[0])
				}
			}
		})
	}
}
