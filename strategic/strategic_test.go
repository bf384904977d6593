package strategic

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDecide(t *testing.T) {
	officeHours := []api.ScheduleEntry{
		{Cron: "0 8 * * 1-5", TimeZone: "Europe/Berlin", Policy: api.Performance},
		{Cron: "0 18 * * *", TimeZone: "Europe/Berlin", Policy: api.CostSaving},
	}
	for name, c := range map[string]struct {
		spec       api.PolicySpec
		now        string
		wantName   string
		wantSource api.PolicySource
		wantSince  string
	}{
		"nothing set takes the built-in default": {
			now: "2026-03-02T10:00:00Z", wantName: api.CostSaving, wantSource: api.SourceDefault,
		},
		"the stated default": {
			spec: api.PolicySpec{Default: api.Performance},
			now:  "2026-03-02T10:00:00Z", wantName: api.Performance, wantSource: api.SourceDefault,
		},
		"by hand has precedence over the schedule": {
			spec: api.PolicySpec{Manual: api.CostSaving, Schedule: officeHours},
			now:  "2026-03-02T10:00:00Z", wantName: api.CostSaving, wantSource: api.SourceManual,
		},
		"office hours on a Monday": {
			spec: api.PolicySpec{Schedule: officeHours}, // Berlin is UTC+1 in March
			now:  "2026-03-02T07:00:00Z", wantName: api.Performance, wantSource: api.SourceSchedule, wantSince: "2026-03-02T07:00:00Z",
		},
		"a minute before, Sunday evening's entry is still in force": {
			spec: api.PolicySpec{Schedule: officeHours},
			now:  "2026-03-02T06:59:59Z", wantName: api.CostSaving, wantSource: api.SourceSchedule, wantSince: "2026-03-01T17:00:00Z",
		},
		"in summer time the same wall clock is an hour earlier in UTC": {
			spec: api.PolicySpec{Schedule: officeHours},
			now:  "2026-07-06T06:00:00Z", wantName: api.Performance, wantSource: api.SourceSchedule, wantSince: "2026-07-06T06:00:00Z",
		},
		"a time that the change to summer time skips comes as clocks are put forward": {
			spec: api.PolicySpec{Schedule: []api.ScheduleEntry{
				{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Policy: api.Performance}, {Cron: "0 22 * * *", TimeZone: "Europe/Berlin", Policy: api.CostSaving},
			}},
			now: "2026-03-29T12:00:00Z", wantName: api.Performance, wantSource: api.SourceSchedule, wantSince: "2026-03-29T01:00:00Z",
		},
		"and not before": {
			spec: api.PolicySpec{Schedule: []api.ScheduleEntry{
				{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Policy: api.Performance}, {Cron: "0 22 * * *", TimeZone: "Europe/Berlin", Policy: api.CostSaving},
			}},
			now: "2026-03-29T00:59:59Z", wantName: api.CostSaving, wantSource: api.SourceSchedule, wantSince: "2026-03-28T21:00:00Z",
		},
		"where midnight is skipped as well": {
			spec: api.PolicySpec{Schedule: []api.ScheduleEntry{{Cron: "0 0 * * *", TimeZone: "America/Sao_Paulo", Policy: api.Performance}}},
			now:  "2018-11-04T15:00:00Z", wantName: api.Performance, wantSource: api.SourceSchedule, wantSince: "2018-11-04T03:00:00Z",
		},
		"a time that the change to winter time repeats fires at its first coming, and again": {
			spec: api.PolicySpec{Schedule: []api.ScheduleEntry{{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Policy: api.Performance}}},
			now:  "2026-10-25T00:30:00Z", wantName: api.Performance, wantSource: api.SourceSchedule, wantSince: "2026-10-25T00:30:00Z",
		},
		"a yearly entry is found months later": {
			spec: api.PolicySpec{Schedule: []api.ScheduleEntry{{Cron: "0 0 1 1 *", Policy: api.Performance}}},
			now:  "2026-11-21T00:00:00Z", wantName: api.Performance, wantSource: api.SourceSchedule, wantSince: "2026-01-01T00:00:00Z",
		},
		"29 February is found across years": {
			spec: api.PolicySpec{Schedule: []api.ScheduleEntry{{Cron: "0 0 29 2 *", Policy: api.Performance}}},
			now:  "2027-11-21T00:00:00Z", wantName: api.Performance, wantSource: api.SourceSchedule, wantSince: "2024-02-29T00:00:00Z",
		},
		"of two entries at one moment the later in the list wins": {
			spec: api.PolicySpec{Schedule: []api.ScheduleEntry{
				{Cron: "0 0 * * *", Policy: api.Performance}, {Cron: "0 0 * * *", Policy: api.CostSaving}}},
			now: "2026-03-02T00:00:00Z", wantName: api.CostSaving, wantSource: api.SourceSchedule, wantSince: "2026-03-02T00:00:00Z",
		},
		"an unknown policy by hand falls through": {
			spec: api.PolicySpec{Manual: "FASTER", Default: api.Performance},
			now:  "2026-03-02T10:00:00Z", wantName: api.Performance, wantSource: api.SourceDefault,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Policies = Defaults()
			got := Decide(c.spec, api.Snapshot{Time: at(t, c.now)})
			if got.Name != c.wantName || got.Source != c.wantSource {
				t.Errorf("got %s by %s, want %s by %s", got.Name, got.Source, c.wantName, c.wantSource)
			}
			var since string
			if !got.Since.IsZero() {
				since = got.Since.UTC().Format(time.RFC3339)
			}
			if since != c.wantSince {
				t.Errorf("since %q, want %q", since, c.wantSince)
			}
			if got.Reason == "" {
				t.Error("no reason is given")
			}
		})
	}
}

