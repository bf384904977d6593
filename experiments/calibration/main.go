// Command calibration fits the service model of the simulations to measured load
// and latency of a real application, Cilantro's runs of DeathStarBench's hotel
// reservation, shows the fit with its error on rows that were held out, and
// writes it all down:
//
//	go run ./experiments/calibration [--data ../shared/data/cilantro-hotelres] [--out docs]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// units of each service in the runs with an equal share for all.
const units = 8

func main() {
	data := flag.String("data", filepath.Join(scenarios.DataFolder(), "cilantro-hotelres"), "folder of Cilantro's client logs")
	out := flag.String("out", "docs/benchmarks", "folder to write calibration.md and its pictures into")
	flag.Parse()
	if err := calibrate(*data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "calibration:", err)
		os.Exit(1)
	}
}

// sources of the runs, by the policy that divided 152 units among 19 services.
var sources = []struct{ name, prefix string }{
	{"equal shares", "propfair_"}, {"evolutionary search", "mssile_"}, {"upper confidence bound", "ucbopt_"},
}

func calibrate(data, out string) error {
	var files [][]observation
	var all []observation
	for _, s := range sources {
		found, err := filepath.Glob(filepath.Join(data, s.prefix+"*.csv.gz"))
		if err != nil {
			return err
		}
		if len(found) != 1 {
			return fmt.Errorf("%s: %d files %s*.csv.gz, want one (%s names the folder of traces)", data, len(found), s.prefix, scenarios.DataEnv)
		}
		rows, err := readObservations(found[0])
		if err != nil {
			return err
		}
		files, all = append(files, rows), append(all, rows...)
	}
	offered, err := offeredRate(all)
	if err != nil {
		return err
	}
	curves := map[float64]curve{}
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1, 1.5, 2} {
		c, err := setting{offered: offered, servers: units, variation: v, seed: 1}.curve(shares)
		if err != nil {
			return err
		}
		curves[v] = c
		fmt.Fprintf(os.Stderr, "simulated work with variation %g\n", v)
	}
	train, test := split(files[0])
	train, test = saturated(train, offered), saturated(test, offered)
	best, err := fit(train, offered, curves)
	if err != nil {
		return err
	}
	best.Work = units / offered
	fitted := curves[best.Variation].at
	var b strings.Builder
	fmt.Fprintf(&b, introduction, offered, len(train), len(test))
	fmt.Fprintf(&b, "| parameter | value | from |\n|---|---|---|\n")
	fmt.Fprintf(&b, "| offered load | %.0f requests/s | what is answered when nothing is saturated; wrk2 was asked for 3,000 |\n", best.Offered)
	fmt.Fprintf(&b, "| base latency | %.0f ms | fit |\n", best.Base)
	fmt.Fprintf(&b, "| variation of a request's work (deviation ÷ mean) | %g | fit, among 0, 0.25, 0.5, 0.75, 1, 1.5, 2 |\n", best.Variation)
	fmt.Fprintf(&b, "| work of the busiest service | at most %.2f ms per request | its %d units just kept up with the offered load |\n\n", best.Work*1000, units)
	fmt.Fprint(&b, "Error: the median of |ln(predicted ÷ observed)| as a percentage; bias: the same with its sign.\n\n")
	fmt.Fprintf(&b, "| rows | model | n | mean: error | bias | p99: error | bias |\n|---|---|---|---|---|---|---|\n")
	line := func(rows []observation, name, model string, predict func(float64) point) {
		a := judge(rows, offered, best.Base, predict)
		fmt.Fprintf(&b, "| %s | %s | %d | %.0f %% | %+.0f %% | %.0f %% | %+.0f %% |\n", name, model, a.n, 100*a.mean, 100*a.meanBias, 100*a.p99, 100*a.p99Bi)
	}
	for _, m := range []struct {
		name    string
		predict func(float64) point
	}{{"per request", fitted}, {"fluid", backlog}} {
		line(train, sources[0].name+", even hours (fitted)", m.name, m.predict)
		line(test, sources[0].name+", odd hours (held out)", m.name, m.predict)
		for i, s := range sources[1:] {
			rows := saturated(files[i+1], offered)
			line(rows, s.name+" (held out)", m.name, m.predict)
			line(answeredBelow(rows, offered, clearly), fmt.Sprintf("%s, below %.1f %% (held out)", s.name, 100*clearly), m.name, m.predict)
		}
	}
	b.WriteString(conclusion)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, q := range []struct {
		name, title string
		observed    func(observation) float64
		predicted   func(point) float64
	}{
		{"calibration-mean.png", "Mean latency of a window by the share of requests answered", func(o observation) float64 { return o.mean }, func(p point) float64 { return p.mean }},
		{"calibration-p99.png", "99th percentile of a window by the share of requests answered", func(o observation) float64 { return o.p99 }, func(p point) float64 { return p.p99 }},
	} {
		if err := picture(filepath.Join(out, q.name), q.title, offered, best.Base, train, test, fitted, q.observed, q.predicted); err != nil {
			return err
		}
	}
	file := filepath.Join(out, "calibration.md")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return err
	}
	fmt.Println(b.String())
	return nil
}

