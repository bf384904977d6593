package foreign

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mash2-io/mash2/strategic/model"
)

// section of a LightGBM file: its lines of key=value, and those that are a word alone.
type section struct {
	name   string
	values map[string]string
}

// LightGBM reads a model as LightGBM's save_model writes it, versions 2 to 4 of the format.
// Errors name the tree and the key.
func LightGBM(data []byte) (*model.Ensemble, error) {
	if !bytes.HasPrefix(data, []byte("tree")) {
		return nil, fmt.Errorf("lightgbm: the first line is not \"tree\"")
	}
	sections, err := sectionsOf(string(data))
	if err != nil {
		return nil, fmt.Errorf("lightgbm: %w", err)
	}
	head := sections[0]
	out := &model.Ensemble{Names: strings.Fields(head.values["feature_names"])}
	for _, key := range []string{"num_class", "num_tree_per_iteration"} {
		if v := head.values[key]; v != "1" {
			return nil, fmt.Errorf("lightgbm: %s=%s, 1 is read", key, v)
		}
	}
	if _, out.Mean = head.values["average_output"]; out.Mean && len(sections) < 2 {
		return nil, fmt.Errorf("lightgbm: no trees")
	}
	if err := lightGBMOutput(out, head.values["objective"]); err != nil {
		return nil, fmt.Errorf("lightgbm: objective: %w", err)
	}
	for i, s := range sections[1:] {
		if s.name != strconv.Itoa(i) {
			return nil, fmt.Errorf("lightgbm: Tree=%s where Tree=%d should be", s.name, i)
		}
		t, err := lightGBMTree(s)
		if err != nil {
			return nil, fmt.Errorf("lightgbm: Tree=%d: %w", i, err)
		}
		out.Trees = append(out.Trees, t)
	}
	if err := out.Validate(); err != nil {
		return nil, fmt.Errorf("lightgbm: %w", err)
	}
	return out, nil
}

// sectionsOf a file: the head, then the trees. What comes behind the trees is for people.
func sectionsOf(text string) ([]section, error) {
	out := []section{{name: "head", values: map[string]string{}}}
	ended := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "end of trees" {
			ended = true
			break
		}
		key, value, _ := strings.Cut(line, "=")
		if key == "" {
			continue
		}
		if key == "Tree" {
			if len(out) > model.MaxTrees {
				return nil, fmt.Errorf("more than %d trees", model.MaxTrees)
			}
			out = append(out, section{name: value, values: map[string]string{}})
			continue
		}
		last := out[len(out)-1]
		if _, twice := last.values[key]; twice {
			return nil, fmt.Errorf("%s is there twice", key)
		}
		last.values[key] = value
	}
	if !ended {
		return nil, fmt.Errorf("no line \"end of trees\": the file is torn")
	}
	return out, nil
}

// lightGBMOutput sets what becomes of the sum, by the objective.
func lightGBMOutput(e *model.Ensemble, objective string) error {
	words := strings.Fields(objective)
	if len(words) == 0 {
		return fmt.Errorf("is missing")
	}
	switch words[0] {
	case "regression", "regression_l2", "l2", "mean_squared_error", "regression_l1", "huber", "fair", "quantile", "mape":
		if len(words) > 1 && words[1] == "sqrt" {
			e.Output = model.SignedSquare
		}
	case "poisson", "gamma", "tweedie":
		e.Output = model.Exp
	case "binary":
		e.Output, e.Scale = model.Logistic, 1
		for _, w := range words[1:] {
			if v, ok := strings.CutPrefix(w, "sigmoid:"); ok {
				var err error
				if e.Scale, err = strconv.ParseFloat(v, 64); err != nil {
					return fmt.Errorf("%q: %w", w, err)
				}
			}
		}
	default:
		return fmt.Errorf("%q is not read", objective)
	}
	if e.Mean && e.Output != model.Same {
		// Versions differ in whether leaves of such forests are sums or outputs already.
		return fmt.Errorf("%q of a random forest is not read", objective)
	}
	return nil
}

// lightGBMTree is a tree's section as nodes. A child below 0 is the leaf of index -child-1.
func lightGBMTree(s section) (model.Tree, error) {
	leaves, err := strconv.Atoi(s.values["num_leaves"])
	if err != nil || leaves < 1 || leaves > 1<<20 {
		return nil, fmt.Errorf("num_leaves=%s", s.values["num_leaves"])
	}
	for _, key := range []string{"num_cat", "is_linear"} {
		if v := s.values[key]; v != "" && v != "0" {
			return nil, fmt.Errorf("%s=%s is not read", key, v)
		}
	}
	values, err := numbers(s, "leaf_value", leaves)
	if err != nil {
		return nil, err
	}
	if leaves == 1 {
		return model.Tree{{Feature: model.Leaf, Value: values[0]}}, nil
	}
	splits := leaves - 1
	columns := map[string][]float64{}
	for _, key := range []string{"split_feature", "threshold", "decision_type", "left_child", "right_child"} {
		if columns[key], err = numbers(s, key, splits); err != nil {
			return nil, err
		}
	}
	nodes := make(model.Tree, 0, splits+leaves)
	for i := range splits {
		missing, err := lightGBMMissing(int(columns["decision_type"][i]))
		if err != nil {
			return nil, fmt.Errorf("decision_type[%d]: %w", i, err)
		}
		n := model.Node{Feature: int(columns["split_feature"][i]), Threshold: columns["threshold"][i], Missing: missing}
		if n.Feature < 0 {
			return nil, fmt.Errorf("split_feature[%d]=%d", i, n.Feature)
		}
		for _, side := range []struct {
			key string
			to  *int
		}{{"left_child", &n.Left}, {"right_child", &n.Right}} {
			if *side.to = int(columns[side.key][i]); *side.to < 0 {
				*side.to = splits - *side.to - 1
			}
		}
		nodes = append(nodes, n)
	}
	for _, v := range values {
		nodes = append(nodes, model.Node{Feature: model.Leaf, Value: v})
	}
	return nodes, nil
}

// lightGBMMissing reads a decision's bits: 1 categorical, 2 default left, 4 and 8 the kind of
// missing values (LightGBM, include/LightGBM/tree.h).
func lightGBMMissing(bits int) (model.Missing, error) {
	if bits&1 != 0 {
		return 0, fmt.Errorf("a categorical split is not read")
	}
	left := bits&2 != 0
	switch bits >> 2 {
	case 0:
		return model.MissingAsZero, nil
	case 1:
		if left {
			return model.ZeroLeft, nil
		}
		return model.ZeroRight, nil
	case 2:
		if left {
			return model.MissingLeft, nil
		}
		return model.MissingRight, nil
	}
	return 0, fmt.Errorf("%d is unknown", bits)
}

// numbers of a key, as many as wanted.
func numbers(s section, key string, want int) ([]float64, error) {
	words := strings.Fields(s.values[key])
	if len(words) != want {
		return nil, fmt.Errorf("%s: %d values, want %d", key, len(words), want)
	}
	out := make([]float64, want)
	for i, w := range words {
		v, err := strconv.ParseFloat(w, 64)
		if err != nil || math.IsNaN(v) {
			return nil, fmt.Errorf("%s[%d]: %q is no number", key, i, w)
		}
		whole := key != "threshold" && key != "leaf_value"
		if whole && (v != math.Trunc(v) || math.Abs(v) > 1<<30) {
			return nil, fmt.Errorf("%s[%d]: %q is no whole number", key, i, w)
		}
		out[i] = v
	}
	return out, nil
}
