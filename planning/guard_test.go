package planning_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// subject is a workload of 4 replicas, bounds 1–20, whose demand asks for need.
func subject(current, need int32) planning.Subject {
	return planning.Subject{
		Time:     start,
		Workload: api.Workload{Key: api.Key{Namespace: "web", Name: "shop"}, MinReplicas: 1, MaxReplicas: 20, Replicas: current},
		Policy:   api.Policy{Name: "P"},
		Proposal: planning.Proposal{
			Scale: api.Scale{Replicas: need}, NodeReplicas: need, Floor: 1, Binding: "forecast", Need: float64(need),
			Path: []api.PathStep{{At: start, Scale: api.Scale{Replicas: need}, Need: float64(need)}},
		},
		Memory:  planning.WorkloadMemory{Replicas: current, NodeReplicas: current},
		Speed:   1,
		Windows: planning.Windows{Pod: 30 * time.Second, Node: 2 * time.Minute, Trough: time.Minute, NodeTrough: 4 * time.Minute, Horizon: 10 * time.Minute},
	}
}

func ago(d time.Duration) time.Time { return start.Add(-d) }

func TestGuardRange(t *testing.T) {
	type want struct {
		Lo, Hi               int32
		LoBinding, HiBinding api.Binding
		Floor                int32
	}
	recommended := func(at time.Duration, capacity float64) planning.Recommendation {
		return planning.Recommendation{From: ago(at), To: ago(at), Capacity: capacity}
	}
	for name, c := range map[string]struct {
		current, need int32
		change        func(*planning.Subject)
		want          want
	}{
		"need is the least, the author's bound the most": {
			current: 4, need: 6,
			want: want{6, 20, "forecast", "maxReplicas", 1},
		},
		"the floor lifts the least": {
			current: 4, need: 3, change: func(s *planning.Subject) { s.Proposal.Floor = 5 },
			want: want{5, 20, "floor", "maxReplicas", 5},
		},
		"minReplicas lifts the least": {
			current: 4, need: 1, change: func(s *planning.Subject) { s.Workload.MinReplicas = 3 },
			want: want{3, 20, "minReplicas", "maxReplicas", 1},
		},
		"the policy's minimum lifts it further": {
			current: 4, need: 1, change: func(s *planning.Subject) { s.Policy.MinReplicas = 5 },
			want: want{5, 20, "policyMinReplicas", "maxReplicas", 1},
		},
		"maxReplicas is above the floor and the policy's minimum": {
			current: 4, need: 30, change: func(s *planning.Subject) { s.Proposal.Floor, s.Policy.MinReplicas = 25, 40 },
			want: want{20, 20, "maxReplicas", "maxReplicas", 20},
		},
		"min above max is held": {
			current: 4, need: 9, change: func(s *planning.Subject) { s.Workload.MinReplicas = 21 },
			want: want{4, 4, "hold", "hold", 1},
		},
		"max of 0 is held": {
			current: 4, need: 9, change: func(s *planning.Subject) { s.Workload.MinReplicas, s.Workload.MaxReplicas = 0, 0 },
			want: want{4, 4, "hold", "hold", 1},
		},
		"a held plan is held, even beyond the bounds": {
			current: 25, need: 9, change: func(s *planning.Subject) { s.Proposal.Held = true },
			want: want{25, 25, "hold", "hold", 1},
		},
		"bounds hold where no demand is known": {
			current: 4, need: 4, change: func(s *planning.Subject) {
				s.Proposal.Held, s.Proposal.Unknown, s.Workload.MinReplicas = true, true, 6
			},
			want: want{6, 6, "minReplicas", "minReplicas", 1},
		},
		"so does the most": {
			current: 25, need: 25, change: func(s *planning.Subject) { s.Proposal.Held, s.Proposal.Unknown = true, true },
			want: want{20, 20, "maxReplicas", "maxReplicas", 1},
		},
		"none are none where no demand is known": {
			current: 0, need: 0, change: func(s *planning.Subject) { s.Proposal.Held, s.Proposal.Unknown = true, true },
			want: want{0, 0, "hold", "hold", 0},
		},
		"without trust the largest recommendation of five minutes stays": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				s.Memory.Recommendations = []planning.Recommendation{recommended(301*time.Second, 9), recommended(299*time.Second, 7), recommended(15*time.Second, 2)}
			},
			want: want{7, 20, "stabilization", "maxReplicas", 1},
		},
		"a recommendation never raises replicas by stabilisation": {
			current: 5, need: 2, change: func(s *planning.Subject) {
				s.Memory.Recommendations = []planning.Recommendation{recommended(time.Minute, 9)}
			},
			want: want{5, 20, "stabilization", "maxReplicas", 1},
		},
		"recommendations for a pool half as fast count half": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				s.Memory.Recommendations = []planning.Recommendation{recommended(time.Minute, 8*0.5)}
			},
			want: want{4, 20, "stabilization", "maxReplicas", 1},
		},
		"with trust replicas go at once when the trough is long": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				s.Trusted = true
				s.Memory.Recommendations = []planning.Recommendation{recommended(time.Minute, 9)}
			},
			want: want{2, 20, "forecast", "maxReplicas", 1},
		},
		"with trust replicas stay that are needed again soon": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				s.Trusted = true
				s.Proposal.Path = append(s.Proposal.Path, api.PathStep{At: start.Add(50 * time.Second), Scale: api.Scale{Replicas: 6}})
			},
			want: want{6, 20, "stabilization", "maxReplicas", 1},
		},
		"without fresh demand nothing goes down": {
			current: 9, need: 2, change: func(s *planning.Subject) { s.Stale, s.Trusted = true, true },
			want: want{9, 20, "stale", "maxReplicas", 1},
		},
		"without fresh demand the floor still lifts": {
			current: 9, need: 2, change: func(s *planning.Subject) { s.Stale, s.Proposal.Floor = true, 12 },
			want: want{12, 20, "floor", "maxReplicas", 12},
		},
		"a window that the author states looks back even with trust": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				s.Trusted = true
				s.Workload.Behavior.ScaleDown.StabilizationWindow = 10 * time.Minute
				s.Memory.Recommendations = []planning.Recommendation{recommended(9*time.Minute, 8)}
			},
			want: want{8, 20, "stabilization", "maxReplicas", 1},
		},
		"a stated window of none is none": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				s.Workload.Behavior.ScaleDown.WindowStated = true
				s.Memory.Recommendations = []planning.Recommendation{recommended(time.Second, 8)}
			},
			want: want{2, 20, "forecast", "maxReplicas", 1},
		},
		"scale-down disabled": {
			current: 9, need: 2, change: func(s *planning.Subject) { s.Workload.Behavior.ScaleDown.SelectPolicy = "Disabled" },
			want: want{9, 20, "scaleDownRate", "maxReplicas", 1},
		},
		"scale-down by 10 % of ten truncates to 9": {
			current: 10, need: 2, change: func(s *planning.Subject) {
				s.Workload.Behavior.ScaleDown.Policies = []api.ScalingPolicy{{Type: "Percent", Value: 10, Period: time.Minute}}
			},
			want: want{9, 20, "scaleDownRate", "maxReplicas", 1},
		},
		"replicas removed in the period count against its policy": {
			current: 8, need: 2, change: func(s *planning.Subject) {
				s.Workload.Behavior.ScaleDown.Policies = []api.ScalingPolicy{{Type: "Pods", Value: 3, Period: time.Minute}}
				s.Memory.Scalings = []planning.Scaling{{At: ago(30 * time.Second), Change: -2}, {At: ago(61 * time.Second), Change: -5}}
			},
			want: want{7, 20, "scaleDownRate", "maxReplicas", 1}, // 8 + 2 − 3
		},
		"of two policies Max takes the larger change": {
			current: 10, need: 1, change: func(s *planning.Subject) {
				s.Workload.Behavior.ScaleDown.Policies = []api.ScalingPolicy{
					{Type: "Pods", Value: 4, Period: time.Minute}, {Type: "Percent", Value: 10, Period: time.Minute},
				}
			},
			want: want{6, 20, "scaleDownRate", "maxReplicas", 1},
		},
		"of two policies Min takes the smaller change": {
			current: 10, need: 1, change: func(s *planning.Subject) {
				s.Workload.Behavior.ScaleDown.SelectPolicy = "Min"
				s.Workload.Behavior.ScaleDown.Policies = []api.ScalingPolicy{
					{Type: "Pods", Value: 4, Period: time.Minute}, {Type: "Percent", Value: 10, Period: time.Minute},
				}
			},
			want: want{9, 20, "scaleDownRate", "maxReplicas", 1},
		},
		"scale-up by the HPA's own policies: the larger of 100 % and 4 pods": {
			current: 3, need: 15, change: func(s *planning.Subject) {
				s.Proposal.Floor = 12
				s.Workload.Behavior.ScaleUp.Policies = []api.ScalingPolicy{
					{Type: "Percent", Value: 100, Period: 15 * time.Second}, {Type: "Pods", Value: 4, Period: 15 * time.Second},
				}
			},
			want: want{7, 7, "scaleUpRate", "scaleUpRate", 7}, // 3 + 4 > 3 · 2; the floor as well
		},
		"without policies growth is free": {
			current: 1, need: 20,
			want: want{20, 20, "forecast", "maxReplicas", 1},
		},
		"scale-up disabled": {
			current: 3, need: 15, change: func(s *planning.Subject) { s.Workload.Behavior.ScaleUp.SelectPolicy = "Disabled" },
			want: want{3, 3, "scaleUpRate", "scaleUpRate", 1},
		},
		"scale-up rate gives way to minReplicas": {
			current: 1, need: 15, change: func(s *planning.Subject) {
				s.Workload.MinReplicas = 6
				s.Workload.Behavior.ScaleUp.Policies = []api.ScalingPolicy{{Type: "Pods", Value: 1, Period: time.Minute}}
			},
			want: want{6, 6, "scaleUpRate", "scaleUpRate", 1},
		},
		"a scale-up window takes its lowest recommendation": {
			current: 3, need: 15, change: func(s *planning.Subject) {
				s.Workload.Behavior.ScaleUp.StabilizationWindow = time.Minute
				s.Memory.Recommendations = []planning.Recommendation{recommended(2*time.Minute, 3), recommended(30*time.Second, 8), recommended(15*time.Second, 15)}
			},
			want: want{8, 8, "stabilization", "stabilization", 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(c.current, c.need)
			if c.change != nil {
				c.change(&s)
			}
			r := planning.Guard{Config: config()}.Range(s)
			got := want{r.Lo.Replicas, r.Hi.Replicas, r.Lo.Binding, r.Hi.Binding, r.Floor}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("range (-want +got):\n%s\nnotes: %q, %q, %q", diff, r.Hold, r.Lo.Note, r.Hi.Note)
			}
		})
	}
}

