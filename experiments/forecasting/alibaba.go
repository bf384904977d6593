package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/forecasters"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/forecast/seriesfile"
)

// alibaba prints mean squared errors of utilisation 5 to 25 minutes ahead on two
// series of Alibaba's, beside those that DRPC states of its GRU.
func (o options) alibaba(w io.Writer) error {
	const step, ahead, every = 5 * time.Minute, 5, 4
	var rows [][]string
	for _, t := range []struct {
		name, file string
		o          seriesfile.Options
	}{
		{"machines, held out", "datacenter-traces/alibaba2018_machine_usage_8d_300s.csv.gz", seriesfile.Options{Step: step, Time: seriesfile.NoTime, Value: "cpu_util_percent"}},
		{"a container, its last third", "alibaba-containers/c_12104.csv.gz", seriesfile.Options{Step: step}},
	} {
		s, err := readTrace(filepath.Join(o.data, filepath.FromSlash(t.file)), t.o)
		if err != nil {
			return err
		}
		first := len(s.Values) * 2 / 3
		for _, model := range []string{"gru", forecast.AutoName, forecast.QuickName, "ets", forecast.SeasonalNaiveName, forecast.NaiveName} {
			if !slices.Contains(o.models, model) {
				continue
			}
			errs, err := squaredErrors(model, s, first, ahead, every)
			if err != nil {
				return err
			}
			row := []string{t.name, model}
			for _, e := range errs {
				row = append(row, fmt.Sprintf("%.5f", e))
			}
			rows = append(rows, row)
		}
	}
	rows = append(rows, []string{"containers, its own split", "GRU of DRPC, as stated", "0.0025", "0.0027", "0.0033", "0.0049", "0.0057"})
	table(w, "Alibaba, mean squared error of utilisation (0–1)", []string{"series", "model", "5 min", "10 min", "15 min", "20 min", "25 min"}, rows,
		"Rolling over the last third, every fourth sample an origin; parameters of what came before. The series are not DRPC's, whose split is not public: machines here are the mean of many, which is smoother than a container.")
	return nil
}

// squaredErrors of the mean at each lead, of utilisation in percent over 100.
func squaredErrors(model string, s api.Series, first, ahead, every int) ([]float64, error) {
	f, err := forecasters.ByName(model)
	if err != nil {
		return nil, err
	}
	state := forecast.NewState(model)
	sums, n := make([]float64, ahead), 0.0
	for end := first; end+ahead < len(s.Values); end += every {
		past := s
		past.Values = s.Values[: end+1 : end+1]
		if state, err = f.Update(state, past, ahead); err != nil {
			return nil, err
		}
		got, err := f.Forecast(state, past, ahead, []float64{0.5})
		if err != nil {
			return nil, err
		}
		for k := range ahead {
			if e := (got.Mean[k] - s.Values[end+1+k]) / 100; e == e { // not a gap
				sums[k] += e * e
			}
		}
		n++
	}
	for k := range sums {
		sums[k] /= n
	}
	return sums, nil
}