func TestDecideNamesEveryManagedPool(t *testing.T) {
	spec := api.PolicySpec{Policies: map[string]api.Policy{
		"A": {Name: "A", NodePools: []string{"slow", "shared"}},
		"B": {Name: "B", NodePools: []string{"fast", "shared"}},
	}, Manual: "A"}
	got := Decide(spec, api.Snapshot{})
	if diff := cmp.Diff([]string{"fast", "shared", "slow"}, got.ManagedPools); diff != "" {
		t.Error(diff)
	}
}

// The backward search must agree with walking forward minute by minute.
func TestLastFiringAgreesWithAWalk(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := api.ScheduleEntry{
			Cron: rapid.SampledFrom([]string{"*/7 * * * *", "0 */5 * * *", "15 3 * * *", "30 1,2 * * 0", "5 0 * * 1-5"}).Draw(rt, "cron"),
			TimeZone: rapid.SampledFrom([]string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"}).
				Draw(rt, "zone"),
		}
		now := time.Unix(rapid.Int64Range(1_700_000_000, 1_800_000_000).Draw(rt, "now"), 0)
		got, err := lastFiring(e, now)
		if err != nil {
			rt.Fatal(err)
		}
		schedule, zone, err := parse(e)
		if err != nil {
			rt.Fatal(err)
		}
		var want time.Time
		for x := schedule.Next(now.In(zone).Add(-9 * 24 * time.Hour)); !x.After(now); x = schedule.Next(x) {
			want = x
		}
		if !got.Equal(want) {
			rt.Fatalf("%s in %q before %v: got %v, want %v", e.Cron, e.TimeZone, now.UTC(), got, want)
		}
	})
}