// Whatever the limits, the range is a range, within the author's bounds unless
// held, and never excludes the floor.
func TestGuardRangeAlwaysHolds(t *testing.T) {
	rules := rapid.Custom(func(t *rapid.T) api.ScalingRules {
		r := api.ScalingRules{
			StabilizationWindow: time.Duration(rapid.IntRange(0, 600).Draw(t, "window")) * time.Second,
			SelectPolicy:        rapid.SampledFrom([]string{"", "Max", "Min", "Disabled"}).Draw(t, "select"),
			WindowStated:        rapid.Bool().Draw(t, "stated"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "policies") {
			r.Policies = append(r.Policies, api.ScalingPolicy{
				Type:   rapid.SampledFrom([]string{"Pods", "Percent"}).Draw(t, "type"),
				Value:  rapid.Int32Range(1, 300).Draw(t, "value"),
				Period: time.Duration(rapid.IntRange(1, 1800).Draw(t, "period")) * time.Second,
			})
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(0, math.MaxInt32/4)
		if rapid.Bool().Draw(t, "ordinary") {
			replicas = rapid.Int32Range(0, 30)
		}
		s := subject(replicas.Draw(t, "current"), replicas.Draw(t, "need"))
		s.Proposal.Floor = replicas.Draw(t, "floor")
		s.Workload.MinReplicas, s.Workload.MaxReplicas = replicas.Draw(t, "min"), replicas.Draw(t, "max")
		s.Policy.MinReplicas = replicas.Draw(t, "policyMin")
		s.Workload.Behavior.ScaleUp, s.Workload.Behavior.ScaleDown = rules.Draw(t, "up"), rules.Draw(t, "down")
		s.Trusted = rapid.Bool().Draw(t, "trusted")
		for i := range rapid.IntRange(0, 5).Draw(t, "recommendations") {
			at := ago(time.Duration(600-100*i) * time.Second)
			s.Memory.Recommendations = append(s.Memory.Recommendations,
				planning.Recommendation{From: at, To: at, Capacity: rapid.Float64Range(0, 40).Draw(t, "capacity")})
			s.Memory.Scalings = append(s.Memory.Scalings,
				planning.Scaling{At: at, Change: rapid.Int32Range(-20, 20).Draw(t, "change")})
		}
		r := planning.Guard{Config: config()}.Range(s)
		if r.Lo.Replicas > r.Hi.Replicas || r.Lo.Replicas < 0 {
			t.Fatalf("range %d–%d", r.Lo.Replicas, r.Hi.Replicas)
		}
		if r.Hold != "" {
			if r.Lo.Replicas != s.Memory.Replicas || r.Hi.Replicas != r.Lo.Replicas {
				t.Fatalf("held at %d–%d, has %d", r.Lo.Replicas, r.Hi.Replicas, s.Memory.Replicas)
			}
			return
		}
		if r.Lo.Replicas < min(s.Workload.MinReplicas, s.Workload.MaxReplicas) || r.Hi.Replicas > s.Workload.MaxReplicas {
			t.Fatalf("range %d–%d beyond %d–%d", r.Lo.Replicas, r.Hi.Replicas, s.Workload.MinReplicas, s.Workload.MaxReplicas)
		}
		if r.Floor > r.Lo.Replicas {
			t.Fatalf("floor %d above the least of %d", r.Floor, r.Lo.Replicas)
		}
		free := len(s.Workload.Behavior.ScaleUp.Policies) == 0 && s.Workload.Behavior.ScaleUp.SelectPolicy != "Disabled" &&
			s.Workload.Behavior.ScaleUp.StabilizationWindow == 0
		if free && r.Lo.Replicas < min(s.Proposal.Floor, s.Workload.MaxReplicas) {
			t.Fatalf("least %d below the floor of %d", r.Lo.Replicas, s.Proposal.Floor)
		}
	})
}

func TestNodeReplicas(t *testing.T) {
	step := func(ahead time.Duration, n int32) api.PathStep {
		return api.PathStep{At: start.Add(ahead), Scale: api.Scale{Replicas: n}, Need: float64(n)}
	}
	within := func(n int32, need float64) []api.PathStep {
		return []api.PathStep{{At: start, Scale: api.Scale{Replicas: n}, Need: need}}
	}
	for name, c := range map[string]struct {
		before int32
		path   []api.PathStep
		want   int32
		stale  bool
	}{
		"nodes are ordered a node startup latency before they are needed": {2, []api.PathStep{step(0, 2), step(100*time.Second, 8)}, 8, false},
		"what is needed later is ordered later":                           {2, []api.PathStep{step(0, 2), step(121*time.Second, 8)}, 2, false},
		"nodes stay for what is needed again before it would pay":         {8, []api.PathStep{step(0, 2), step(200*time.Second, 6)}, 6, false},
		"nodes go when the trough is long":                                {8, []api.PathStep{step(0, 2), step(5*time.Minute, 8)}, 2, false},
		"the author's bound holds for nodes":                              {2, []api.PathStep{step(0, 2), step(time.Minute, 90)}, 20, false},
		"a need within the tolerance leaves nodes as they are":            {21, []api.PathStep{step(0, 20)}, 20, false},
		"one more than just enough, no more than the need, stays":         {11, within(10, 10.6), 11, false},
		"one more than the need goes":                                     {12, within(10, 10.6), 10, false},
		"without fresh demand nodes stay":                                 {12, []api.PathStep{step(0, 2)}, 12, true},
		"two more than planned for go":                                    {12, []api.PathStep{step(0, 10)}, 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(2, 2)
			s.Memory.NodeReplicas, s.Proposal.Path, s.Proposal.NodeReplicas, s.Stale = c.before, c.path, 0, c.stale
			if got, _, _ := (planning.Guard{Config: config()}).NodeReplicas(s, 2); got != c.want {
				t.Errorf("NodeReplicas = %d, want %d", got, c.want)
			}
		})
	}
}

// Without a trusted forecast nodes stay for what was needed lately, whatever
// the speed of the machines it was recommended for.
func TestNodesStayForAWhileWhereNoForecastLooksAhead(t *testing.T) {
	recommended := func(before time.Duration, capacity float64) planning.Recommendation {
		return planning.Recommendation{From: ago(before), To: ago(before), Capacity: capacity}
	}
	for name, c := range map[string]struct {
		before  int32
		past    []planning.Recommendation
		speed   float64
		trusted bool
		want    int32
	}{
		"needed nine minutes ago":                {8, []planning.Recommendation{recommended(9*time.Minute, 8)}, 1, false, 8},
		"needed eleven minutes ago":              {8, []planning.Recommendation{recommended(11*time.Minute, 8)}, 1, false, 2},
		"a part of it needed since":              {8, []planning.Recommendation{recommended(11*time.Minute, 8), recommended(6*time.Minute, 5)}, 1, false, 5},
		"no more than nodes were planned for":    {6, []planning.Recommendation{recommended(9*time.Minute, 8)}, 1, false, 6},
		"on slower machines as much needs more":  {16, []planning.Recommendation{recommended(9*time.Minute, 8)}, 0.5, false, 16},
		"a trusted forecast looks ahead instead": {8, []planning.Recommendation{recommended(9*time.Minute, 8)}, 1, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(2, 2)
			s.Memory.NodeReplicas, s.Memory.Recommendations = c.before, c.past
			s.Speed, s.Trusted = c.speed, c.trusted
			if got, _, _ := (planning.Guard{Config: config()}).NodeReplicas(s, 2); got != c.want {
				t.Errorf("NodeReplicas = %d, want %d", got, c.want)
			}
		})
	}
}

