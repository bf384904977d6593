package trainticket

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/trainticket/drpc"
	"github.com/mash2-io/mash2/planning/rl"
)

// students decide, each for its own service.
type students struct {
	base  decider
	minds []*drpc.Student
	each  []drpc.Action
}

func newStudents(policies []rl.Policy, from start) (*students, error) {
	s := &students{base: from.rule(), each: make([]drpc.Action, len(policies))}
	for _, p := range policies {
		mind, err := drpc.NewStudent(p)
		if err != nil {
			return nil, err
		}
		s.minds = append(s.minds, mind)
	}
	return s, nil
}

func (s *students) decide(v *view) []sim.Size {
	for i, mind := range s.minds {
		s.each[i] = mind.Decide(v.local[i])
	}
	return v.apply(sizesOf(s.base, v), func(i int) drpc.Action { return s.each[i] })
}

// lessons that there are: rounds of some episodes, after each of which the students learn for
// some epochs. In the first round the teacher decides, then the students do, and the teacher
// says what it had done (DAgger: Ross et al. 2011).
type syllabus struct{ rounds, episodes, epochs int }

// syllabusOf a training of so many episodes.
func syllabusOf(episodes int) syllabus {
	return syllabus{rounds: 5, episodes: min(max(episodes/20, 1), 6), epochs: 40}
}

// imitate has a student of each service learn what the teacher does. from are the students of
// before, nil for new ones. It returns the mean squared error of the last round.
func imitate(ctx context.Context, c syllabus, t *teacher, from []rl.Policy, seed uint64, changed Changed, progress io.Writer) ([]rl.Policy, float64, error) {
	var lessons [][]drpc.Lesson
	policies := from
	var loss float64
	config := drpc.DefaultImitation()
	config.Epochs = c.epochs
	for round := range c.rounds {
		for e := range c.episodes {
			expert := t.policy()
			var d decider = expert
			if round > 0 {
				var err error
				if d, err = newStudents(policies, t.start); err != nil {
					return nil, 0, err
				}
			}
			note := func(v *view) {
				for len(lessons) < len(v.services) {
					lessons = append(lessons, nil)
				}
				for i := range v.services {
					var l drpc.Lesson
					v.local[i].Observation(l.Seen[:0])
					a := expert.act(v, i)
					l.Action = [3]float32{float32(a.CPU), float32(a.Memory), float32(a.Replicas)}
					lessons[i] = append(lessons[i], l)
				}
			}
			if _, err := play(ctx, d, "lessons", seed+uint64(round*c.episodes+e), changed, nil, note); err != nil {
				return nil, 0, err
			}
		}
		var err error
		if policies, loss, err = each(config, policies, lessons, seed); err != nil {
			return nil, 0, err
		}
		fmt.Fprintf(progress, "students: round %d of %d, mean squared error %.4f\n", round+1, c.rounds, loss)
	}
	return policies, loss, nil
}

// each student learns its lessons, by itself.
func each(c drpc.Imitation, from []rl.Policy, lessons [][]drpc.Lesson, seed uint64) ([]rl.Policy, float64, error) {
	out, losses, errs := make([]rl.Policy, len(lessons)), make([]float64, len(lessons)), make([]error, len(lessons))
	work := make(chan int)
	var done sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		done.Go(func() {
			for i := range work {
				var before *rl.Policy
				if from != nil {
					before = &from[i]
				}
				out[i], losses[i], errs[i] = drpc.Imitate(c, before, lessons[i], seed+uint64(i))
			}
		})
	}
	for i := range lessons {
		work <- i
	}
	close(work)
	done.Wait()
	var sum float64
	for i, err := range errs {
		if err != nil {
			return nil, 0, err
		}
		sum += losses[i]
	}
	return out, sum / float64(len(lessons)), nil
}
