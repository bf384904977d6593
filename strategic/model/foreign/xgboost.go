package foreign

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mash2-io/mash2/strategic/model"
)

// xgbFile is what is read of XGBoost's JSON (doc/model.schema of dmlc/xgboost).
type xgbFile struct {
	Learner struct {
		FeatureNames []string `json:"feature_names"`
		Booster      struct {
			Name  string `json:"name"`
			Model struct {
				Trees []xgbTree `json:"trees"`
			} `json:"model"`
		} `json:"gradient_booster"`
		Param struct {
			BaseScore  string `json:"base_score"`
			NumClass   string `json:"num_class"`
			NumFeature string `json:"num_feature"`
			NumTarget  string `json:"num_target"`
		} `json:"learner_model_param"`
		Objective struct {
			Name string `json:"name"`
		} `json:"objective"`
	} `json:"learner"`
}

type xgbTree struct {
	Left       []int     `json:"left_children"`
	Right      []int     `json:"right_children"`
	Indices    []int     `json:"split_indices"`
	Conditions []float64 `json:"split_conditions"`
	Types      []int     `json:"split_type"`
	Default    []flag    `json:"default_left"`
	Param      struct {
		LeafVector string `json:"size_leaf_vector"`
	} `json:"tree_param"`
}

// flag is true, false, 1 or 0: versions differ.
type flag bool

// UnmarshalJSON implements json.Unmarshaler.
func (f *flag) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true", "1":
		*f = true
	case "false", "0":
		*f = false
	default:
		return fmt.Errorf("%s is neither 0 nor 1", data)
	}
	return nil
}

// XGBoost reads a model as XGBoost's save_model writes it to a .json file, of versions 1.0
// and later. A model that was trained on unnamed columns has the features f0, f1 … Errors
// name the field.
func XGBoost(data []byte) (*model.Ensemble, error) {
	var f xgbFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("xgboost: %w", err)
	}
	l := f.Learner
	if l.Booster.Name != "gbtree" {
		return nil, fmt.Errorf("xgboost: learner.gradient_booster.name: %q, gbtree is read", l.Booster.Name)
	}
	if c := l.Param.NumClass; c != "" && c != "0" && c != "1" {
		return nil, fmt.Errorf("xgboost: learner.learner_model_param.num_class: %s classes, one number is read", c)
	}
	if c := l.Param.NumTarget; c != "" && c != "0" && c != "1" {
		return nil, fmt.Errorf("xgboost: learner.learner_model_param.num_target: %s targets, one is read", c)
	}
	out := &model.Ensemble{Names: l.FeatureNames, Single: true}
	if len(out.Names) == 0 {
		n, err := strconv.Atoi(l.Param.NumFeature)
		if err != nil || n < 1 || n > model.MaxFeatures {
			return nil, fmt.Errorf("xgboost: learner.learner_model_param.num_feature: %q, want 1 to %d", l.Param.NumFeature, model.MaxFeatures)
		}
		for i := range n {
			out.Names = append(out.Names, "f"+strconv.Itoa(i))
		}
	}
	if err := xgbOutput(out, l.Objective.Name, l.Param.BaseScore); err != nil {
		return nil, fmt.Errorf("xgboost: %w", err)
	}
	for i, t := range l.Booster.Model.Trees {
		nodes, err := t.nodes()
		if err != nil {
			return nil, fmt.Errorf("xgboost: learner.gradient_booster.model.trees[%d]: %w", i, err)
		}
		out.Trees = append(out.Trees, nodes)
	}
	if err := out.Validate(); err != nil {
		return nil, fmt.Errorf("xgboost: %w", err)
	}
	return out, nil
}

// xgbOutput sets what becomes of the sum, and the base, which the file has as an output.
func xgbOutput(e *model.Ensemble, objective, base string) error {
	// Version 3 writes it as a list of one.
	b, err := strconv.ParseFloat(strings.Trim(base, "[]"), 64)
	if err != nil {
		return fmt.Errorf("learner.learner_model_param.base_score: %q is no number", base)
	}
	switch objective {
	case "reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror", "reg:pseudohubererror", "reg:linear", "reg:quantileerror":
	case "count:poisson", "reg:gamma", "reg:tweedie":
		e.Output, b = model.Exp, math.Log(b)
	case "binary:logistic", "reg:logistic":
		e.Output, e.Scale, b = model.Logistic, 1, -math.Log(1/b-1)
	default:
		return fmt.Errorf("learner.objective.name: %q is not read", objective)
	}
	if b-b != 0 {
		return fmt.Errorf("learner.learner_model_param.base_score: %s does not go with %s", base, objective)
	}
	e.Base = b
	return nil
}

// nodes of a tree, parents first. There, a value goes left that is below the condition, in
// single precision; here, one that is not above the number before it.
func (t xgbTree) nodes() (model.Tree, error) {
	n := len(t.Left)
	if n == 0 {
		return nil, fmt.Errorf("no nodes")
	}
	for key, got := range map[string]int{
		"right_children": len(t.Right), "split_indices": len(t.Indices), "split_conditions": len(t.Conditions), "default_left": len(t.Default),
	} {
		if got != n {
			return nil, fmt.Errorf("%s: %d values for %d nodes", key, got, n)
		}
	}
	if v := t.Param.LeafVector; v != "" && v != "0" && v != "1" {
		return nil, fmt.Errorf("tree_param.size_leaf_vector: %s, one number is read", v)
	}
	if len(t.Types) != 0 && len(t.Types) != n {
		return nil, fmt.Errorf("split_type: %d values for %d nodes", len(t.Types), n)
	}
	out, old, seen := make(model.Tree, 1, n), []int{0}, make([]bool, n)
	seen[0] = true
	// Numbered again in the order of a walk, since children may stand before parents there.
	for at := 0; at < len(old); at++ {
		i := old[at]
		left, right := t.Left[i], t.Right[i]
		if left == -1 && right == -1 {
			out[at] = model.Node{Feature: model.Leaf, Value: t.Conditions[i]}
			continue
		}
		if len(t.Types) > 0 && t.Types[i] != 0 {
			return nil, fmt.Errorf("split_type[%d]: a categorical split is not read", i)
		}
		for _, child := range []int{left, right} {
			if child < 0 || child >= n || seen[child] {
				return nil, fmt.Errorf("node %d: child %d is none, or has two parents", i, child)
			}
			seen[child] = true
		}
		node := model.Node{
			Feature: t.Indices[i], Left: len(old), Right: len(old) + 1, Missing: model.MissingRight,
			Threshold: float64(math.Nextafter32(float32(t.Conditions[i]), float32(math.Inf(-1)))),
		}
		if node.Feature < 0 {
			return nil, fmt.Errorf("split_indices[%d]: %d", i, node.Feature)
		}
		if t.Default[i] {
			node.Missing = model.MissingLeft
		}
		out[at] = node
		old, out = append(old, left, right), append(out, model.Node{}, model.Node{})
	}
	return out, nil
}
