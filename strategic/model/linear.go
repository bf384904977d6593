package model

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Linear is Intercept + Σ Coefficients·x.
type Linear struct {
	Names        []string  `json:"features"`
	Coefficients []float64 `json:"coefficients"`
	Intercept    float64   `json:"intercept"`
}

// FitLinear fits by least squares, with an intercept and with a ridge of 1e-8 on
// standardised features, so that features which depend on each other or never change do
// no harm. It returns an error for rows that do not fit, or fewer of them than features.
func FitLinear(names []string, x [][]float64, y []float64) (*Linear, error) {
	if err := CheckTable(names, x, y); err != nil {
		return nil, err
	}
	if len(x) <= len(names) {
		return nil, fmt.Errorf("%d rows for %d features, want more rows", len(x), len(names))
	}
	d, n := len(names), float64(len(x))
	mean, deviation, centre := make([]float64, d), make([]float64, d), 0.0
	for i, row := range x {
		centre += y[i] / n
		for j, v := range row {
			mean[j] += v / n
		}
	}
	for _, row := range x {
		for j, v := range row {
			deviation[j] += (v - mean[j]) * (v - mean[j]) / n
		}
	}
	for j, v := range deviation {
		// What never changes, but for rounding, is no feature.
		if deviation[j] = math.Sqrt(v); deviation[j] <= 1e-12*math.Abs(mean[j]) {
			deviation[j] = 0
		}
	}
	gram, right := mat.NewSymDense(d, nil), mat.NewVecDense(d, nil)
	z := make([]float64, d)
	for i, row := range x {
		for j, v := range row {
			if z[j] = 0; deviation[j] > 0 {
				z[j] = (v - mean[j]) / deviation[j]
			}
		}
		gram.SymRankOne(gram, 1/n, mat.NewVecDense(d, z))
		right.AddScaledVec(right, (y[i]-centre)/n, mat.NewVecDense(d, z))
	}
	for j := range d {
		gram.SetSym(j, j, gram.At(j, j)+1e-8)
	}
	var chol mat.Cholesky
	var b mat.VecDense
	if !chol.Factorize(gram) {
		return nil, fmt.Errorf("the features' matrix can't be factorised")
	}
	if err := chol.SolveVecTo(&b, right); err != nil {
		return nil, fmt.Errorf("solving for the coefficients: %w", err)
	}
	out := &Linear{Names: names, Coefficients: make([]float64, d), Intercept: centre}
	for j := range d {
		if deviation[j] > 0 {
			out.Coefficients[j] = b.AtVec(j) / deviation[j]
			out.Intercept -= out.Coefficients[j] * mean[j]
		}
	}
	return out, out.Validate()
}

// Validate returns an error, with the path of the field, for a model that can't predict.
func (l *Linear) Validate() error {
	if err := CheckFeatures(l.Names); err != nil {
		return err
	}
	if len(l.Coefficients) != len(l.Names) {
		return fmt.Errorf("coefficients: %d for %d features", len(l.Coefficients), len(l.Names))
	}
	for i, v := range l.Coefficients {
		if v-v != 0 {
			return fmt.Errorf("coefficients[%d]: is %g", i, v)
		}
	}
	if l.Intercept-l.Intercept != 0 {
		return fmt.Errorf("intercept: is %g", l.Intercept)
	}
	return nil
}

// Features implements Model.
func (l *Linear) Features() []string { return l.Names }

// Predict implements Model.
func (l *Linear) Predict(x []float64) (float64, error) {
	if err := checkRow(l.Names, x); err != nil {
		return 0, err
	}
	sum := l.Intercept
	for i, v := range x {
		if math.IsNaN(v) {
			return 0, fmt.Errorf("%w: %s", ErrMissing, l.Names[i])
		}
		sum += l.Coefficients[i] * v
	}
	return finite(sum)
}

// CheckTable returns an error for rows that nothing can be learned from: none, or one
// whose width or values are wrong.
func CheckTable(names []string, x [][]float64, y []float64) error {
	if err := CheckFeatures(names); err != nil {
		return err
	}
	if len(x) == 0 || len(x) != len(y) {
		return fmt.Errorf("%d rows and %d results, want as many and some", len(x), len(y))
	}
	for i, row := range x {
		if len(row) != len(names) {
			return fmt.Errorf("row %d: %d values for %d features", i, len(row), len(names))
		}
		for j, v := range row {
			if v-v != 0 {
				return fmt.Errorf("row %d: %s is %g", i, names[j], v)
			}
		}
		if y[i]-y[i] != 0 {
			return fmt.Errorf("row %d: the result is %g", i, y[i])
		}
	}
	return nil
}
