package qos

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mash2-io/mash2/strategic/model"
)

const (
	// block of time that is drawn as a whole for intervals: errors that follow one another
	// resemble each other.
	block = 5 * 60 // seconds
	// resamples of an interval.
	resamples = 2000
)

// Errors of a model, in milliseconds where not said otherwise.
type Errors struct {
	// MAE is the mean absolute error, RMSE the root of the mean squared one, Bias the mean
	// of prediction − truth.
	MAE  float64 `json:"mae"`
	RMSE float64 `json:"rmse"`
	Bias float64 `json:"bias"`
	// MAPE is the mean absolute error relative to the truth, 0–1.
	MAPE float64 `json:"mape"`
	// R2 is 1 − squared error ÷ variance of what is scored; null where that is 0.
	R2 *float64 `json:"r2"`
}

// predict all samples, in seconds.
func predict(m model.Model, s []Sample) ([]float64, error) {
	out := make([]float64, len(s))
	for i := range s {
		var err error
		if out[i], err = m.Predict(s[i].X); err != nil {
			return nil, fmt.Errorf("sample %d, at %s: %w", i, s[i].Time, err)
		}
	}
	return out, nil
}

func errorsOf(p []float64, s []Sample) Errors {
	var e Errors
	n, mean, square, variance := float64(len(s)), 0.0, 0.0, 0.0
	for i := range s {
		d := p[i] - s[i].Y
		e.MAE += 1000 * math.Abs(d) / n
		e.Bias += 1000 * d / n
		if s[i].Y > 0 {
			e.MAPE += math.Abs(d) / s[i].Y / n
		}
		square += d * d / n
		mean += s[i].Y / n
	}
	for i := range s {
		variance += (s[i].Y - mean) * (s[i].Y - mean) / n
	}
	e.RMSE = 1000 * math.Sqrt(square)
	if variance > 0 {
		r2 := 1 - square/variance
		e.R2 = &r2
	}
	return e
}

// interval of 95 % of the mean of values, one for each sample, by a bootstrap over blocks
// of time (percentiles). It is nil for fewer than three blocks.
func interval(values []float64, s []Sample, seed uint64) *[2]float64 {
	sums, counts := map[int64]float64{}, map[int64]float64{}
	for i := range s {
		b := s[i].Time.Unix() / block
		sums[b] += values[i]
		counts[b]++
	}
	var blocks []int64
	for b := range sums {
		blocks = append(blocks, b)
	}
	if len(blocks) < 3 {
		return nil
	}
	slices.Sort(blocks)
	rng := rand.New(rand.NewPCG(seed, 0x716f73))
	means := make([]float64, resamples)
	for i := range means {
		sum, count := 0.0, 0.0
		for range blocks {
			b := blocks[rng.IntN(len(blocks))]
			sum, count = sum+sums[b], count+counts[b]
		}
		means[i] = sum / count
	}
	slices.Sort(means)
	return &[2]float64{means[resamples*25/1000], means[resamples*975/1000-1]}
}

// absolute errors, in milliseconds.
func absolute(p []float64, s []Sample) []float64 {
	out := make([]float64, len(s))
	for i := range s {
		out[i] = 1000 * math.Abs(p[i]-s[i].Y)
	}
	return out
}

func minus(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}
