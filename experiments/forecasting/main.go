// Command forecasting scores every forecast model on M4's hourly series and on
// traces of production systems, and prints tables as Markdown.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/forecasters"
)

func main() {
	var o options
	flag.StringVar(&o.data, "data", cmp.Or(os.Getenv("MASH2_DATA"), filepath.Join("..", "shared", "data")), "folder of the data")
	flag.IntVar(&o.origins, "origins", 8, "forecasts of each series and horizon, spread over its last third")
	flag.IntVar(&o.every, "every", 1, "use every n-th series of M4 only")
	flag.StringVar(&o.only, "only", "", "m4, traces, carried, alibaba, regimes, cost, updates, cycles, scenarios or trust: that part only")
	flag.StringVar(&o.mash2, "mash2", "", "mash2's program, which simulates the scenarios")
	flag.StringVar(&o.figures, "figures", "", "folder for figures of the changes of regime")
	flag.BoolVar(&o.each, "each", false, "print each series of trust")
	models := flag.String("models", strings.Join(forecasters.Names(), ","), "models to score")
	flag.Parse()
	o.models = strings.Split(*models, ",")
	if err := o.run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	data, only     string
	figures, mash2 string
	origins, every int
	each           bool
	models         []string
}

func (o options) run(w io.Writer) error {
	for _, name := range o.models {
		if _, err := forecasters.ByName(name); err != nil {
			return err
		}
	}
	if _, err := os.Stat(o.data); err != nil {
		return fmt.Errorf("no data to score on; set MASH2_DATA to the folder that has it: %w", err)
	}
	var errs []error
	for _, part := range []struct {
		name string
		run  func(io.Writer) error
	}{{"m4", o.m4}, {"traces", o.traces}, {"carried", o.carried}, {"alibaba", o.alibaba}, {"regimes", o.regimes}, {"cost", o.cost}, {"updates", o.amortised}, {"cycles", o.cycles}, {"scenarios", o.scenarios}, {"trust", o.trust}} {
		if o.only == "" || o.only == part.name {
			errs = append(errs, part.run(w))
		}
	}
	return errors.Join(errs...)
}

// table prints rows under a header as Markdown.
func table(w io.Writer, title string, header []string, rows [][]string, notes ...string) {
	fmt.Fprintf(w, "\n### %s\n\n", title)
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
	}
	for _, n := range notes {
		fmt.Fprintf(w, "\n%s\n", n)
	}
}

// parallel runs jobs on a few workers, in any order, and joins their errors.
func parallel[T any](jobs []T, workers int, do func(T) error) error {
	queue := make(chan T)
	results := make(chan error)
	for range workers {
		go func() {
			var errs []error
			for j := range queue {
				errs = append(errs, do(j))
			}
			results <- errors.Join(errs...)
		}()
	}
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	var errs []error
	for range workers {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

func mean(xs []float64) float64 {
	sum, n := 0.0, 0
	for _, x := range xs {
		if x == x { // not NaN
			sum += x
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// ranked is names in the order of a score, the least first.
func ranked(names []string, score func(string) float64) []string {
	out := slices.Clone(names)
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(score(a), score(b)) })
	return out
}
