package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/history"
	"github.com/mash2-io/mash2/forecast/seriesfile"
)

// seriesFlags say where series come from: files, or a query to Prometheus.
type seriesFlags struct {
	inputs                        []string
	time, value, delimiter        string
	step, since                   time.Duration
	noHeader                      bool
	prometheus, query, until, hor string
	quantiles                     []float64
}

func (o *seriesFlags) add(cmd *cobra.Command, quantiles []float64) {
	f := cmd.Flags()
	f.StringSliceVar(&o.inputs, "input", nil, "CSV[.gz] files with a header, a timestamp and a value; - is standard input")
	f.StringVar(&o.time, "time", "", "column of timestamps, by name or by number from 0; none for rows that are --step apart")
	f.StringVar(&o.value, "value", "", "column of values, by name or by number from 0")
	f.DurationVar(&o.step, "step", 0, "time between samples; rows within one step are averaged (default: that of the rows, or 1m for Prometheus)")
	f.StringVar(&o.delimiter, "delimiter", ",", `character between fields; \t is a tab`)
	f.BoolVar(&o.noHeader, "no-header", false, "the first row is data")
	f.StringVar(&o.prometheus, "prometheus", "", "URL of a Prometheus, instead of a file")
	f.StringVar(&o.query, "query", "", "PromQL for --prometheus; it must return one series")
	f.DurationVar(&o.since, "since", 48*time.Hour, "length of the query before --until")
	f.StringVar(&o.until, "until", "", "end of the query, RFC 3339 (default: now)")
	f.StringVar(&o.hor, "horizon", "", "how far to forecast: a number of steps, or a duration such as 24h")
	f.Float64SliceVar(&o.quantiles, "quantiles", quantiles, "quantiles to forecast, increasing, each in (0, 1)")
}

// named is a series and where it came from.
type named struct {
	name   string
	series api.Series
}

// read all series; what is odd about a file is told on notes.
func (o *seriesFlags) read(ctx context.Context, stdin io.Reader, notes io.Writer) ([]named, error) {
	switch {
	case o.prometheus != "" && len(o.inputs) > 0:
		return nil, cli.Usagef("give either --input or --prometheus")
	case o.prometheus != "" && o.query == "":
		return nil, cli.Usagef("--prometheus needs a --query")
	case o.prometheus == "" && o.query != "":
		return nil, cli.Usagef("--query needs a --prometheus")
	case o.step < 0:
		return nil, cli.Usagef("--step must not be negative, is %v", o.step)
	case o.prometheus != "":
		s, err := o.ask(ctx)
		return []named{s}, err
	case len(o.inputs) == 0:
		return nil, cli.Usagef("--input must name a file, or --prometheus a server")
	}
	delimiter, size := utf8.DecodeRuneInString(strings.ReplaceAll(o.delimiter, `\t`, "\t"))
	if size == 0 || size != len(strings.ReplaceAll(o.delimiter, `\t`, "\t")) || strings.ContainsRune("\"\r\n\uFFFD", delimiter) {
		return nil, cli.Usagef("--delimiter must be one character, not a quote or a line end, is %q", o.delimiter)
	}
	var out []named
	for _, name := range o.inputs {
		options := seriesfile.Options{
			Name: name, Time: o.time, Value: o.value, Step: o.step, Delimiter: delimiter, NoHeader: o.noHeader,
		}
		got, err := seriesfile.Open(name, stdin, options)
		if err != nil {
			return nil, cli.Usage(err)
		}
		if note := got.Remarks(); note != "" {
			fmt.Fprintf(notes, "%s: %s\n", name, note)
		}
		out = append(out, named{name, got.Series})
	}
	return out, nil
}

// ask Prometheus for one series.
func (o *seriesFlags) ask(ctx context.Context) (named, error) {
	step := o.step
	if step == 0 {
		step = time.Minute
	}
	end := time.Now()
	if o.until != "" {
		t, err := time.Parse(time.RFC3339, o.until)
		if err != nil {
			return named{}, cli.Usagef("--until: %v", err)
		}
		end = t
	}
	n := int(o.since / step)
	if n < 1 || n > 10_000 {
		return named{}, cli.Usagef("--since %v is %d steps of %v; Prometheus answers 1 to 10000", o.since, n, step)
	}
	got, err := history.Query(ctx, o.prometheus, o.query, end, n, step)
	if err != nil {
		return named{}, asUsage(err)
	}
	return named{o.query, got}, nil
}

// horizon in steps of a series.
func (o *seriesFlags) horizon(step time.Duration) (int, error) {
	const most = 100_000
	if o.hor == "" {
		return 0, cli.Usagef("--horizon must say how far: a number of steps, or a duration such as 24h")
	}
	if n, err := strconv.Atoi(o.hor); err == nil {
		if n < 1 || n > most {
			return 0, cli.Usagef("--horizon must be 1 to %d steps, is %d", most, n)
		}
		return n, nil
	}
	d, err := time.ParseDuration(o.hor)
	if err != nil {
		return 0, cli.Usagef("--horizon %q is neither a number of steps nor a duration such as 24h", o.hor)
	}
	n := int((d + step - 1) / step)
	if d <= 0 || n > most {
		return 0, cli.Usagef("--horizon %v must be 1 to %d steps of %v", d, most, step)
	}
	return n, nil
}

// levels checks the quantiles.
func (o *seriesFlags) levels() ([]float64, error) {
	if len(o.quantiles) == 0 {
		return nil, cli.Usagef("--quantiles must name at least one")
	}
	for i, q := range o.quantiles {
		if !(q > 0 && q < 1) || i > 0 && q <= o.quantiles[i-1] {
			return nil, cli.Usagef("--quantiles must be increasing and in (0, 1), are %v", o.quantiles)
		}
	}
	return o.quantiles, nil
}
