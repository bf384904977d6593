package model

import (
	"errors"
	"fmt"
	"math"
)

// Model predicts one number from features.
type Model interface {
	// Features are the names of what Predict reads, in its order. Callers don't change them.
	Features() []string
	// Predict returns the number for one value of each feature. NaN is a value that is
	// missing. It returns an error that wraps ErrMissing where the model needs a value that
	// is missing, and an error for a wrong number of values or a result that is no finite
	// number. It does not keep x.
	Predict(x []float64) (float64, error)
}

// ErrMissing is what errors of features without a value are.
var ErrMissing = errors.New("a feature has no value")

// Predict asks a model by the names of its features. Values that the model does not read
// are ignored; the absence of one that it reads is an error that wraps ErrMissing, even
// where the model knows what to do with NaN.
func Predict(m Model, values map[string]float64) (float64, error) {
	names := m.Features()
	x := make([]float64, len(names))
	for i, name := range names {
		v, ok := values[name]
		if !ok {
			return 0, fmt.Errorf("%w: %s", ErrMissing, name)
		}
		x[i] = v
	}
	return m.Predict(x)
}

// CheckFeatures returns an error for names that can't be features: none, too many, an
// empty one or one twice.
func CheckFeatures(names []string) error {
	if len(names) == 0 || len(names) > MaxFeatures {
		return fmt.Errorf("features: %d, want 1 to %d", len(names), MaxFeatures)
	}
	seen := map[string]bool{}
	for i, n := range names {
		if n == "" {
			return fmt.Errorf("features[%d]: is empty", i)
		}
		if seen[n] {
			return fmt.Errorf("features[%d]: %s is there twice", i, n)
		}
		seen[n] = true
	}
	return nil
}

// MaxFeatures of a model.
const MaxFeatures = 4096

// checkRow returns an error for values that do not go with features.
func checkRow(names []string, x []float64) error {
	if len(x) != len(names) {
		return fmt.Errorf("%d values for %d features", len(x), len(names))
	}
	for i, v := range x {
		if math.IsInf(v, 0) {
			return fmt.Errorf("%s is %g", names[i], v)
		}
	}
	return nil
}

// finite returns a prediction, or an error if it is no number.
func finite(y float64) (float64, error) {
	if math.IsNaN(y) || math.IsInf(y, 0) {
		return 0, fmt.Errorf("the model's prediction is %g", y)
	}
	return y, nil
}
