package planning_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
)

// down follows what the Guard leaves of replicas while recommendations go by, one every
// 15 s, and returns what ran in each cycle.
func down(asked []float64, change ...func(*planning.Subject)) []int32 {
	const window = 10 * time.Minute
	var ran []int32
	current, recent := int32(math.Ceil(asked[0])), []planning.Recommendation(nil)
	for i, need := range asked {
		now := start.Add(time.Duration(i) * 15 * time.Second)
		s := subject(current, int32(math.Ceil(need)))
		s.Time, s.Workload.MaxReplicas = now, 1000
		s.Windows.PodHold = window
		s.Memory.Margins.Pod = forecast.Growth{Factor: 1.2}
		s.Memory.Recommendations = recent
		for _, do := range change {
			do(&s)
		}
		current = guard().Range(s).Lo.Replicas
		ran = append(ran, current)
		recent = append(recent, planning.Recommendation{From: now, To: now, Capacity: need})
	}
	return ran
}

func guard() planning.Guard { return planning.Guard{Config: planning.DefaultConfig()} }

// changes of what ran, downwards.
func steps(ran []int32) (n int) {
	for i := 1; i < len(ran); i++ {
		if ran[i] < ran[i-1] {
			n++
		}
	}
	return n
}

func TestFallsAreTakenInOneStep(t *testing.T) {
	line := func(parts ...[2]float64) (out []float64) { // cycles, and where they lead
		at := 100.0
		for _, p := range parts {
			for i := range int(p[0]) {
				out = append(out, at+(p[1]-at)*float64(i+1)/p[0])
			}
			at = p[1]
		}
		return out
	}
	for name, c := range map[string]struct {
		asked []float64
		steps int
		end   int32
	}{
		"a fall at once":                            {line([2]float64{10, 100}, [2]float64{1, 60}, [2]float64{100, 60}), 1, 60},
		"a fall of two minutes":                     {line([2]float64{10, 100}, [2]float64{8, 60}, [2]float64{100, 60}), 1, 60},
		"a small one waits, and is taken at last":   {line([2]float64{10, 100}, [2]float64{1, 95}, [2]float64{100, 95}), 1, 95},
		"one of an hour goes by steps of a tenth":   {line([2]float64{10, 100}, [2]float64{240, 50}, [2]float64{120, 50}), 7, 50},
		"what comes again within a window is kept":  {line([2]float64{10, 100}, [2]float64{30, 60}, [2]float64{1, 100}, [2]float64{10, 100}), 0, 100},
		"noise that is within the tolerance is not": {line([2]float64{10, 100}, [2]float64{10, 92}, [2]float64{10, 100}, [2]float64{10, 93}, [2]float64{10, 99}), 0, 100},
	} {
		t.Run(name, func(t *testing.T) {
			ran := down(c.asked)
			if got := steps(ran); got > c.steps || (got == 0) != (c.steps == 0) {
				t.Errorf("%d steps down, want %d at most: %v", got, c.steps, ran)
			}
			if got := ran[len(ran)-1]; got != c.end {
				t.Errorf("%d at the end, want %d", got, c.end)
			}
		})
	}
}

// How long replicas stay that are no longer needed: for as long as nodes do, but with a
// trusted forecast as long as an HPA keeps them, and as their author says.
func TestReplicasStay(t *testing.T) {
	asked := append(slices.Repeat([]float64{100}, 10), slices.Repeat([]float64{50}, 60)...)
	for name, c := range map[string]struct {
		change func(*planning.Subject)
		stay   time.Duration
	}{
		"with their nodes":        {func(*planning.Subject) {}, 10 * time.Minute},
		"with a trusted forecast": {func(s *planning.Subject) { s.Trusted = true }, 5 * time.Minute},
		"as their author says": {func(s *planning.Subject) {
			s.Workload.Behavior.ScaleDown.WindowStated, s.Workload.Behavior.ScaleDown.StabilizationWindow = true, time.Minute
		}, time.Minute},
		"while the history is too young for margins": {func(s *planning.Subject) {
			s.Memory.Margins, s.Policy.Objective = planning.Margins{}, 0.999
		}, 10 * time.Minute},
		"without an objective": {func(s *planning.Subject) { s.Memory.Margins = planning.Margins{} }, 5 * time.Minute},
	} {
		ran := down(asked, c.change)
		last := 0
		for i, n := range ran {
			if n == 100 {
				last = i
			}
		}
		// The largest recommendation was made last in cycle 9, and a window holds both of its ends.
		if got := time.Duration(last-9) * 15 * time.Second; got > c.stay || got < c.stay-30*time.Second {
			t.Errorf("%s: they stay for %v, want %v at most", name, got, c.stay)
		}
		if got := ran[len(ran)-1]; got != 50 {
			t.Errorf("%s: %d at the end", name, got)
		}
	}
}

// Whatever was recommended: nothing goes that was needed within the window, and everything
// that was not for two is gone but for a tolerance.
func TestFallsAreTaken(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		asked, at := []float64(nil), 10+90*r.Float64()
		for range 200 {
			switch r.IntN(12) {
			case 0:
				at = 2 + 98*r.Float64()
			case 1, 2, 3:
				at = math.Max(2, at*math.Exp(0.05*r.NormFloat64()))
			}
			asked = append(asked, at)
		}
		most := func(i, cycles int) int32 {
			out := 0.0
			for k := max(0, i-cycles); k <= i; k++ {
				out = math.Max(out, asked[k])
			}
			return int32(math.Ceil(out))
		}
		for i, n := range down(asked) {
			if least, last := most(i, 40), most(i, 88); n < least || 0.9*float64(n) > float64(last) {
				t.Fatalf("cycle %d: %d, want %d to %d", i, n, least, last)
			}
		}
	}
}

// What was needed is kept for as long as margins were taken for, replicas and nodes, where no
// forecast is trusted.
func TestHoldOfMarginsKeepsReplicasAndNodes(t *testing.T) {
	asked := append([]float64{8}, slices.Repeat([]float64{2}, 4*50)...) // 50 minutes
	for hold, want := range map[time.Duration]int{0: 10 * 4, 30 * time.Minute: 30 * 4} {
		for _, trusted := range []bool{false, true} {
			ran := down(asked, func(s *planning.Subject) { s.Memory.Margins.Hold, s.Trusted = hold, trusted })
			if trusted {
				want = 5 * 4 // as an HPA holds them
			}
			gone := slices.Index(ran, 2)
			if gone < want || gone > want+8 {
				t.Errorf("held for %v, trusted %v: gone after %d cycles, want %d", hold, trusted, gone, want)
			}
		}
		s := subject(2, 2)
		s.Memory.Margins.Hold = hold
		ago := s.Time.Add(-25 * time.Minute)
		s.Memory.NodeReplicas, s.Memory.Recommendations = 8, []planning.Recommendation{{From: ago, To: ago, Capacity: 8}}
		nodes, _, note := guard().NodeReplicas(s, 2)
		if kept := hold > 25*time.Minute; kept != (nodes == 8) {
			t.Errorf("held for %v: nodes for %d (%s)", hold, nodes, note)
		}
	}
}
