package model

import (
	"fmt"
	"math"
)

// Missing is where a node sends a feature's value that is missing.
type Missing int8

// What nodes do with missing values.
const (
	// MissingRefused makes a missing value an error.
	MissingRefused Missing = iota
	// MissingAsZero compares as if the value were 0.
	MissingAsZero
	// MissingLeft and MissingRight send it there.
	MissingLeft
	MissingRight
	// ZeroLeft and ZeroRight send both missing values and zeros there.
	ZeroLeft
	ZeroRight
	missingEnd
)

// Node of a tree: a question with two answers, or a leaf.
type Node struct {
	// Feature is the index of what is compared; -1 of a leaf.
	Feature int `json:"f"`
	// Threshold: a value that is not above it goes left.
	Threshold float64 `json:"t,omitempty"`
	// Left and Right are the indices of the next nodes, both larger than this one's.
	Left  int `json:"l,omitempty"`
	Right int `json:"r,omitempty"`
	// Missing is where a value goes that is missing.
	Missing Missing `json:"m,omitempty"`
	// Value of a leaf.
	Value float64 `json:"v,omitempty"`
}

// Leaf is the Feature of a leaf.
const Leaf = -1

// Tree is its nodes; the first is the root.
type Tree []Node

// Output is what becomes of the trees' sum.
type Output string

// The outputs.
const (
	// Same leaves the sum as it is.
	Same Output = ""
	// Exp is its exponential: of Poisson, gamma and Tweedie regression.
	Exp Output = "exp"
	// Logistic is 1/(1+e^(−Scale·sum)): a probability.
	Logistic Output = "logistic"
	// SignedSquare is sum·|sum|: of LightGBM's regression with sqrt.
	SignedSquare Output = "signed-square"
)

// Ensemble is Output(Base + sum of trees), or of their mean if Mean is set.
type Ensemble struct {
	Names []string `json:"features"`
	Trees []Tree   `json:"trees"`
	Base  float64  `json:"base,omitempty"`
	// Mean divides the sum by the number of trees: a random forest.
	Mean bool `json:"mean,omitempty"`
	// Single rounds features to single precision before they are compared, as XGBoost and
	// scikit-learn do.
	Single bool   `json:"single,omitempty"`
	Output Output `json:"output,omitempty"`
	// Scale of Logistic.
	Scale float64 `json:"scale,omitempty"`
}

// Bounds of what a file can ask for.
const (
	MaxTrees = 20_000
	// MaxNodes of all trees of a model.
	MaxNodes = 20_000_000
)

// Validate returns an error, with the path of the field, for an ensemble that can't be
// walked: every path has to end at a leaf.
func (e *Ensemble) Validate() error {
	if err := CheckFeatures(e.Names); err != nil {
		return err
	}
	if len(e.Trees) == 0 || len(e.Trees) > MaxTrees {
		return fmt.Errorf("trees: %d, want 1 to %d", len(e.Trees), MaxTrees)
	}
	if v := e.Base; v-v != 0 {
		return fmt.Errorf("base: is %g", v)
	}
	switch e.Output {
	case Same, Exp, SignedSquare:
	case Logistic:
		if !(e.Scale > 0) || math.IsInf(e.Scale, 0) {
			return fmt.Errorf("scale: is %g, want above 0", e.Scale)
		}
	default:
		return fmt.Errorf("output: %q is unknown", e.Output)
	}
	nodes := 0
	for i, t := range e.Trees {
		if len(t) == 0 {
			return fmt.Errorf("trees[%d]: has no nodes", i)
		}
		if nodes += len(t); nodes > MaxNodes {
			return fmt.Errorf("trees[%d]: more than %d nodes by here", i, MaxNodes)
		}
		for j, n := range t {
			if err := n.check(j, len(t), len(e.Names)); err != nil {
				return fmt.Errorf("trees[%d][%d]: %w", i, j, err)
			}
		}
	}
	return nil
}

func (n Node) check(at, nodes, features int) error {
	if n.Feature == Leaf {
		if n.Value-n.Value != 0 {
			return fmt.Errorf("a leaf of %g", n.Value)
		}
		return nil
	}
	if n.Feature < 0 || n.Feature >= features {
		return fmt.Errorf("feature %d of %d", n.Feature, features)
	}
	if math.IsNaN(n.Threshold) {
		return fmt.Errorf("a threshold of %g", n.Threshold)
	}
	// Children come behind their parent, so that there is no way round in a circle.
	if n.Left <= at || n.Right <= at || n.Left >= nodes || n.Right >= nodes {
		return fmt.Errorf("children %d and %d of %d nodes, want both behind the node", n.Left, n.Right, nodes)
	}
	if n.Missing < 0 || n.Missing >= missingEnd {
		return fmt.Errorf("missing %d is unknown", n.Missing)
	}
	return nil
}

// Features implements Model.
func (e *Ensemble) Features() []string { return e.Names }

// Predict implements Model. The ensemble has to be valid.
func (e *Ensemble) Predict(x []float64) (float64, error) {
	if err := checkRow(e.Names, x); err != nil {
		return 0, err
	}
	sum := 0.0
	for i, t := range e.Trees {
		v, feature := t.walk(x, e.Single)
		if feature != Leaf {
			return 0, fmt.Errorf("%w: %s, which tree %d asks for", ErrMissing, e.Names[feature], i)
		}
		sum += v
	}
	if e.Mean {
		sum /= float64(len(e.Trees))
	}
	sum += e.Base
	switch e.Output {
	case Exp:
		sum = math.Exp(sum)
	case Logistic:
		sum = 1 / (1 + math.Exp(-e.Scale*sum))
	case SignedSquare:
		sum *= math.Abs(sum)
	}
	return finite(sum)
}

// zero is up to where LightGBM takes a number for 0.
const zero = 1e-35

// walk returns the value of the leaf that x comes to, and Leaf; or the feature that has
// no value and needs one.
func (t Tree) walk(x []float64, single bool) (value float64, missing int) {
	n := &t[0]
	for n.Feature != Leaf {
		v := x[n.Feature]
		if single {
			v = float64(float32(v))
		}
		none := math.IsNaN(v)
		left := v <= n.Threshold
		switch n.Missing {
		case MissingRefused:
			if none {
				return 0, n.Feature
			}
		case MissingAsZero:
			left = left || none && n.Threshold >= 0
		case MissingLeft, MissingRight:
			if none {
				left = n.Missing == MissingLeft
			}
		case ZeroLeft, ZeroRight:
			if none || math.Abs(v) <= zero {
				left = n.Missing == ZeroLeft
			}
		}
		if left {
			n = &t[n.Left]
		} else {
			n = &t[n.Right]
		}
	}
	return n.Value, Leaf
}
