// Command packing measures the packing solvers: our own problems at several
// sizes, and the published instances of vector bin packing. It prints Markdown.
//
// Times are CPU seconds of this process, or of the peer's while it packs, so that a
// busy machine does not count.
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
	program := flag.String("karpenter", "", "the program of experiments/karpenter, asked as well; empty for none")
	seconds := flag.Float64("seconds", 10, "budget of auto, in work that takes about so long")
	vectors := flag.String("vectorpack", "", "folder with the archives of vector bin packing; empty for none")
	each := flag.Float64("each", 1, "budget per instance of vector bin packing, in work that takes about so many seconds")
	most := flag.Int("items", 100, "largest number of items of the instances")
	above := flag.Int("above", 0, "number of items that they must have more than")
	every := flag.Int("every", 1, "only one in so many instances")
	flag.Parse()
	if err := (bench{*seconds, *peers, *program}).run(*sizes, *seeds); err != nil {
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

// bench is what is measured of each problem, and what with.
type bench struct {
	seconds   float64 // budget of auto
	peers     int     // pods up to which others are asked as well
	karpenter string  // the program of experiments/karpenter; empty for none
}

// run prints a table of auto's packings and one of what others pay.
func (b bench) run(sizes string, seeds int) error {
	if sizes == "" {
		return nil
	}
	fmt.Println("| shapes/pods/types | seed | lower bound | auto | gap, % | nodes | CPU s | 1 s of work: gap, % | CPU s | warm, 1 s of work: gap, % | CPU s | warm, 0.1 s of work: gap, % | CPU s |")
	fmt.Println("|" + strings.Repeat("---|", 13))
	others := []string{
		"| shapes/pods/types | seed | FFD over auto, % | CPU s | Karpenter's program: nodes | pods left over | over auto, % | auto is cheaper by, % | with 1 s of work, % | CPU s | of auto's | of auto's with 1 s of work | its rules over auto, % | CPU s | Cluster Autoscaler over auto, % | CPU s | ILP over auto, % | CPU s |",
		"|" + strings.Repeat("---|", 18),
	}
	defer func() { fmt.Printf("\n%s\n", strings.Join(others, "\n")) }() // also of what was measured before an error
	for size := range strings.SplitSeq(sizes, ",") {
		var shapes, pods, types int
		if _, err := fmt.Sscanf(size, "%d/%d/%d", &shapes, &pods, &types); err != nil || types > len(machines) {
			return fmt.Errorf("%q is no shapes/pods/types", size)
		}
		for seed := range seeds {
			row := fmt.Sprintf("| %s | %d |", size, seed+1)
			p := generate(shapes, pods, types, uint64(seed+1))
			full, short, err := b.ours(row, p, moved(p, uint64(seed+1)))
			if err != nil {
				return err
			}
			cells, err := b.others(p, pods, full, short)
			if err != nil {
				return fmt.Errorf("%s: %w", size, err)
			}
			others = append(others, row+cells)
		}
	}
	return nil
}

// ours packs p with the whole budget and with a second of work, and next from the
// patterns of the former.
func (b bench) ours(row string, p, next node.Problem) (full, short measured, err error) {
	auto := node.Columns{}
	var patterns node.Patterns
	full, err = measure(p, func() (node.Packing, error) {
		k, kept, err := auto.SolveFrom(p, iterations(b.seconds), node.Patterns{})
		patterns = kept
		return k, err
	})
	if err != nil {
		return full, short, err
	}
	short, err = measure(p, func() (node.Packing, error) { return auto.Solve(p, iterations(1)) })
	if err != nil {
		return full, short, err
	}
	var warm [2]measured
	for n, seconds := range []float64{1, 0.1} {
		warm[n], err = measure(next, func() (node.Packing, error) {
			k, _, err := auto.SolveFrom(next, iterations(seconds), patterns)
			return k, err
		})
		if err != nil {
			return full, short, err
		}
	}
	nodes := int32(0)
	for _, l := range full.Loads {
		nodes += l.Nodes
	}
	bound := max(full.LowerBound, short.LowerBound)
	warmBound := max(warm[0].LowerBound, warm[1].LowerBound)
	fmt.Printf("%s %.2f | %.2f | %.3f | %d | %.2f | %.3f | %.2f | %.3f | %.2f | %.3f | %.2f |\n", row, bound, full.Cost,
		100*gap(full.Cost, bound), nodes, full.seconds, 100*gap(short.Cost, bound), short.seconds,
		100*gap(warm[0].Cost, warmBound), warm[0].seconds, 100*gap(warm[1].Cost, warmBound), warm[1].seconds)
	return full, short, nil
}

// others are the cells of a row about everybody else.
func (b bench) others(p node.Problem, pods int, full, short measured) (string, error) {
	first, err := measure(p, func() (node.Packing, error) { return node.FFD{}.Solve(p, api.Budget{}) })
	if err != nil {
		return "", err
	}
	over := func(cost float64) float64 { return 100 * (cost/full.Cost - 1) }
	cells := fmt.Sprintf(" %.1f | %.2f |", over(first.Cost), first.seconds)
	if pods > b.peers {
		return cells + strings.Repeat(" – |", 12) + byILP(p, full.Cost), nil
	}
	if b.karpenter == "" {
		cells += strings.Repeat(" – |", 8)
	} else {
		k, err := byProgram(b.karpenter, p)
		if err != nil {
			return "", err
		}
		nodes, left := int32(0), int32(0)
		for _, l := range k.Loads {
			nodes += l.Nodes
		}
		for _, u := range k.Unplaced {
			left += u
		}
		cells += fmt.Sprintf(" %d | %d | %.1f | %.1f | %.1f | %.2f | %.1f | %.1f |", nodes, left, over(k.Cost), 100*gap(k.Cost, full.Cost),
			100*gap(k.Cost, short.Cost), k.seconds, k.seconds/full.seconds, k.seconds/short.seconds)
	}
	for _, other := range []peer{byKarpenter(p), byAutoscaler(p)} {
		if other.unplaced > 0 {
			return "", fmt.Errorf("a peer leaves %d pods over", other.unplaced)
		}
		cells += fmt.Sprintf(" %.1f | %.2f |", over(other.cost), other.seconds)
	}
	return cells + byILP(p, full.Cost), nil
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
