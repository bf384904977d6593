package instance

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node"
)

// Read reads a file by its extension: .vbp, everything else as JSON.
func Read(file string) (node.Problem, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return node.Problem{}, err
	}
	read := JSON
	if strings.HasSuffix(file, ".vbp") {
		read = VBP
	}
	p, err := read(text)
	if err != nil {
		return node.Problem{}, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// Packed is a packing by the names of its problem.
type Packed struct {
	Nodes       []Nodes      `json:"nodes"`
	Assignments []Assignment `json:"assignments"`
	Cost        float64      `json:"cost"`       // USD/h
	LowerBound  float64      `json:"lowerBound"` // USD/h
	Gap         *float64     `json:"gap"`        // 0–1
	Optimal     bool         `json:"optimal"`
	Unplaced    []Pods       `json:"unplaced"`
	Solver      string       `json:"solver"`
	Fallback    string       `json:"fallback,omitempty"`
	Seconds     float64      `json:"seconds"`
}

// Nodes are how many of a type a packing has.
type Nodes struct {
	Type  string `json:"type"`
	Count int32  `json:"count"`
}

// Assignment is how many nodes of a type hold these pods each.
type Assignment struct {
	Type  string           `json:"type"`
	Count int32            `json:"count"`
	Pods  map[string]int32 `json:"pods"`
}

// Pods are how many of a shape were not placed.
type Pods struct {
	Name  string `json:"name"`
	Count int32  `json:"count"`
}

// iterationsPerSecond turns a time limit into a budget of work, so that a result
// does not depend on the machine: what a core of 2023 does in a second.
const iterationsPerSecond = 4500

// Pack solves p with the solver of that name, one of node.Solvers, in the work that a
// core of 2023 does in limit.
func Pack(p node.Problem, solver string, limit time.Duration) (Packed, error) {
	s, err := node.NewSolver(solver, node.Limits{Time: limit})
	if err != nil {
		return Packed{}, err
	}
	start := time.Now()
	k, err := s.Solve(p, api.Budget{Iterations: max(1, int(limit.Seconds()*iterationsPerSecond))})
	if err != nil {
		return Packed{}, err
	}
	seconds := time.Since(start).Seconds()
	if err := p.Check(k); err != nil {
		return Packed{}, errors.Join(errors.New("the packing breaks its problem's rules, which is a bug"), err)
	}
	out := named(p, k)
	out.Seconds = seconds
	return out, nil
}

// named is k by the names of p.
func named(p node.Problem, k node.Packing) Packed {
	out := Packed{
		Nodes: []Nodes{}, Assignments: []Assignment{}, Unplaced: []Pods{},
		Cost: k.Cost, LowerBound: k.LowerBound, Optimal: k.Optimal, Solver: k.Solver, Fallback: k.Fallback,
	}
	if k.Cost > 0 {
		gap := (k.Cost - k.LowerBound) / k.Cost
		out.Gap = &gap
	}
	for t, typ := range p.Types {
		if n := k.Nodes(t); n > 0 {
			out.Nodes = append(out.Nodes, Nodes{typ.Name, n})
		}
	}
	for _, l := range k.Loads {
		a := Assignment{Type: p.Types[l.Type].Name, Count: l.Nodes, Pods: map[string]int32{}}
		for _, s := range l.Pods {
			a.Pods[p.Items[s.Item].Name] = s.Count
		}
		out.Assignments = append(out.Assignments, a)
	}
	for i, n := range k.Unplaced {
		if n > 0 {
			out.Unplaced = append(out.Unplaced, Pods{p.Items[i].Name, n})
		}
	}
	return out
}
