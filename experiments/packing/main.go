// Command packing measures the packing solvers: our own problems at several
// sizes, and the published instances of vector bin packing. It prints Markdown.
//
// Times are CPU seconds of this process, so that a busy machine does not count.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node"
)

func main() {
	sizes := flag.String("sizes", "5/12/1,5/12/5,10/100/1,30/1000/1,30/1000/5,30/1000/20,100/10000/1,100/10000/5,100/10000/20,500/100000/1,500/100000/5,500/100000/20", "shapes/pods/types, comma-separated; empty for none")
	seeds := flag.Int("seeds", 1, "problems per size")
	peers := flag.Int("peers", 10000, "pods up to which Karpenter and Cluster Autoscaler are asked as well")
	seconds := flag.Float64("seconds", 10, "budget of auto, in work that takes about so long")
	vectors := flag.String("vectorpack", "", "folder with the archives of vector bin packing; empty for none")
	each := flag.Float64("each", 1, "budget per instance of vector bin packing, in work that takes about so many seconds")
	most := flag.Int("items", 100, "largest number of items of the instances")
	above := flag.Int("above", 0, "number of items that they must have more than")
	every := flag.Int("every", 1, "only one in so many instances")
	flag.Parse()
	if err := run(*sizes, *seeds, *seconds, *peers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if *vectors == "" {
		return
	}
	if err := published(*vectors, *each, *above, *most, *every); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// iterations is a budget that takes about so many seconds.
func iterations(seconds float64) api.Budget { return api.Budget{Iterations: int(seconds * 4500)} }

// measured is a packing with the CPU time it took.
type measured struct {
	node.Packing
	seconds float64
}

func measure(p node.Problem, solve func() (node.Packing, error)) (measured, error) {
	start := cpu()
	k, err := solve()
	if err != nil {
		return measured{}, err
	}
	seconds := (cpu() - start).Seconds()
	if err := p.Check(k); err != nil {
		return measured{}, fmt.Errorf("%s: %w", k.Solver, err)
	}
	return measured{k, seconds}, nil
}

func run(sizes string, seeds int, seconds float64, peers int) error {
	if sizes == "" {
		return nil
	}
	ffd, auto := node.FFD{}, node.Columns{}
	fmt.Println("| shapes/pods/types | seed | lower bound | auto | gap, % | nodes | CPU s | 1 s of work: gap, % | CPU s | warm: gap, % | CPU s | FFD over auto, % | CPU s | Karpenter over auto, % | CPU s | Cluster Autoscaler over auto, % | CPU s | ILP over auto, % | CPU s |")
	fmt.Println("|" + strings.Repeat("---|", 19))
	for size := range strings.SplitSeq(sizes, ",") {
		var shapes, pods, types int
		if _, err := fmt.Sscanf(size, "%d/%d/%d", &shapes, &pods, &types); err != nil || types > len(machines) {
			return fmt.Errorf("%q is no shapes/pods/types", size)
		}
		for seed := range seeds {
			p := generate(shapes, pods, types, uint64(seed+1))
			next := moved(p, uint64(seed+1))
			var patterns node.Patterns
			first, err := measure(p, func() (node.Packing, error) { return ffd.Solve(p, api.Budget{}) })
			if err != nil {
				return err
			}
			full, err := measure(p, func() (node.Packing, error) {
				k, kept, err := auto.SolveFrom(p, iterations(seconds), node.Patterns{})
				patterns = kept
				return k, err
			})
			if err != nil {
				return err
			}
			short, err := measure(p, func() (node.Packing, error) { return auto.Solve(p, iterations(1)) })
			if err != nil {
				return err
			}
			warm, err := measure(next, func() (node.Packing, error) {
				k, _, err := auto.SolveFrom(next, iterations(1), patterns)
				return k, err
			})
			if err != nil {
				return err
			}
			nodes := int32(0)
			for _, l := range full.Loads {
				nodes += l.Nodes
			}
			bound := max(full.LowerBound, short.LowerBound)
			fmt.Printf("| %s | %d | %.2f | %.2f | %.3f | %d | %.2f | %.3f | %.2f | %.3f | %.2f | %.1f | %.2f |",
				size, seed+1, bound, full.Cost, 100*gap(full.Cost, bound), nodes, full.seconds,
				100*gap(short.Cost, bound), short.seconds, 100*gap(warm.Cost, warm.LowerBound), warm.seconds,
				100*(first.Cost/full.Cost-1), first.seconds)
			if pods <= peers {
				for _, other := range []peer{byKarpenter(p), byAutoscaler(p)} {
					if other.unplaced > 0 {
						return fmt.Errorf("%s: a peer leaves %d pods over", size, other.unplaced)
					}
					fmt.Printf(" %.1f | %.2f |", 100*(other.cost/full.Cost-1), other.seconds)
				}
			} else {
				fmt.Print(" – | – | – | – |")
			}
			fmt.Println(byILP(p, full.Cost))
		}
	}
	return nil
}

// byILP is the paper's problem in what remains of a row, if this build has a solver
// and the problem is small enough for it.
func byILP(p node.Problem, auto float64) string {
	solver, err := node.NewSolver("ilp", node.Limits{Time: 10 * time.Second})
	if err != nil {
		return " – | – |"
	}
	k, err := measure(p, func() (node.Packing, error) { return solver.Solve(p, api.Budget{}) })
	if err != nil || k.Solver != "ilp" {
		return " – | – |"
	}
	return fmt.Sprintf(" %.1f | %.2f |", 100*(k.Cost/auto-1), k.seconds)
}

func gap(cost, bound float64) float64 {
	if cost == 0 {
		return 0
	}
	return (cost - bound) / cost
}

// cpu is the time this process has run.
func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
