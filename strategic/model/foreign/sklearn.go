package foreign

import (
	"encoding/json"
	"fmt"

	"github.com/mash2-io/mash2/strategic/model"
)

// sklearnFile is what the exporter of docs/how-to/models.md writes.
type sklearnFile struct {
	Format   string   `json:"format"`
	Features []string `json:"features"`
	// Mean of the trees, or Base and Rate times their sum.
	Mean  bool    `json:"mean"`
	Base  float64 `json:"base"`
	Rate  float64 `json:"rate"`
	Trees []struct {
		Left      []int     `json:"left"`
		Right     []int     `json:"right"`
		Feature   []int     `json:"feature"`
		Threshold []float64 `json:"threshold"`
		Value     []float64 `json:"value"`
	} `json:"trees"`
}

// sklearnFormat names the file's kind.
const sklearnFormat = "sklearn-trees"

// SKLearn reads a forest or gradient boosting of scikit-learn from the JSON that the exporter
// of docs/how-to/models.md writes. Errors name the field.
func SKLearn(data []byte) (*model.Ensemble, error) {
	var f sklearnFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("sklearn: %w", err)
	}
	if f.Format != sklearnFormat {
		return nil, fmt.Errorf("sklearn: format: %q, want %q", f.Format, sklearnFormat)
	}
	out := &model.Ensemble{Names: f.Features, Base: f.Base, Mean: f.Mean, Single: true}
	for i, t := range f.Trees {
		n := len(t.Left)
		for key, got := range map[string]int{"right": len(t.Right), "feature": len(t.Feature), "threshold": len(t.Threshold), "value": len(t.Value)} {
			if got != n {
				return nil, fmt.Errorf("sklearn: trees[%d].%s: %d values for %d nodes", i, key, got, n)
			}
		}
		tree := make(model.Tree, n)
		for j := range n {
			if t.Left[j] == -1 && t.Right[j] == -1 {
				tree[j] = model.Node{Feature: model.Leaf, Value: f.Rate * t.Value[j]}
				continue
			}
			if t.Feature[j] < 0 {
				return nil, fmt.Errorf("sklearn: trees[%d].feature[%d]: %d", i, j, t.Feature[j])
			}
			tree[j] = model.Node{Feature: t.Feature[j], Threshold: t.Threshold[j], Left: t.Left[j], Right: t.Right[j]}
		}
		out.Trees = append(out.Trees, tree)
	}
	if err := out.Validate(); err != nil {
		return nil, fmt.Errorf("sklearn: %w", err)
	}
	return out, nil
}
