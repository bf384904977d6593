package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/forecasters"
	"github.com/mash2-io/mash2/forecast"
)

// coldFits of each model: how much they differ is the machine's doing.
const coldFits = 9

// cost prints CPU by model: a cold fit, and a cycle of a window that slides.
func (o options) cost(w io.Writer) error {
	var rows [][]string
	for _, name := range o.models {
		f, err := forecasters.ByName(name)
		if err != nil {
			return err
		}
		row := []string{name}
		for _, n := range []int{1500, 10080} {
			var took []float64
			for range coldFits {
				series := daily(n)
				begun := cpu()
				if _, err := f.Update(forecast.State{}, series, 40); err != nil {
					return err
				}
				took = append(took, (cpu()-begun).Seconds()*1000)
			}
			slices.Sort(took)
			row = append(row, fmt.Sprintf("%.1f–%.1f", took[0], took[len(took)-1]))
		}
		s, err := f.Update(forecast.NewState(name), daily(1500), 40)
		if err != nil {
			return err
		}
		const times = 50
		begun := cpu()
		for range times {
			if _, err := f.Forecast(s, daily(1500), 40, []float64{0.1, 0.5, 0.9, 0.95}); err != nil {
				return err
			}
		}
		row = append(row, fmt.Sprintf("%.3f", (cpu()-begun).Seconds()*1000/times))
		rows = append(rows, row)
	}
	table(w, "Cost by model, ms of CPU", []string{"model", "cold fit, 1,500 samples", "10,080 samples", "forecast of 40 steps, 1,500 samples"}, rows,
		fmt.Sprintf("One season of a day at a minute's step, noise; the least and the most of %d fits, each with no state; the forecast includes making the series.", coldFits))
	return nil
}

// amortised is what an update costs the operator in the long run, refits, long memory
// and the trust's account included: a window that slides by a sample a cycle, over as
// many cycles as several refits take, or some thousands.
func (o options) amortised(w io.Writer) error {
	var rows [][]string
	for _, of := range []struct {
		load    func(n int) api.Series
		name    string
		n, most int
		horizon int
	}{
		{daily, "a day, by the minute", 1500, 6000, 40}, {heartbeat, "ten minutes, by 15 s", 1500, 6000, 40},
		{daily, "a day, by the minute, two of them", 2880, 6000, 40}, {daily, "a day, by the minute", 10080, 4000, 40},
		// What the operator keeps and asks for by default.
		{heartbeat, "ten minutes, by 15 s, two days of them", 11520, 4000, 64},
	} {
		long := of.load(of.n + of.most)
		for _, name := range slices.DeleteFunc(slices.Clone(o.models), choosesNot) {
			bare, err := forecasters.ByName(name)
			if err != nil {
				return err
			}
			f := forecast.Guarded(bare)
			window := func(i int) api.Series {
				s := long
				s.Start, s.Values = s.Start.Add(time.Duration(i)*s.Step), s.Values[i:i+of.n]
				return s
			}
			s, err := f.Update(forecast.NewState(name), window(0), of.horizon)
			if err != nil {
				return err
			}
			fits, begun, inFits := s.Fits, cpu(), time.Duration(0)
			for i := range of.most {
				due, at := s.Due(window(i+1), of.horizon), cpu()
				if s, err = f.Update(s, window(i+1), of.horizon); err != nil {
					return err
				}
				if due {
					inFits += cpu() - at
				}
			}
			all := (cpu() - begun).Seconds() * 1000 / float64(of.most)
			rows = append(rows, []string{
				fmt.Sprintf("%s, %d samples", of.name, of.n), name, fmt.Sprintf("%.3f", all),
				fmt.Sprintf("%.3f", inFits.Seconds()*1000/float64(of.most)), fmt.Sprintf("%d in %d", s.Fits-fits, of.most),
			})
		}
	}
	table(w, "Update amortised over a window that slides, ms of CPU per cycle", []string{"season, window", "forecaster", "ms", "of which refits", "refits, cycles"}, rows)
	return nil
}

// cycles runs the operator's forecaster for many workloads over some cycles.
func (o options) cycles(w io.Writer) error {
	const workloads, cycles, n = 5000, 4, 2880
	long := daily(n + 400)
	states := make([]forecast.State, workloads)
	window := func(k, cycle int) api.Series {
		s := long
		from := k%300 + cycle
		s.Start, s.Values = s.Start.Add(time.Duration(from)*s.Step), s.Values[from:from+n]
		return s
	}
	f := forecast.Guarded(forecast.Auto{})
	cold := cpu()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for k := range states {
		var err error
		if states[k], err = f.Update(forecast.NewState(fmt.Sprint(k)), window(k, 0), 40); err != nil {
			return err
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	coldEach := (cpu() - cold).Seconds() * 1000 / workloads
	begun := cpu()
	for cycle := range cycles {
		for k := range states {
			s := window(k, cycle+1)
			var err error
			if states[k], err = f.Update(states[k], s, 40); err != nil {
				return err
			}
			if _, err = f.Forecast(states[k], s, 40, []float64{0.1, 0.5, 0.9, 0.95}); err != nil {
				return err
			}
		}
	}
	table(w, fmt.Sprintf("The operator's forecaster (quick), %d workloads of %d samples", workloads, n),
		[]string{"first fit, ms each", "cycle, ms of CPU per workload", "cycle, s of CPU in all", "KiB of state per workload"},
		[][]string{{
			fmt.Sprintf("%.2f", coldEach), fmt.Sprintf("%.3f", (cpu()-begun).Seconds()*1000/workloads/cycles),
			fmt.Sprintf("%.2f", (cpu()-begun).Seconds()/cycles),
			fmt.Sprintf("%.1f", float64(after.HeapAlloc-before.HeapAlloc)/1024/workloads),
		}})
	return nil
}

func daily(n int) api.Series {
	r := rand.New(rand.NewPCG(1, 1))
	s := api.Series{Start: time.Unix(0, 0).UTC(), Step: time.Minute, Values: make([]float64, n)}
	for i := range s.Values {
		s.Values[i] = max(0, 100+50*math.Sin(2*math.Pi*float64(i)/1440)+5*math.Sin(2*math.Pi*float64(i)/60)+5*r.NormFloat64())
	}
	return s
}

// heartbeat is a season of minutes with steep sides, as a scheduled job makes it.
func heartbeat(n int) api.Series {
	r := rand.New(rand.NewPCG(2, 2))
	s := api.Series{Start: time.Unix(0, 0).UTC(), Step: 15 * time.Second, Values: make([]float64, n)}
	for i := range s.Values {
		level := 100.0
		if i%40 < 12 {
			level = 400
		}
		s.Values[i] = max(0, level+15*r.NormFloat64())
	}
	return s
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