// While demand keeps falling nodes go as soon as giving them up pays, if they may by the
// workload's own history: Windows.NodeTrough is four minutes here, of which a part of
// six is three samples.
func TestNodesGoSoonerWhileDemandKeepsFalling(t *testing.T) {
	const each, parts = 3, 7
	// ramp is demand of so many parts, each of which changes it by so much.
	ramp := func(from, change float64, n int) []float64 {
		var v []float64
		for i := range n * each {
			v = append(v, from+change*float64(i/each))
		}
		return v
	}
	fall := ramp(1000, -50, parts)
	changed := func(change func(v []float64)) []float64 {
		v := slices.Clone(fall)
		change(v)
		return v
	}
	// after are falls of before, then the one of now: so many that demand stayed away
	// after, and so many after which one sample within the window was so large. Half of
	// a fall is 850, of one that begins within a part 817 or more.
	after := func(stayed, back int, by float64) []float64 {
		var v []float64
		for i := range stayed + back {
			tail := ramp(700, 0, parts)
			if i >= stayed {
				tail[8] = by
			}
			v = slices.Concat(v, fall, tail)
		}
		return slices.Concat(v, fall)
	}
	lost := func(v []float64, tails int) []float64 {
		for i := range tails {
			v[(2*i+1)*len(fall)+2] = math.NaN()
		}
		return v
	}
	for name, c := range map[string]struct {
		demand   []float64
		needed   time.Duration // ago
		lately   float64       // needed three minutes ago
		quantile float64
		triggers int
		want     int32
	}{
		"it keeps falling": {demand: fall, want: 2},
		"needed within the time in which it must pay": {demand: fall, needed: 3 * time.Minute, want: 8},
		"less needed within it":                       {demand: fall, lately: 5, want: 5},
		"it stays as it is":                           {demand: ramp(1000, 0, parts), want: 8},
		"it rises":                                    {demand: ramp(1000, 50, parts), want: 8},
		"it falls no more":                            {demand: changed(func(v []float64) { copy(v[len(v)-each:], v[len(v)-2*each:]) }), want: 8},
		"it fell later":                               {demand: changed(func(v []float64) { copy(v, v[each:2*each]) }), want: 8},
		"a sample is missing":                         {demand: changed(func(v []float64) { v[7] = math.NaN() }), want: 8},
		"not enough is known":                         {demand: fall[1:], want: 8},
		"nothing is known":                            {want: 8},
		"a queue asks for replicas as well":           {demand: fall, triggers: 1, want: 8},
		"no fall of before came back":                 {demand: after(9, 0, 850), want: 2},
		"all came back by less than half":             {demand: after(0, 10, 815), want: 2},
		"one of ten came back":                        {demand: after(9, 1, 850), want: 2},
		"one of nine did":                             {demand: after(8, 1, 850), want: 8},
		"one of ten did, where one of 33 may":         {demand: after(9, 1, 850), quantile: 0.97, want: 8},
		"one did, what came after the others is lost": {demand: lost(after(9, 1, 850), 9), want: 8},
	} {
		t.Run(name, func(t *testing.T) {
			if c.needed == 0 {
				c.needed = 5 * time.Minute
			}
			if c.quantile == 0 {
				c.quantile = 0.9
			}
			s := subject(2, 2)
			s.Policy.Quantile = c.quantile
			s.Windows.NodeTrough += 300 * time.Millisecond // the notes are of whole seconds
			s.Workload.Demand = api.Series{Start: ago(time.Duration(len(c.demand)-1) * 15 * time.Second), Step: 15 * time.Second, Values: c.demand}
			s.Workload.Triggers = make([]api.Trigger, c.triggers)
			at := ago(c.needed)
			s.Memory.NodeReplicas, s.Memory.Recommendations = 8, []planning.Recommendation{
				{From: at, To: at, Capacity: 8}, {From: ago(3 * time.Minute), To: ago(3 * time.Minute), Capacity: c.lately},
			}
			got, _, note := planning.Guard{Config: config()}.NodeReplicas(s, 2)
			said := "nodes kept for 8: the largest recommendation of the last 10m0s"
			switch c.want {
			case 5:
				said = "nodes kept for 5: the largest recommendation of the last 4m0s, as usage keeps falling"
			case 2:
				said = "nodes not kept for longer than 4m0s, as usage keeps falling"
			}
			if got != c.want || note != said {
				t.Errorf("NodeReplicas = %d (%s), want %d (%s)", got, note, c.want, said)
			}
		})
	}
}

