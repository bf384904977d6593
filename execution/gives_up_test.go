package execution_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
)

// Which nodes a provider may pick when a pool is resized down, that the actuator looks at
// before; and that no resize is asked for while one of them is not empty for long enough.
func TestWhatTheProviderMayPick(t *testing.T) {
	const (
		kept  = "ShrinkNeedsPermission"
		begin = "policy pools=cheap,fast\npool fast zones=a sizes=1\nnode fast-1 pool=fast\nworkload web replicas=1\npods web 1 workload=web node=fast-1\n" +
			"pods batch 1 node=cheap-9 keep=safe-to-evict=false\nplan pool=fast\nplan cheap size=0\nplan fast size=1\nplan web replicas=1\n"
	)
	for name, c := range map[string]struct {
		scene string
		want  string // the resize with the nodes that may go, or a finding's reason
	}{
		"all of the zone that shrinks": {`
pool cheap zones=a,b sizes=2,1 resize-only min=1
node cheap-1 pool=cheap cordoned=migration ago=1m
node cheap-2 pool=cheap cordoned=migration ago=1m
node cheap-9 pool=cheap zone=b cordoned=migration ago=1m`, "2 → 1: cheap-1,cheap-2"},
		"one of them has borne its cordon for just long enough": {`
pool cheap zones=a,b sizes=2,1 resize-only min=1
node cheap-1 pool=cheap cordoned=migration ago=1m
node cheap-2 pool=cheap cordoned=migration ago=30s
node cheap-9 pool=cheap zone=b cordoned=migration ago=1m`, "2 → 1: cheap-1,cheap-2"},
		"one of them has just been cordoned": {`
pool cheap zones=a,b sizes=2,1 resize-only min=1
node cheap-1 pool=cheap cordoned=migration ago=1m
node cheap-2 pool=cheap cordoned=migration ago=29s
node cheap-9 pool=cheap zone=b cordoned=migration ago=1m`, kept},
		"one of them bears no cordon": {`
pool cheap zones=a,b sizes=2,1 resize-only min=1
node cheap-1 pool=cheap cordoned=migration ago=1m
node cheap-2 pool=cheap 
node cheap-9 pool=cheap zone=b cordoned=migration ago=1m`, kept},
		"one of them is going already": {`
pool cheap zones=a,b sizes=3,1 deleting=cheap-2 resize-only min=1
node cheap-1 pool=cheap cordoned=migration ago=1m
node cheap-2 pool=cheap cordoned=migration ago=1m
node cheap-3 pool=cheap cordoned=migration ago=1m
node cheap-9 pool=cheap zone=b cordoned=migration ago=1m`, "3 → 1: cheap-1,cheap-3"},
		"a node of a zone that the pool isn't said to have may go as well": {`
pool cheap zones=a,b sizes=2,1 resize-only min=1
node cheap-1 pool=cheap cordoned=migration ago=1m
node cheap-2 pool=cheap cordoned=migration ago=1m
node cheap-3 pool=cheap zone=x cordoned=migration ago=1m
node cheap-9 pool=cheap zone=b cordoned=migration ago=1m`, "2 → 1: cheap-1,cheap-2,cheap-3"},
		"one of a zone that the provider tells no size of may, too": {`
pool cheap zones=a,b sizes=2 resize-only min=1
node cheap-1 pool=cheap cordoned=migration ago=1m
node cheap-2 pool=cheap cordoned=migration ago=1m
node cheap-9 pool=cheap zone=b cordoned=migration ago=1m`, "2 → 1: cheap-1,cheap-2,cheap-9"},
		"none of a zone that has no more than planned": {`
pool cheap zones=b,a sizes=1,2 resize-only min=1
node cheap-1 pool=cheap cordoned=migration ago=1m
node cheap-2 pool=cheap cordoned=migration ago=1m
node cheap-9 pool=cheap zone=b cordoned=migration ago=1m`, "2 → 1: cheap-1,cheap-2"},
		"another zone would grow": {`
pool cheap zones=a,b sizes=2,0 resize-only min=1
node cheap-1 pool=cheap cordoned=migration ago=1m
node cheap-2 pool=cheap cordoned=migration ago=1m
node cheap-9 pool=cheap zone=b cordoned=migration ago=1m`, kept},
	} {
		t.Run(name, func(t *testing.T) {
			s, plan, policy := stage(t, begin+strings.TrimSpace(c.scene)+"\n")
			actions, findings := execution.Sequence(s, plan, policy)
			var got []string
			for _, a := range actions {
				if r, ok := a.(api.ResizePool); ok {
					got = append(got, fmt.Sprintf("%d → %d: %s", r.From, r.To, r.Nodes))
				}
			}
			for _, f := range findings {
				if f.Reason == kept {
					got = append(got, f.Reason)
				}
			}
			if diff := cmp.Diff([]string{c.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s%v\n%v", diff, actions, findings)
			}
		})
	}
}

// A StatefulSet deletes its highest ordinals, Ready or not: it goes down as far as no Ready
// pod is lost that is wanted. Of a controller that nobody knows each one that goes counts
// as Ready; a ReplicaSet deletes what is not Ready first.
func TestScaleDownKeepsReadyPods(t *testing.T) {
	for name, c := range map[string]struct {
		kind  string
		ready string // by ordinal: y or n
		plan  int
		want  int // 0 is no action
	}{
		"all are Ready":                                {"StatefulSet", "yyyyy", 2, 2},
		"the lowest is not: one more stays":            {"StatefulSet", "nyyyy", 2, 3},
		"the two lowest are not":                       {"StatefulSet", "nnyyy", 2, 4},
		"the three lowest are not":                     {"StatefulSet", "nnnyy", 2, 0},
		"those beyond its replicas are going anyway":   {"StatefulSet", "nnyyyyy", 2, 4},
		"the same, all are Ready":                      {"StatefulSet", "yyyyyyy", 2, 2},
		"those beyond are no reason to keep others":    {"StatefulSet", "ynnnnyy", 3, 3},
		"nor the first of them":                        {"StatefulSet", "ynnnny", 3, 3},
		"the highest is not: it goes":                  {"StatefulSet", "yyyyn", 4, 4},
		"the highest are not, and fewer are Ready":     {"StatefulSet", "yynnn", 3, 3},
		"one in the middle is not":                     {"StatefulSet", "yynyy", 3, 4},
		"none is Ready":                                {"StatefulSet", "nnnnn", 2, 2},
		"of a ReplicaSet what is not Ready goes first": {"ReplicaSet", "nnnyy", 2, 2},
		"of another kind Ready ones may go":            {"CloneSet", "nyyyy", 2, 3},
		"of another kind, all are Ready":               {"CloneSet", "yyyyy", 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var scene strings.Builder
			kind := map[string]string{"ReplicaSet": "Deployment"}[c.kind]
			if kind == "" {
				kind = c.kind
			}
			fmt.Fprintf(&scene, "policy pools=fast\npool fast zones=a sizes=2\nnode fast-1 pool=fast\nnode fast-2 pool=fast\nworkload db replicas=5 kind=%s\n", kind)
			for i, r := range c.ready {
				state := ""
				if r == 'n' {
					state = " not-ready"
				}
				fmt.Fprintf(&scene, "pods db 1 workload=db kind=%s node=fast-%d%s\n", c.kind, 1+i/4, state)
			}
			fmt.Fprintf(&scene, "plan pool=fast\nplan fast size=2\nplan db replicas=%d\n", c.plan)
			s, plan, policy := stage(t, scene.String())
			for _, first := range []int{0, 1, 7} { // spec.ordinals.start
				s.Workloads[0].FirstOrdinal = int32(first)
				for i := range s.Pods {
					s.Pods[i].Key.Name = fmt.Sprintf("db-%d", first+i)
				}
				actions, _ := execution.Sequence(s, plan, policy)
				got := 0
				for _, a := range actions {
					if scaled, ok := a.(api.ScaleWorkload); ok {
						got = int(scaled.To)
					}
				}
				if got != c.want {
					t.Errorf("from ordinal %d scaled to %d, want %d: %v", first, got, c.want, actions)
				}
			}
		})
	}
}