func TestValidate(t *testing.T) {
	with := func(change func(*api.Policy)) api.PolicySpec {
		p := Defaults()
		q := p[api.CostSaving]
		change(&q)
		p[api.CostSaving] = q
		return api.PolicySpec{Policies: p}
	}
	for name, c := range map[string]struct {
		spec api.PolicySpec
		want string // part of the error; empty for none
	}{
		"the built-in policies are valid": {spec: api.PolicySpec{Policies: Defaults()}},
		"unknown manual policy":           {spec: api.PolicySpec{Policies: Defaults(), Manual: "FASTER"}, want: `policy: there is no policy "FASTER"; known are COST_SAVING, PERFORMANCE`},
		"unknown default":                 {spec: api.PolicySpec{Policies: Defaults(), Default: "X"}, want: `default: there is no policy "X"`},
		"NaN weight":                      {spec: with(func(p *api.Policy) { p.Weights.Cost = math.NaN() }), want: "policies.COST_SAVING.weights.cost: must be 0 or more, is NaN"},
		"negative weight":                 {spec: with(func(p *api.Policy) { p.Weights.Performance = -1 }), want: "weights.performance"},
		"infinite cost":                   {spec: with(func(p *api.Policy) { p.MaxHourlyCost = math.Inf(1) }), want: "maxHourlyCost"},
		"quantile 1":                      {spec: with(func(p *api.Policy) { p.Quantile = 1 }), want: "quantile: must be above 0 and below 1"},
		"fewer nodes at most than at least": {
			spec: with(func(p *api.Policy) { p.MinNodesPerPool, p.MaxNodesPerPool = 5, 4 }), want: "minNodesPerPool: must not be above maxNodesPerPool, which is 4, is 5",
		},
		"negative nodes":   {spec: with(func(p *api.Policy) { p.MinNodesPerPool = -1 }), want: "minNodesPerPool: must be 0 or more"},
		"objective 1":      {spec: with(func(p *api.Policy) { p.Objective = 1 }), want: "objective: must be 0 (none) or above and below 1"},
		"objective NaN":    {spec: with(func(p *api.Policy) { p.Objective = math.NaN() }), want: "objective"},
		"quantile 0":       {spec: with(func(p *api.Policy) { p.Quantile = 0 }), want: "quantile"},
		"target above one": {spec: with(func(p *api.Policy) { p.TargetUtilization = 80 }), want: "targetUtilization: must be from 0.01 to 1, is 80"},
		"no replicas":      {spec: with(func(p *api.Policy) { p.MinReplicas = 0 }), want: "minReplicas"},
		"a pool twice":     {spec: with(func(p *api.Policy) { p.NodePools = []string{"a", "a"} }), want: `nodePools[1]: names "a" twice`},
		"six cron fields": {spec: api.PolicySpec{Policies: Defaults(), Schedule: []api.ScheduleEntry{{Cron: "0 0 8 * * *", Policy: api.CostSaving}}},
			want: "schedule[0].cron"},
		"a day that does not exist": {spec: api.PolicySpec{Policies: Defaults(), Schedule: []api.ScheduleEntry{{Cron: "0 0 30 2 *", Policy: api.CostSaving}}},
			want: `schedule[0].cron: "0 0 30 2 *" never fires`},
		"29 February exists": {spec: api.PolicySpec{Policies: Defaults(), Schedule: []api.ScheduleEntry{{Cron: "0 0 29 2 *", Policy: api.CostSaving}}}},
		"a time zone inside the expression": {spec: api.PolicySpec{Policies: Defaults(), Schedule: []api.ScheduleEntry{{Cron: "TZ=Europe/London 0 8 * * *", Policy: api.CostSaving}}},
			want: "schedule[0].cron"},
		"a prefix on which cron panics": {spec: api.PolicySpec{Policies: Defaults(), Schedule: []api.ScheduleEntry{{Cron: "TZ=UTC", Policy: api.CostSaving}}},
			want: "schedule[0].cron"},
		"a hundred and one entries": {spec: api.PolicySpec{Policies: Defaults(), Schedule: slices.Repeat([]api.ScheduleEntry{{Cron: "0 8 * * *", Policy: api.CostSaving}}, 101)},
			want: "schedule: must have at most 100 entries, has 101"},
		"nothing to maximise": {spec: with(func(p *api.Policy) { p.Weights = api.Weights{} }), want: "policies.COST_SAVING.weights: must not all be 0"},
		"unknown time zone": {spec: api.PolicySpec{Policies: Defaults(), Schedule: []api.ScheduleEntry{{Cron: "0 8 * * *", TimeZone: "Berlin", Policy: api.CostSaving}}},
			want: `schedule[0].timeZone: "Berlin"`},
		"the machine's own zone is no zone": {spec: api.PolicySpec{Policies: Defaults(), Schedule: []api.ScheduleEntry{{Cron: "0 8 * * *", TimeZone: "Local", Policy: api.CostSaving}}},
			want: "schedule[0].timeZone"},
		"schedule for an unknown policy": {spec: api.PolicySpec{Policies: Defaults(), Schedule: []api.ScheduleEntry{{Cron: "0 8 * * *", Policy: "X"}}},
			want: "schedule[0].policy"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate(c.spec)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// Windows open by the clock of their time zone, and stay open for their time;
// what is closed says until when.
func TestWindows(t *testing.T) {
	night := api.Window{Cron: "0 1 * * *", TimeZone: "Europe/London", Duration: 4 * time.Hour}
	weekend := api.Window{Cron: "0 0 * * 6", Duration: 48 * time.Hour}
	for name, c := range map[string]struct {
		windows []api.Window
		now     string
		want    string
	}{
		"without windows it is always open":        {nil, "2026-07-01T12:00:00Z", ""},
		"one that begins in the hour left out":     {[]api.Window{{Cron: "30 1 * * *", TimeZone: "Europe/London", Duration: 4 * time.Hour}}, "2026-03-29T01:00:00Z", ""},
		"in summer one o'clock is midnight in UTC": {[]api.Window{night}, "2026-07-01T00:00:00Z", ""},
		"and five o'clock is over at four":         {[]api.Window{night}, "2026-07-01T04:00:00Z", "until 2026-07-02T01:00:00+01:00"},
		"in winter it is one in UTC":               {[]api.Window{night}, "2026-12-01T00:59:59Z", "until 2026-12-01T01:00:00Z"},
		"up to the last second":                    {[]api.Window{night}, "2026-12-01T04:59:59Z", ""},
		"one of two is enough":                     {[]api.Window{night, weekend}, "2026-12-06T15:00:00Z", ""},
		"of two closed ones the next is told":      {[]api.Window{weekend, night}, "2026-12-01T15:00:00Z", "until 2026-12-02T01:00:00Z"},
		"one that can't be read never opens":       {[]api.Window{{Cron: "x", Duration: time.Hour}}, "2026-12-01T15:00:00Z", "for good: none of them opens again"},
	} {
		t.Run(name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, c.now)
			if err != nil {
				t.Fatal(err)
			}
			p := Defaults()[api.CostSaving]
			p.Disruption.Windows = c.windows
			got := Decide(api.PolicySpec{Policies: map[string]api.Policy{p.Name: p}}, api.Snapshot{Time: now})
			if got.Disruption.Closed != c.want {
				t.Errorf("closed %q, want %q", got.Disruption.Closed, c.want)
			}
		})
	}
}
