package forest

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/strategic/model"
)

// table is n rows of y = f(x) + noise, with x uniform in [0, 1).
func table(n, d int, noise float64, seed uint64, f func(x []float64) float64) (names []string, x [][]float64, y []float64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for j := range d {
		names = append(names, string(rune('a'+j)))
	}
	for range n {
		row := make([]float64, d)
		for j := range row {
			row[j] = rng.Float64()
		}
		x, y = append(x, row), append(y, f(row)+noise*rng.NormFloat64())
	}
	return names, x, y
}

func rmse(t *testing.T, m model.Model, x [][]float64, y []float64) float64 {
	t.Helper()
	sum := 0.0
	for i, row := range x {
		p, err := m.Predict(row)
		if err != nil {
			t.Fatal(err)
		}
		sum += (p - y[i]) * (p - y[i])
	}
	return math.Sqrt(sum / float64(len(x)))
}

// TestLearns Friedman's function (1991), y = 10 sin(πx₁x₂) + 20(x₃−½)² + 10x₄ + 5x₅ and five features
// that mean nothing: better than a linear model on rows that neither saw, which can't
// follow its first two terms.
func TestLearns(t *testing.T) {
	friedman := func(x []float64) float64 {
		return 10*math.Sin(math.Pi*x[0]*x[1]) + 20*(x[2]-0.5)*(x[2]-0.5) + 10*x[3] + 5*x[4]
	}
	names, x, y := table(600, 10, 1, 1, friedman)
	_, later, truth := table(400, 10, 0, 2, friedman)
	c := Default()
	c.Trees = 60
	got, err := Train(c, names, x, y)
	if err != nil {
		t.Fatal(err)
	}
	line, err := model.FitLinear(names, x, y)
	if err != nil {
		t.Fatal(err)
	}
	ours, linear := rmse(t, got.Forest, later, truth), rmse(t, line, later, truth)
	t.Logf("forest %.2f (out of bag %.2f), linear %.2f", ours, got.OutOfBag, linear)
	if ours > linear {
		t.Errorf("forest %.2f, linear %.2f", ours, linear)
	}
	// Out of bag is against noisy results: it estimates √(error² + 1).
	if want := math.Hypot(ours, 1); math.Abs(got.OutOfBag-want) > 0.25*want {
		t.Errorf("out of bag %.2f, want about %.2f", got.OutOfBag, want)
	}
	sum := 0.0
	for i, v := range got.Importance {
		if sum += v; i >= 5 && v > got.Importance[3]/2 {
			t.Errorf("importance %v: feature %d means nothing", got.Importance, i)
		}
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("importance adds up to %g", sum)
	}
}

// TestSteps: one tree on a step finds the step, and no finer split where leaves have to be large.
func TestSteps(t *testing.T) {
	var x [][]float64
	var y []float64
	for i := range 100 {
		x, y = append(x, []float64{float64(i), 7}), append(y, map[bool]float64{true: 3, false: 1}[i >= 40])
	}
	got, err := Train(Config{Trees: 30, Depth: 10, Leaf: 5, Features: 2, Seed: 4}, []string{"a", "constant"}, x, y)
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range got.Forest.Trees {
		if len(tree) != 3 || tree[0].Feature != 0 || tree[0].Threshold < 35 || tree[0].Threshold > 44 {
			t.Fatalf("%+v", tree)
		}
	}
	for v, want := range map[float64]float64{0: 1, 34: 1, 45: 3, 1000: 3} {
		if p, err := got.Forest.Predict([]float64{v, 7}); err != nil || math.Abs(p-want) > 1e-9 {
			t.Errorf("at %g: %g, %v; want %g", v, p, err, want)
		}
	}
}

