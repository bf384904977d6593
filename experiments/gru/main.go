// Command gru trains the small recurrent network that mash2 is shipped with, on
// the development part of the traces only, and writes its weights. The same seed
// gives the same bytes.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/forecast/seriesfile"
)

func main() {
	data := flag.String("data", cmp.Or(os.Getenv("MASH2_DATA"), filepath.Join("..", "shared", "data")), "folder of the data")
	out := flag.String("out", filepath.Join("forecast", "gru", "weights.json"), "where to write the weights")
	hidden := flag.Int("hidden", 16, "units")
	batches := flag.Int("batches", 5000, "batches of 32 sequences")
	seed := flag.Uint64("seed", 1, "of the first weights and of what is drawn")
	flag.Parse()
	if err := run(*data, *out, *hidden, *batches, *seed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// developed are the files that the traces in experiments/traces/development are
// of. Those in held-out are for judging.
var developed = []string{
	"alibaba-containers/c_12104.csv.gz",
	"crane-dsp/input0.csv.gz", "crane-dsp/input1.csv.gz", "crane-dsp/input2.csv.gz",
	"crane-dsp/input4.csv.gz", "crane-dsp/input5.csv.gz", "crane-dsp/input8.csv.gz",
	"wc98/requests_per_minute_first60d.csv.gz",
}

// Of each trace the first two thirds are learnt from, at these steps: forecasts
// are scored on the last third.
const trained = 2.0 / 3

var resolutions = []time.Duration{time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

func run(data, out string, hidden, batches int, seed uint64) error {
	learn, check, err := load(data)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 0))
	l := newLearner(hidden, r)
	loss := l.train(learn, batches, 32, r)
	for i, w := range l.net.Weights {
		// As many digits as matter, so that the file is small.
		if l.net.Weights[i], err = strconv.ParseFloat(strconv.FormatFloat(w, 'g', 6, 64), 64); err != nil {
			return err
		}
	}
	l.net.Trained = developed
	ours, last := l.judge(check, rand.New(rand.NewPCG(seed, 1)))
	fmt.Printf("%d series, %d weights; loss at the end of training %.3f; on the part after it %.3f, the last value's %.3f\n",
		len(learn), len(l.net.Weights), loss, ours, last)
	text, err := json.Marshal(l.net)
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(text, '\n'), 0o600)
}

// load reads what is learnt from, and the tenth after it.
func load(data string) (learn, check []*series, err error) {
	for _, file := range developed {
		for _, step := range resolutions {
			f, err := os.Open(filepath.Join(data, filepath.FromSlash(file)))
			if err != nil {
				return nil, nil, err
			}
			got, err := seriesfile.Parse(f, seriesfile.Options{Name: file, Step: step})
			if closed := f.Close(); err == nil {
				err = closed
			}
			if err != nil {
				return nil, nil, err
			}
			values := got.Series.Values
			n := int(trained * float64(len(values)))
			s := newSeries(file, values[:n], step)
			if s == nil {
				continue
			}
			learn = append(learn, s)
			// The same scale and season, on samples that were not learnt from; a
			// season of them comes first.
			later := *s
			later.values = scaled(values[max(0, n-s.season-1):n+len(values)/10], s.unit(values[:n]))
			if len(later.values) > s.season+2*length {
				check = append(check, &later)
			}
		}
	}
	return learn, check, nil
}

func (s *series) unit(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return sum / float64(n)
}

// scaled is values in a unit, gaps filled with what was before.
func scaled(values []float64, unit float64) []float64 {
	out := make([]float64, len(values))
	last := 0.0
	for i, v := range values {
		if !math.IsNaN(v) {
			last = v / unit
		}
		out[i] = last
	}
	return out
}

// newSeries is nil where there is too little to learn from.
func newSeries(name string, values []float64, step time.Duration) *series {
	s := &series{name: name}
	unit := s.unit(values)
	if !(unit > 0) {
		return nil
	}
	s.values = scaled(values, unit)
	if p := forecast.SeasonOf(s.values[max(0, len(s.values)-int(14*24*time.Hour/step)):], rollout); p >= rollout {
		s.season = p
	}
	const apart = rollout / 2
	for i := apart; i < len(s.values); i++ {
		s.size += math.Abs(s.values[i]-s.values[i-apart]) / float64(len(s.values)-apart)
	}
	if len(s.values) < s.season+4*length || !(s.size > 1e-6) {
		return nil
	}
	return s
}

// judge is the mean error over rollouts, in sizes, of the net and of the last
// value.
func (l *learner) judge(all []*series, r *rand.Rand) (ours, last float64) {
	const draws = 2000
	for range draws {
		q := draw(all, r)
		l.forward(q)
		newest := q.values[q.at+warmup-1]
		for j := warmup - 1; j < length; j++ {
			actual := q.values[q.at+j+1]
			ours += math.Abs(l.steps[j].said-actual) / q.size / draws / (rollout + 1)
			last += math.Abs(newest-actual) / q.size / draws / (rollout + 1)
		}
	}
	return ours, last
}
