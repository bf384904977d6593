// Package history reads a series from a Prometheus.
package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/simulation"
)

// Query asks the Prometheus at a URL for the n steps up to end of the one series that
// a query gives. What is missing is a gap. Errors of the URL and the query are
// simulation.ErrInput.
func Query(ctx context.Context, url, query string, end time.Time, n int, step time.Duration) (api.Series, error) {
	client, err := promapi.NewClient(promapi.Config{Address: url})
	if err != nil {
		return api.Series{}, simulation.Input(fmt.Errorf("--prometheus %s: %w", url, err))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	begin := end.Add(-time.Duration(n) * step).Truncate(step)
	value, _, err := promv1.NewAPI(client).QueryRange(ctx, query, promv1.Range{Start: begin, End: end, Step: step})
	if err != nil {
		return api.Series{}, fmt.Errorf("asking Prometheus at %s: %w", url, err)
	}
	matrix, ok := value.(model.Matrix)
	if !ok || len(matrix) != 1 {
		return api.Series{}, simulation.Input(fmt.Errorf("--query must give one series, %s gives %s", query, Describe(value)))
	}
	s, err := fromSamples(matrix[0].Values, step)
	if err != nil {
		return api.Series{}, fmt.Errorf("asking Prometheus at %s: %w", url, err)
	}
	return s, nil
}

// Describe what a query gave instead of one series.
func Describe(v model.Value) string {
	if m, ok := v.(model.Matrix); ok {
		return fmt.Sprintf("%d", len(m))
	}
	return v.Type().String()
}

// fromSamples lays samples, which are at multiples of step from the first one,
// on a grid; what is missing or no number is a gap.
func fromSamples(samples []model.SamplePair, step time.Duration) (api.Series, error) {
	if len(samples) == 0 {
		return api.Series{}, errors.New("no samples")
	}
	first := samples[0].Timestamp.Time().UTC()
	n := int(samples[len(samples)-1].Timestamp.Time().Sub(first)/step) + 1
	out := api.Series{Start: first, Step: step, Values: make([]float64, n)}
	for i := range out.Values {
		out.Values[i] = math.NaN()
	}
	for _, s := range samples {
		if v := float64(s.Value); !math.IsInf(v, 0) {
			out.Values[int(s.Timestamp.Time().Sub(first)/step)] = v
		}
	}
	return out, nil
}
