package margins

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// workloads are drawn: as many as are asked for, but for those of which no margins are known.
func workloads(ctx context.Context, n int, seed uint64, progress io.Writer) ([]trace, error) {
	all := make([]*trace, n)
	const report = 500
	for from := 0; from < n; from += report {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		count := min(report, n-from)
		parallel(runtime.GOMAXPROCS(0), count, func(_, i int) {
			rng := rand.New(rand.NewPCG(seed, 1000+uint64(from+i)))
			first := 1100 + rng.IntN(1700) // margins are known after some thousand minutes
			t, ok := newTrace(fmt.Sprintf("drawn %d", from+i), epoch, drawn(rng, days*24*60), first, rng)
			if ok {
				all[from+i] = &t
			}
		})
		fmt.Fprintf(progress, "%d of %d workloads drawn\n", from+count, n)
	}
	var out []trace
	for _, t := range all {
		if t != nil {
			out = append(out, *t)
		}
	}
	return out, nil
}

// requestMilli is the CPU time of a request, milliseconds: of a request a second, millicores.
const requestMilli = 3

// recorded are the days of a scenario's load that have two days before them, each with noise
// of its own as often as is asked for. Of a scenario with no more history than it asks for
// that is one day.
func recorded(file string, times int, rng *rand.Rand) ([]trace, error) {
	var s scenarios.Scenario
	var err error
	before := 4
	for ; before >= 2; before-- { // as many days as there are
		if s, err = scenarios.LoadWith(file, scenarios.Changes{Warmup: before}); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	load := s.Traffic(before+1, 1)
	if s.PassDuration() != 24*time.Hour {
		return nil, fmt.Errorf("%s: a pass of it takes %v, not a day", file, s.PassDuration())
	}
	byMinute := make([]float64, (before+1)*24*60)
	for i := range byMinute {
		byMinute[i] = requestMilli * load.RPS(time.Duration(i)*time.Minute)
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	var out []trace
	for k := range times {
		for d := 2; d <= before; d++ {
			// Margins are known of two days before a day.
			of := shown(rng, byMinute[(d-2)*24*60:(d+1)*24*60], 0.02)
			t, ok := newTrace(fmt.Sprintf("%s, day %d, %d", name, d+1, k+1), epoch, of, 2*24*60, rng)
			if ok {
				out = append(out, t)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no margins are known of its load", file)
	}
	return out, nil
}
