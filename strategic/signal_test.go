package strategic

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// spend is on from 1000 and off below 900, and stays for an hour.
var spend = api.Signal{
	Name: "spend", Query: "sum(spend)", Compare: api.CompareAbove, On: 1000, Off: 900, Policy: api.CostSaving, MinStay: time.Hour,
}

func read(s api.Signal, value float64) api.SignalReading {
	return api.SignalReading{Name: s.Name, Source: s.Source(), Value: value}
}

func spec(signals ...api.Signal) api.PolicySpec {
	return api.PolicySpec{Policies: Defaults(), Default: api.Performance, Signals: signals}
}

// TestSignalOverTime walks one signal through readings a step of time apart.
func TestSignalOverTime(t *testing.T) {
	nothing := math.Inf(-1) // it can't be read
	stock := api.Signal{Name: "stock", Key: "stock", Compare: api.CompareBelow, On: 3, Off: 5, Policy: api.CostSaving}
	for name, c := range map[string]struct {
		signal   api.Signal
		step     time.Duration
		readings []float64
		want     string // + on, - off
	}{
		"on from the value, off from another":          {spend, 2 * time.Hour, []float64{899, 999, 1000, 950, 900, 899, 999, 1000}, "--+++--+"},
		"below: the other way round":                   {stock, time.Minute, []float64{6, 4, 3, 4, 5, 5.1, 4}, "--+++--"},
		"what can't be read stays on":                  {spend, 2 * time.Hour, []float64{1000, nothing, nothing, 950, 0, nothing}, "++++--"},
		"what was never read is off":                   {spend, 2 * time.Hour, []float64{nothing, nothing, 1000}, "--+"},
		"it stays on for an hour, and off for an hour": {spend, 30 * time.Minute, []float64{1000, 0, 0, 1000, 1000, 0}, "++--++"},
		"no number holds":                              {spend, 2 * time.Hour, []float64{1000, math.NaN(), 0}, "++-"},
	} {
		t.Run(name, func(t *testing.T) {
			var last []api.SignalState
			now := at(t, "2026-03-02T10:00:00Z")
			got := ""
			for _, v := range c.readings {
				r := read(c.signal, v)
				if v == nothing {
					r.Missing = "Prometheus is away"
				}
				s := api.Snapshot{Time: now, Context: api.Context{Signals: []api.SignalReading{r}, Last: last}}
				p := Decide(spec(c.signal), s)
				last = p.Signals
				on := p.Source == api.SourceSignal
				if on != last[0].On || on != (p.Name == api.CostSaving) {
					t.Fatalf("policy %s by %s while the signal is on: %v", p.Name, p.Source, last[0].On)
				}
				got += map[bool]string{true: "+", false: "-"}[on]
				if held := len(Unread(spec(c.signal), s)); held != boolInt(v == nothing || math.IsNaN(v)) {
					t.Errorf("%v: %d findings", v, held)
				}
				now = now.Add(c.step)
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestSignalPrecedence(t *testing.T) {
	campaign := api.Signal{Name: "campaign", Key: "campaign", Compare: api.CompareEquals, Text: "on", Policy: api.Performance}
	on := api.SignalReading{Name: "campaign", Source: campaign.Source(), Text: "on"}
	always := []api.ScheduleEntry{{Cron: "* * * * *", Policy: api.CostSaving}}
	for name, c := range map[string]struct {
		change     func(*api.PolicySpec, *api.Snapshot)
		wantName   string
		wantSource api.PolicySource
		wantReason string
	}{
		"a signal comes before the schedule": {
			wantName: api.Performance, wantSource: api.SourceSignal, wantReason: `signal campaign is on: it reads "on"`,
		},
		"by hand comes before a signal": {
			change:   func(p *api.PolicySpec, _ *api.Snapshot) { p.Manual = api.CostSaving },
			wantName: api.CostSaving, wantSource: api.SourceManual,
		},
		"a signal that is off leaves it to the schedule": {
			change:   func(_ *api.PolicySpec, s *api.Snapshot) { s.Context.Signals[0].Text = "off" },
			wantName: api.CostSaving, wantSource: api.SourceSchedule,
		},
		"the first of two that are on": {
			change: func(p *api.PolicySpec, s *api.Snapshot) {
				p.Signals = []api.Signal{spend, campaign}
				s.Context.Signals = append(s.Context.Signals, read(spend, 2000))
			},
			wantName: api.CostSaving, wantSource: api.SourceSignal, wantReason: "2000 is not below 1000",
		},
		"the reading of another source is none": {
			change: func(_ *api.PolicySpec, s *api.Snapshot) {
				s.Context.Signals[0].Source = "ConfigMap mash2-signals key other"
			},
			wantName: api.CostSaving, wantSource: api.SourceSchedule,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := spec(campaign)
			p.Schedule = always
			s := api.Snapshot{Time: at(t, "2026-03-02T10:00:00Z"), Context: api.Context{Signals: []api.SignalReading{on}}}
			if c.change != nil {
				c.change(&p, &s)
			}
			got := Decide(p, s)
			if got.Name != c.wantName || got.Source != c.wantSource || !strings.Contains(got.Reason, c.wantReason) {
				t.Errorf("%s by %s: %s; want %s by %s", got.Name, got.Source, got.Reason, c.wantName, c.wantSource)
			}
		})
	}
}

// Whatever is read: a signal changes no more often than its stay allows, and only on a
// reading that is beyond its values.
func TestSignalStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spend
		s.MinStay = time.Duration(rapid.IntRange(0, 90).Draw(t, "minStay")) * time.Minute
		now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
		last := api.SignalState{Name: s.Name}
		var changed time.Time
		for i := range rapid.IntRange(1, 40).Draw(t, "cycles") {
			r := read(s, rapid.Float64Range(800, 1100).Draw(t, fmt.Sprint("value ", i)))
			if rapid.IntRange(0, 3).Draw(t, fmt.Sprint("readable ", i)) == 0 {
				r.Missing = "away"
			}
			next := turn(s, r, last, now)
			if next.On != last.On {
				switch {
				case !changed.IsZero() && now.Sub(changed) < s.MinStay:
					t.Fatalf("changed after %v", now.Sub(changed))
				case r.Missing != "":
					t.Fatal("changed without a reading")
				case next.On && r.Value < s.On, !next.On && r.Value >= s.Off:
					t.Fatalf("on %v at %v", next.On, r.Value)
				}
				changed = now
			}
			last = next
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, fmt.Sprint("step ", i))) * time.Minute)
		}
	})
}
