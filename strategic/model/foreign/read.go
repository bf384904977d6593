package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mash2-io/mash2/strategic/model"
)

// ErrNoModel is returned for a file that is of no kind that Read knows.
var ErrNoModel = errors.New("no model of LightGBM, XGBoost or scikit-learn")

// Read reads a model of any of the kinds: it tells them apart by how the file begins.
func Read(data []byte) (*model.Ensemble, error) {
	if bytes.HasPrefix(data, []byte("tree")) {
		return LightGBM(data)
	}
	var kind struct {
		Learner json.RawMessage `json:"learner"`
		Format  string          `json:"format"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, fmt.Errorf("%w: neither LightGBM's text nor JSON: %w", ErrNoModel, err)
	}
	switch {
	case kind.Learner != nil:
		return XGBoost(data)
	case kind.Format == sklearnFormat:
		return SKLearn(data)
	}
	return nil, fmt.Errorf("%w: JSON without learner, as XGBoost writes it, and without the format %q", ErrNoModel, sklearnFormat)
}
