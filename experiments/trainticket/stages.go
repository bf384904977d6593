package trainticket

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/mash2-io/mash2/experiments/trainticket/drpc"
	"github.com/mash2-io/mash2/planning/rl"
)

// Stage is an episode of Algorithm 1: students decide, until the notifier asks for teaching.
type Stage struct {
	// Teaching is whether the episode ended in teaching. Reward is the mean until then.
	Teaching bool
	Reward   float64
}

// settling is for how many decisions nobody is blamed: an episode begins with one replica of each
// service.
const settling = 24

// operate is DRPC's Algorithm 1 over so many episodes: students decide (stage 2); once the mean
// of the last rewards is below the threshold, the teacher explores for some episodes and the
// students learn from it (stage 1), each from what it knew.
func operate(ctx context.Context, t *teacher, policies []rl.Policy, episodes, lessons int, with syllabus, seed uint64, changed Changed, progress io.Writer) ([]rl.Policy, []Stage, error) {
	var stages []Stage
	notifier := drpc.Notifier{Threshold: drpc.Threshold, Window: drpc.Window}
	for e := range episodes {
		d, err := newStudents(policies, t.start)
		if err != nil {
			return nil, nil, err
		}
		var s Stage
		var sum, count float64
		decided := 0
		until, stop := context.WithCancel(ctx)
		_, err = play(until, d, "students", seed+uint64(e), changed, nil, func(v *view) {
			if decided++; s.Teaching || decided <= settling {
				return
			}
			r := v.mean()
			sum, count = sum+r, count+1
			if notifier.Note(v.told()) {
				s.Teaching = true
				stop()
			}
		})
		stop()
		if err != nil && (!s.Teaching || ctx.Err() != nil) {
			return nil, nil, err
		}
		s.Reward = sum / count
		stages = append(stages, s)
		fmt.Fprintf(progress, "episode %d: mean reward %.3f, teaching %v\n", e+1, s.Reward, s.Teaching)
		if !s.Teaching {
			continue
		}
		notifier.Forget()
		from := seed + 1<<10*uint64(e+1)
		if _, err := t.teach(ctx, lessons, from, changed, progress); err != nil {
			return nil, nil, err
		}
		if policies, _, err = imitate(ctx, with, t, policies, from+1<<9, changed, progress); err != nil {
			return nil, nil, err
		}
	}
	return policies, stages, nil
}

// mean reward of all services.
func (v *view) mean() float64 {
	var sum float64
	for i := range v.services {
		sum += v.reward(i)
	}
	return sum / float64(len(v.services))
}

// told is what the notifier is told of a decision: the mean reward of services, and no more than
// what users are served by. Of forty services a few that all users wait for do not show in a mean.
func (v *view) told() float64 {
	return math.Min(v.mean(), drpc.QoS(v.p99, tolerated)*(1-v.failed))
}