// TestLeaves: each leaf is the mean of the rows that come to it, and of enough of them.
func TestLeaves(t *testing.T) {
	names, x, y := table(300, 3, 0.3, 5, func(x []float64) float64 { return x[0] * x[1] })
	g := grower{config: Config{Trees: 1, Depth: 6, Leaf: 7, Features: 3}, x: x, y: y, rng: rand.New(rand.NewPCG(1, 1)), gains: make([]float64, 3), order: []int{0, 1, 2}}
	rows := make([]int, len(x))
	for i := range rows {
		rows[i] = i
	}
	g.grow(rows, 0)
	m := model.Ensemble{Names: names, Trees: []model.Tree{g.tree}}
	sum, count := map[float64]float64{}, map[float64]int{}
	for i, row := range x {
		p, err := m.Predict(row)
		if err != nil {
			t.Fatal(err)
		}
		sum[p], count[p] = sum[p]+y[i], count[p]+1
	}
	if len(count) < 10 {
		t.Errorf("%d leaves", len(count))
	}
	for p, n := range count {
		if n < 7 || math.Abs(sum[p]/float64(n)-p) > 1e-9 {
			t.Errorf("a leaf of %g: %d rows with the mean %g", p, n, sum[p]/float64(n))
		}
	}
}

// TestBounded: a forest predicts nothing outside what it was shown.
func TestBounded(t *testing.T) {
	names, x, y := table(200, 2, 0.5, 8, func(x []float64) float64 { return 5 * x[0] })
	got, err := Train(Config{Trees: 20, Depth: 12, Leaf: 1, Seed: 2}, names, x, y)
	if err != nil {
		t.Fatal(err)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range y {
		low, high = min(low, v), max(high, v)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for range 500 {
		p, err := got.Forest.Predict([]float64{1e6 * rng.NormFloat64(), rng.NormFloat64()})
		if err != nil || p < low || p > high {
			t.Fatalf("%g, %v outside %g to %g", p, err, low, high)
		}
	}
}

// TestDeterministic: the same seed gives the same bytes, another gives others, and rows
// are left as they were.
func TestDeterministic(t *testing.T) {
	names, x, y := table(150, 4, 0.2, 6, func(x []float64) float64 { return x[0] + x[1]*x[2] })
	bytesOf := func(seed uint64) []byte {
		c := Config{Trees: 8, Depth: 8, Leaf: 2, Seed: seed}
		got, err := Train(c, names, x, y)
		if err != nil {
			t.Fatal(err)
		}
		b, err := model.Encode(got.Forest)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a := bytesOf(1)
	if !bytes.Equal(a, bytesOf(1)) {
		t.Error("two forests of one seed")
	}
	if bytes.Equal(a, bytesOf(2)) {
		t.Error("one forest of two seeds")
	}
}

func TestRefuses(t *testing.T) {
	names, x, y := table(30, 2, 0, 1, func(x []float64) float64 { return x[0] })
	bad := [][]float64{{1, math.NaN()}}
	for name, c := range map[string]struct {
		config Config
		names  []string
		x      [][]float64
		y      []float64
		want   string
	}{
		"no trees":            {Config{Depth: 1, Leaf: 1}, names, x, y, "trees"},
		"no depth":            {Config{Trees: 1, Leaf: 1}, names, x, y, "depth"},
		"no leaf":             {Config{Trees: 1, Depth: 1}, names, x, y, "leaf"},
		"features below 0":    {Config{Trees: 1, Depth: 1, Leaf: 1, Features: -1}, names, x, y, "features"},
		"no rows":             {Default(), names, nil, nil, "0 rows"},
		"fewer results":       {Default(), names, x, y[1:], "29 results"},
		"a hole":              {Default(), names, bad, []float64{1}, "row 0: b is NaN"},
		"a narrow row":        {Default(), names, [][]float64{{1}}, []float64{1}, "row 0: 1 values"},
		"a name twice":        {Default(), []string{"a", "a"}, x, y, "features[1]: a"},
		"a result that isn't": {Default(), names, x[:1], []float64{math.Inf(1)}, "row 0: the result"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Train(c.config, c.names, c.x, c.y); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestBetween: neighbours that are as close as numbers get, and the largest ones.
func TestBetween(t *testing.T) {
	for _, c := range [][2]float64{{1, math.Nextafter(1, 2)}, {-math.MaxFloat64, math.MaxFloat64}, {0, 5e-324}, {-1, 1}} {
		if m := between(c[0], c[1]); m < c[0] || m >= c[1] {
			t.Errorf("between %g and %g: %g", c[0], c[1], m)
		}
	}
}
