package planning_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// Where two limits come to the same number, the one that would say less is not named; and
// what a plan that is taken back keeps is told apart from what demand asks for.
func TestGuardNamesWhatBinds(t *testing.T) {
	type want struct {
		Lo, Hi               int32
		LoBinding, HiBinding api.Binding
		Least                int32
	}
	kept := func(n int32) *planning.KeptScale { return &planning.KeptScale{Replicas: n} }
	pods := func(n int32) api.ScalingRules {
		return api.ScalingRules{Policies: []api.ScalingPolicy{{Type: "Pods", Value: n, Period: time.Minute}}}
	}
	sevenOfLate := func(s *planning.Subject) {
		s.Memory.Recommendations = []planning.Recommendation{{From: ago(time.Minute), To: ago(time.Minute), Capacity: 7}}
	}
	for name, c := range map[string]struct {
		current, need int32
		change        func(*planning.Subject)
		want          want
	}{
		"a workload whose bounds contradict each other keeps no more than its maximum": {
			current: 4, need: 9, change: func(s *planning.Subject) { s.Workload.MinReplicas = 21 },
			want: want{4, 4, "hold", "hold", 20},
		},
		"scale-up policies that go as far as maxReplicas don't bind": {
			current: 4, need: 6, change: func(s *planning.Subject) { s.Workload.Behavior.ScaleUp = pods(16) },
			want: want{6, 20, "forecast", "maxReplicas", 1},
		},
		"one fewer does": {
			current: 4, need: 6, change: func(s *planning.Subject) { s.Workload.Behavior.ScaleUp = pods(15) },
			want: want{6, 19, "forecast", "scaleUpRate", 1},
		},
		"scale-down policies that keep as many as stabilization don't bind": {
			current: 9, need: 2, change: func(s *planning.Subject) { sevenOfLate(s); s.Workload.Behavior.ScaleDown = pods(2) },
			want: want{7, 20, "stabilization", "maxReplicas", 1},
		},
		"those that keep fewer give up nothing that was needed of late": {
			current: 9, need: 2, change: func(s *planning.Subject) { sevenOfLate(s); s.Workload.Behavior.ScaleDown = pods(6) },
			want: want{7, 20, "stabilization", "maxReplicas", 1},
		},
		"a plan taken back": {
			current: 4, need: 3, change: func(s *planning.Subject) { s.Kept = kept(5) },
			want: want{5, 5, "rollback", "rollback", 1},
		},
		"demand asks for more than what is taken back": {
			current: 4, need: 3, change: func(s *planning.Subject) { s.Kept, s.Proposal.Floor = kept(5), 8 },
			want: want{8, 8, "floor", "floor", 1},
		},
		"demand asks for just that": {
			current: 4, need: 3, change: func(s *planning.Subject) { s.Kept, s.Proposal.Floor = kept(5), 5 },
			want: want{5, 5, "rollback", "rollback", 1},
		},
		"more is kept than either": {
			current: 9, need: 3, change: func(s *planning.Subject) { s.Kept, s.Proposal.Floor, s.Stale = kept(5), 6, true },
			want: want{9, 9, "rollback", "rollback", 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(c.current, c.need)
			c.change(&s)
			r := planning.Guard{Config: config()}.Range(s)
			got := want{r.Lo.Replicas, r.Hi.Replicas, r.Lo.Binding, r.Hi.Binding, r.Least}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("range (-want +got):\n%s\nnotes: %q, %q, %q", diff, r.Hold, r.Lo.Note, r.Hi.Note)
			}
		})
	}
}

// Ahead is what nodes must be there for without what was planned or needed before.
func TestNodeReplicasAhead(t *testing.T) {
	path := func(replicas int32, need float64, at time.Duration) api.PathStep {
		return api.PathStep{At: start.Add(at), Scale: api.Scale{Replicas: replicas}, Need: need}
	}
	for name, c := range map[string]struct {
		before       int32
		change       func(*planning.Subject)
		nodes, ahead int32
	}{
		"more was planned for, and is needed again": {
			9, func(s *planning.Subject) {
				s.Proposal.Path = []api.PathStep{path(4, 4, 0), path(8, 8, 3*time.Minute)}
			}, 8, 4,
		},
		"as many as before are just enough within the tolerance": {
			10, func(s *planning.Subject) { s.Proposal.Path = []api.PathStep{path(11, 11, 0)} }, 10, 11,
		},
		"none now, and some are foreseen": {
			0, func(s *planning.Subject) {
				s.Workload.MinReplicas, s.Policy.ScaleToZero, s.Proposal.Activity = 0, true, api.Inactive
				s.Workload.Triggers = []api.Trigger{{Name: "queue", Activates: true}}
				s.Memory.Replicas, s.Proposal.Floor = 0, 0
				s.Proposal.Path = []api.PathStep{path(1, 1, 0), path(6, 6, time.Minute)}
			}, 6, 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(2, 2)
			s.Memory.NodeReplicas, s.Proposal.NodeReplicas = c.before, 0
			c.change(&s)
			nodes, ahead, _ := planning.Guard{Config: config()}.NodeReplicas(s, 0)
			if nodes != c.nodes || ahead != c.ahead {
				t.Errorf("nodes for %d, %d ahead; want %d and %d", nodes, ahead, c.nodes, c.ahead)
			}
		})
	}
}
