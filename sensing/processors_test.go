package sensing

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// What is observed on several processors is what is observed on one: demand and what it lacks,
// usage, pods and findings. Pods have samples on nodes that are known, on some that are not and
// on none; some of them are gone, and some have none.
func TestObservesTheSameOnAnyNumberOfProcessors(t *testing.T) {
	for seed := range uint64(4) {
		observed := func(processors int) (out []string) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			r := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(t, nil)
			w.pools = []api.Pool{
				{Name: "e2", Zones: []string{"a"}, Sizes: []int32{2}, CPUSpeed: 0.5}, {Name: "n2", Zones: []string{"a"}, Sizes: []int32{2}, CPUSpeed: 1},
			}
			names := []string{"node-0", "node-1", "node-2", "node-3", "odd-0", "odd-1"}
			for i, name := range names {
				w.put(node(name, []string{"e2", "n2", "unread"}[i/2]))
			}
			for i := range 9 {
				name := strings.Repeat("app-", 1+i%2) + fmt.Sprint(i) // pods of two are beside each other
				w.put(deployment(name, 6, "100m"), replicaSet(name))
				if i > 0 { // one is nobody's
					w.put(managed(name))
				}
				for p := range 6 {
					pod := podOn(name, p, names[r.IntN(len(names))], epoch.Add(-time.Duration(r.IntN(10))*time.Minute))
					if r.IntN(5) > 0 { // else it is gone
						w.put(pod)
					}
					w.usage[api.Key{Namespace: ns, Name: pod.Name}] = int64(r.IntN(900))
					for _, on := range append([]string{pod.Spec.NodeName, "", "10.0.0.1"}, names...)[:r.IntN(4)] {
						cores, nothingIn := float64(r.IntN(64))/64, r.Int64N(6) // sums of these are exact, in any order
						w.series = append(w.series, rateSeries{ns, pod.Name, on, kindDeployment + "/" + name, func(at time.Time) float64 {
							if at.Unix()/15%6 == nothingIn {
								return math.NaN()
							}
							return cores + float64(at.Unix()/15%4)/4
						}})
					}
				}
			}
			for range 3 {
				text, err := json.Marshal(w.observe())
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, string(text))
				w.clock.Step(w.cfg.Step)
			}
			return out
		}
		one := observed(1)
		if diff := cmp.Diff(one, observed(4)); diff != "" {
			t.Fatalf("seed %d: on one processor and on four (-one +four):\n%s", seed, diff)
		}
		if !strings.Contains(one[2], ReasonUnknownNodeSpeed) {
			t.Error("there is no node of unknown speed")
		}
	}
}
