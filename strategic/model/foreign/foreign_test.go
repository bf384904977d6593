package foreign

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/strategic/model"
)

// TestPredictsAsThere: models of XGBoost and scikit-learn predict what they predict there,
// on rows with values on thresholds and, where the model allows it, without values
// (testdata/make.py).
func TestPredictsAsThere(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.predictions.json")
	if err != nil || len(paths) != 7 {
		t.Fatalf("%d fixtures, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(path, ".predictions.json")
		t.Run(filepath.Base(name), func(t *testing.T) {
			var want struct {
				X [][]*float64
				Y []float64
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			if text, err = os.ReadFile(name + ".json"); err != nil {
				t.Fatal(err)
			}
			m, err := Read(text)
			if err != nil {
				t.Fatal(err)
			}
			if len(want.Y) != 40 {
				t.Fatalf("%d rows", len(want.Y))
			}
			for i, cells := range want.X {
				row := make([]float64, len(cells))
				for j, v := range cells {
					if row[j] = math.NaN(); v != nil {
						row[j] = *v
					}
				}
				got, err := m.Predict(row)
				if err != nil {
					t.Fatal(err)
				}
				// Sums there are in single precision.
				if math.Abs(got-want.Y[i]) > 2e-6*max(1, math.Abs(want.Y[i])) {
					t.Errorf("row %d %v: %.9g, want %.9g", i, row, got, want.Y[i])
				}
			}
			again, err := model.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := model.Decode(again); err != nil {
				t.Errorf("kept and read again: %v", err)
			}
		})
	}
}

// lightGBM is a model in the format's documented form: two trees, of which the first asks
// cpu ≤ 0.5 (missing values go left) and then memory ≤ 2 (zeros and missing ones go right), the
// second is a single leaf.
const lightGBM = `tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=regression
feature_names=cpu memory
feature_infos=[0:1] [0:9]
tree_sizes=300 90

Tree=0
num_leaves=3
num_cat=0
split_feature=0 1
split_gain=10 5
threshold=0.5 2
decision_type=10 4
left_child=-1 -2
right_child=1 -3
leaf_value=1 2 4
leaf_weight=1 1 1
leaf_count=3 3 3
internal_value=0 0
internal_weight=0 0
internal_count=9 6
is_linear=0
shrinkage=1


Tree=1
num_leaves=1
num_cat=0
leaf_value=0.25
is_linear=0
shrinkage=0.1


end of trees

feature_importances:
cpu=1

parameters:
[boosting: gbdt]
end of parameters
`

// TestLightGBM against its definition: NumericalDecision in include/LightGBM/tree.h.
func TestLightGBM(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		from, to    string // a change of the file
		cpu, memory float64
		want        float64
	}{
		"left":                              {"", "", 0.4, 5, 1.25},
		"on the threshold is left":          {"", "", 0.5, 5, 1.25},
		"right and left":                    {"", "", 0.6, 1.5, 2.25},
		"right and right":                   {"", "", 0.6, 2.5, 4.25},
		"missing goes left":                 {"", "", nan, 2.5, 1.25},
		"zero goes where missing goes":      {"", "", 0.6, 0, 4.25},
		"missing goes where zero goes":      {"", "", 0.6, nan, 4.25},
		"missing stands for zero":           {"decision_type=10 4", "decision_type=2 2", nan, 9, 1.25},
		"missing goes right":                {"decision_type=10 4", "decision_type=8 8", nan, nan, 4.25},
		"zero and missing left":             {"decision_type=10 4", "decision_type=10 6", 0.6, nan, 2.25},
		"a forest is a mean":                {"feature_names", "average_output\nfeature_names", 0.4, 5, 0.625},
		"exponential":                       {"objective=regression", "objective=poisson", 0.4, 5, math.Exp(1.25)},
		"probability":                       {"objective=regression", "objective=binary sigmoid:2", 0.4, 5, 1 / (1 + math.Exp(-2.5))},
		"square, as the roots were learned": {"objective=regression", "objective=regression sqrt", 0.4, 5, 1.5625},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Read([]byte(strings.Replace(lightGBM, c.from, c.to, 1)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := model.Predict(m, map[string]float64{"cpu": c.cpu, "memory": c.memory})
			if err != nil || math.Abs(got-c.want) > 1e-12 {
				t.Errorf("%g, %v; want %g", got, err, c.want)
			}
		})
	}
}

func TestLightGBMRefuses(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"torn":                          {"end of trees", "end", "torn"},
		"classes":                       {"num_class=1", "num_class=3", "num_class=3"},
		"unknown objective":             {"objective=regression", "objective=lambdarank", `objective: "lambdarank"`},
		"a forest of probabilities":     {"objective=regression", "objective=binary sigmoid:1\naverage_output", "random forest"},
		"categorical":                   {"decision_type=10 4", "decision_type=10 1", "decision_type[1]: a categorical"},
		"categorical by count":          {"num_cat=0", "num_cat=1", "num_cat=1"},
		"linear leaves":                 {"is_linear=0", "is_linear=1", "is_linear=1"},
		"too few thresholds":            {"threshold=0.5 2", "threshold=0.5", "Tree=0: threshold: 1 values, want 2"},
		"a threshold that is no number": {"threshold=0.5 2", "threshold=0.5 nan", "threshold[1]"},
		"a circle":                      {"right_child=1 -3", "right_child=0 -3", "trees[0][0]"},
		"a child that is not there":     {"right_child=1 -3", "right_child=1 -9", "trees[0][1]"},
		"a feature that is not there":   {"split_feature=0 1", "split_feature=0 7", "trees[0][1]: feature 7 of 2"},
		"half a feature":                {"split_feature=0 1", "split_feature=0 0.5", "split_feature[1]"},
		"a tree twice":                  {"Tree=1", "Tree=0", "Tree=0"},
		"a leaf of infinity":            {"leaf_value=1 2 4", "leaf_value=1 2 inf", "leaf of +Inf"},
		"a key twice":                   {"num_class=1", "num_class=1\nnum_class=1", "num_class is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(lightGBM, c.from) {
				t.Fatalf("%q is not in the file", c.from)
			}
			if _, err := Read([]byte(strings.Replace(lightGBM, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestXGBoostRefuses(t *testing.T) {
	data, err := os.ReadFile("testdata/xgboost-squared.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"another booster": {`"name": "gbtree"`, `"name": "gblinear"`, "gradient_booster.name"},
		"an objective":    {`"name": "reg:squarederror"`, `"name": "rank:ndcg"`, "objective.name"},
		"classes":         {`"num_class": "0"`, `"num_class": "3"`, "num_class"},
		"a base":          {`"base_score": "`, `"base_score": "x`, "base_score"},
		"a flag":          {`"default_left": [`, `"default_left": [7, `, "7"},
		"a child too far": {`"left_children": [1`, `"left_children": [900`, "trees[0]: node 0: child 900"},
		"two parents":     {`"left_children": [1`, `"left_children": [2`, "trees[0]: node 0: child 2"},
		"categorical":     {`"split_type": [0`, `"split_type": [1`, "split_type[0]"},
		"too few":         {`"split_indices": [`, `"split_indices": [0, `, "split_indices"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(data), c.from) {
				t.Fatalf("%q is not in the file", c.from)
			}
			if _, err := Read([]byte(strings.Replace(string(data), c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestMissingRefused: scikit-learn's forests know nothing of missing values.
func TestMissingRefused(t *testing.T) {
	data, err := os.ReadFile("testdata/sklearn-forest.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Predict([]float64{math.NaN(), math.NaN(), math.NaN()}); err == nil || !strings.Contains(err.Error(), model.ErrMissing.Error()) {
		t.Errorf("%v", err)
	}
}

// FuzzRead: a file, whatever it is, is an error or a model that walks every row to a leaf.
func FuzzRead(f *testing.F) {
	f.Add([]byte(lightGBM))
	for _, name := range []string{"xgboost-squared", "xgboost-poisson", "sklearn-forest", "sklearn-boosting"} {
		data, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Read(data)
		if err != nil {
			return
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("read, and not valid: %v", err)
		}
		for _, v := range []float64{0, -1, 1e9, math.NaN()} {
			row := make([]float64, len(m.Names))
			for i := range row {
				row[i] = v
			}
			if y, err := m.Predict(row); err == nil && y-y != 0 {
				t.Fatalf("predicts %g", y)
			}
		}
	})
}