func TestMaxNodes(t *testing.T) {
	recent := &api.PoolError{Kind: api.PoolStockout, Message: "ZONE_RESOURCE_POOL_EXHAUSTED", At: ago(time.Minute)}
	for name, c := range map[string]struct {
		pool       api.Pool
		policy     api.Policy
		others     float64
		heedErrors bool
		want       int32
		wantReason string
	}{
		"nothing limits": {want: -1},
		"the pool's own bound is per zone": {
			pool: api.Pool{MaxPerZone: 4}, want: 12, wantReason: "at most 4 nodes per zone",
		},
		"a bound of 10 nodes on three zones is 9": {
			policy: api.Policy{Name: "P", MaxNodesPerPool: 10}, want: 9, wantReason: "policy P allows 10 nodes",
		},
		"money buys whole rounds of zones": {
			// 1.00 − 0.05 for other pools = 9.5 nodes of 0.10.
			policy: api.Policy{Name: "P", MaxHourlyCost: 1}, others: 0.05, want: 9, wantReason: "policy P allows $1.00/h",
		},
		"money that other pools use up buys none": {
			policy: api.Policy{Name: "P", MaxHourlyCost: 1}, others: 2, want: 0, wantReason: "allows $1.00/h",
		},
		"a stockout keeps a pool at its size": {
			pool: api.Pool{Sizes: []int32{2, 1, 2}, Error: recent}, heedErrors: true, want: 6, wantReason: "Stockout",
		},
		"a stockout is not heeded without alternatives": {
			pool: api.Pool{Sizes: []int32{2, 1, 2}, Error: recent}, want: -1,
		},
		"an old stockout is forgotten": {
			pool: api.Pool{Error: &api.PoolError{Kind: api.PoolQuota, At: ago(11 * time.Minute)}}, heedErrors: true, want: -1,
		},
		"other errors are no bound": {
			pool: api.Pool{Error: &api.PoolError{Kind: api.PoolOther, At: ago(time.Second)}}, heedErrors: true, want: -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := c.pool
			pool.Name, pool.Zones, pool.Price = "p", []string{"a", "b", "c"}, 0.1
			got, reason := planning.Guard{Config: config()}.MaxNodes(start, c.policy, pool, c.others, c.heedErrors)
			if got != c.want || !strings.Contains(reason, c.wantReason) {
				t.Errorf("MaxNodes = %d, %q, want %d, %q", got, reason, c.want, c.wantReason)
			}
		})
	}
}