// shares of the offered load that the model is made able to serve.
var shares = []float64{0.88, 0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 1.0, 1.01, 1.03}

// picture draws observations and both models.
func picture(file, title string, offered, base float64, train, test []observation, fitted func(float64) point,
	observed func(observation) float64, predicted func(point) float64,
) error {
	f := report.Figure{Title: title, XLabel: "answered of offered, %", YLabel: "ms"}
	cloud := func(name string, rows []observation, color int) {
		s := report.Series{Name: name, Color: color, Points: true}
		for _, o := range rows {
			s.X, s.Y = append(s.X, 100*o.load/(offered*window)), append(s.Y, observed(o))
		}
		f.Series = append(f.Series, s)
	}
	cloud("observed, fitted", train, 5)
	cloud("observed, held out", test, 4)
	line := func(name string, predict func(float64) point, color, dash int) {
		s := report.Series{Name: name, Color: color, Dash: dash}
		for x := 0.93; x <= 0.999; x += 0.001 {
			s.X, s.Y = append(s.X, 100*x), append(s.Y, base+predicted(predict(x)))
		}
		f.Series = append(f.Series, s)
	}
	line("model, per request", fitted, 0, 0)
	line("model, fluid", backlog, 1, 1)
	out, err := os.Create(filepath.Clean(file))
	if err != nil {
		return err
	}
	if err := f.PNG(out); err != nil {
		_ = out.Close() // the picture's error is the one to tell
		return err
	}
	return out.Close()
}

const introduction = `# Calibration of the service model

Made by ` + "`make calibrate`" + `.

This page compares the simulator's model of requests (package ` + "`experiments/load/queueing`" + `, and its
fluid counterpart in ` + "`experiments/sim`" + `) with measurements of a real application: Cilantro's runs
(OSDI'23, romilbhardwaj/cilantro, MIT) of DeathStarBench's hotel reservation, 19 services on 152 CPU
units, in windows of 30 s. Its load generator, wrk2, sends %.0f requests/s at a constant rate, whether or
not answers come. A row has the number of answers, and their latency from the time at which they were
due. So a row says which share of the offered load the application could serve. From that the model must
predict how long requests wait: it feeds an open stream of that rate into processor-sharing servers of
that capacity, for 30 s, beginning empty.

The model is fitted to the runs with equal shares for all services: to the windows of every second hour
in which 90 to 99.9 %% of requests were answered (%d). The other hours (%d) are held out, and so are the
two runs whose shares changed all the time. In the logs, p99 below about 120 ms and means below 70 ms are
spread evenly between two round figures whatever the load, so they carry no information there, and the
base latency is an offset.

`

// clearly is the share below which a window was clearly overloaded all along.
const clearly = 0.985

const conclusion = `
![mean](calibration-mean.png)
![p99](calibration-p99.png)

What it shows:

- With equal shares both models predict the mean and the 99th percentile of unseen hours within the errors
  above. The exponential tail of the fluid model is somewhat too light.
- In the other two runs the shares changed from window to window. The mean of clearly overloaded windows is
  still that of the backlog. Nearer to saturation it is not, because overload came in bursts or on some
  connections only. Their p99 does not follow from the load: in one run it is often below the mean of the
  same window, which can't be right, and in the other it is near eight seconds at most loads.
- These runs do not show which services limit the rate: for none of the 19 does a smaller share go with
  saturation. So the work of single services is not fitted. The work of the busiest one is bounded by its
  units and the rate.

` + "`hotel.yaml`" + ` uses these values of work and variation. The 3 ms for a request in the other scenarios are of
the same size.
`
