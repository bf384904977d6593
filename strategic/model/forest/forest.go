// Package forest trains random forests for regression (Breiman 2001): each tree grows on
// rows that are drawn with replacement, each split is the best of a few features that are
// drawn too, and the forest predicts the mean of its trees.
//
// A split is chosen by the smallest sum of squares in both halves (CART, Breiman et al.
// 1984), its threshold is the middle between two neighbouring values. Of equally good
// splits the first drawn wins. All randomness comes from the seed: the same rows,
// settings and seed give the same forest.
package forest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mash2-io/mash2/strategic/model"
)

// Config of a training.
type Config struct {
	// Trees of the forest, 1 to model.MaxTrees.
	Trees int
	// Depth that a tree may have, 1 to 64.
	Depth int
	// Leaf is how many rows a leaf has at least, 1 or more.
	Leaf int
	// Features are drawn for each split; 0 stands for a third of all, rounded up, as
	// Breiman proposes for regression.
	Features int
	Seed     uint64
}

// Default is what `mash2 train` uses.
func Default() Config { return Config{Trees: 200, Depth: 16, Leaf: 5} }

// Validate returns an error with the name of the field.
func (c Config) Validate() error {
	switch {
	case c.Trees < 1 || c.Trees > model.MaxTrees:
		return fmt.Errorf("trees: is %d, want 1 to %d", c.Trees, model.MaxTrees)
	case c.Depth < 1 || c.Depth > 64:
		return fmt.Errorf("depth: is %d, want 1 to 64", c.Depth)
	case c.Leaf < 1:
		return fmt.Errorf("leaf: is %d, want 1 or more", c.Leaf)
	case c.Features < 0:
		return fmt.Errorf("features: is %d, want 0 or more", c.Features)
	}
	return nil
}

// Result of a training.
type Result struct {
	Forest *model.Ensemble
	// OutOfBag is the root of the mean squared error of each row, predicted by the trees
	// that never saw it; NaN where every tree saw every row. Rows of a time series resemble
	// their neighbours, so that this flatters: a later stretch of time is the fair test.
	OutOfBag float64
	// Importance of each feature: the share of the sum of squares that its splits took
	// away. They add up to 1, or are all 0 where nothing was split.
	Importance []float64
}

// Train grows a forest. It returns an error for a bad configuration, or for rows with
// anything but finite numbers.
func Train(c Config, names []string, x [][]float64, y []float64) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	if err := model.CheckTable(names, x, y); err != nil {
		return Result{}, err
	}
	if c.Features == 0 {
		c.Features = (len(names) + 2) / 3
	}
	c.Features = min(c.Features, len(names))
	out := Result{
		Forest:     &model.Ensemble{Names: names, Mean: true, Trees: make([]model.Tree, c.Trees)},
		Importance: make([]float64, len(names)),
	}
	sum, count := make([]float64, len(x)), make([]int, len(x))
	for i := range c.Trees {
		// A source of its own: a tree does not depend on those before it.
		g := grower{config: c, x: x, y: y, rng: rand.New(rand.NewPCG(c.Seed, uint64(i)+1)), gains: out.Importance}
		rows, drawn := make([]int, len(x)), make([]bool, len(x))
		for j := range rows {
			rows[j] = g.rng.IntN(len(x))
			drawn[rows[j]] = true
		}
		g.order = g.rng.Perm(len(names))
		g.grow(rows, 0)
		out.Forest.Trees[i] = g.tree
		alone := model.Ensemble{Names: names, Trees: []model.Tree{g.tree}}
		for j, row := range x {
			if drawn[j] {
				continue
			}
			v, err := alone.Predict(row)
			if err != nil {
				return Result{}, err
			}
			sum[j], count[j] = sum[j]+v, count[j]+1
		}
	}
	out.OutOfBag = outOfBag(sum, count, y)
	total := 0.0
	for _, g := range out.Importance {
		total += g
	}
	if total > 0 {
		for i := range out.Importance {
			out.Importance[i] /= total
		}
	}
	return out, out.Forest.Validate()
}

func outOfBag(sum []float64, count []int, y []float64) float64 {
	square, rows := 0.0, 0
	for i, n := range count {
		if n > 0 {
			e := sum[i]/float64(n) - y[i]
			square, rows = square+e*e, rows+1
		}
	}
	if rows == 0 {
		return math.NaN()
	}
	return math.Sqrt(square / float64(rows))
}

// grower grows one tree.
type grower struct {
	config Config
	x      [][]float64
	y      []float64
	rng    *rand.Rand
	tree   model.Tree
	gains  []float64
	order  []int // of features, shuffled again for each split
}

// split is a question that parts rows.
type split struct {
	feature   int
	threshold float64
	gain      float64
}

// grow appends the tree of some rows and returns the index of its root. It reorders rows.
func (g *grower) grow(rows []int, depth int) int {
	at := len(g.tree)
	mean := 0.0
	for _, r := range rows {
		mean += g.y[r]
	}
	mean /= float64(len(rows))
	g.tree = append(g.tree, model.Node{Feature: model.Leaf, Value: mean})
	if depth == g.config.Depth || len(rows) < 2*g.config.Leaf {
		return at
	}
	best, ok := g.best(rows, mean)
	if !ok {
		return at
	}
	g.gains[best.feature] += best.gain
	left := 0
	for i, r := range rows {
		if g.x[r][best.feature] <= best.threshold {
			rows[left], rows[i] = r, rows[left]
			left++
		}
	}
	n := model.Node{Feature: best.feature, Threshold: best.threshold}
	n.Left = g.grow(rows[:left], depth+1)
	n.Right = g.grow(rows[left:], depth+1)
	g.tree[at] = n
	return at
}

// best split of rows: of the features that are drawn, and of more of them only while none
// of those parts anything.
func (g *grower) best(rows []int, mean float64) (best split, ok bool) {
	g.rng.Shuffle(len(g.order), func(i, j int) { g.order[i], g.order[j] = g.order[j], g.order[i] })
	for i, f := range g.order {
		if i >= g.config.Features && ok {
			break
		}
		if s, parts := g.along(rows, f, mean); parts && (!ok || s.gain > best.gain) {
			best, ok = s, true
		}
	}
	return best, ok
}

// along finds the best split of rows by one feature. With y centred at the mean, a split
// takes (Σ left)²/n_left + (Σ right)²/n_right of the sum of squares away.
func (g *grower) along(rows []int, feature int, mean float64) (best split, ok bool) {
	slices.SortFunc(rows, func(a, b int) int {
		return cmp.Or(cmp.Compare(g.x[a][feature], g.x[b][feature]), cmp.Compare(a, b))
	})
	sum, square := 0.0, 0.0
	for _, r := range rows {
		e := g.y[r] - mean
		square += e * e
	}
	n := len(rows)
	for i, r := range rows[:n-1] {
		sum += g.y[r] - mean
		left := i + 1
		low, high := g.x[r][feature], g.x[rows[left]][feature]
		if left < g.config.Leaf || n-left < g.config.Leaf || low == high {
			continue
		}
		gain := sum*sum/float64(left) + sum*sum/float64(n-left)
		if gain > best.gain && gain > 1e-12*square {
			best, ok = split{feature, between(low, high), gain}, true
		}
	}
	return best, ok
}

// between is the middle of two numbers: not below low, and below high.
func between(low, high float64) float64 {
	if m := low/2 + high/2; m >= low && m < high {
		return m
	}
	return low
}
