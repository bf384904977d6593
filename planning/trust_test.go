package planning

import (
	"math"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
)

// What a forecast may do follows from its skill against the last value, and from how often
// its interval held.
func TestTrust(t *testing.T) {
	config := DefaultConfig()
	config.MinSkillUp, config.MinSkill = 0.1, 0.4
	for name, c := range map[string]struct {
		skill                  float64
		coverage               *api.Coverage
		wantTrust              api.Trust
		wantForecast, wantDown bool
		wantNote               string
	}{
		"not known":             {skill: math.NaN(), wantTrust: api.TrustNone, wantNote: "too little history"},
		"worse than nothing":    {skill: -0.5, wantTrust: api.TrustNone, wantNote: "its skill is -0.50, not above 0.10"},
		"just not enough":       {skill: 0.1, wantTrust: api.TrustNone, wantNote: "its skill is 0.10, not above 0.10"},
		"enough to raise":       {skill: 0.11, wantTrust: api.TrustUp, wantForecast: true, wantNote: "may not lower replicas"},
		"just not enough for":   {skill: 0.39, wantTrust: api.TrustUp, wantForecast: true, wantNote: "may not lower replicas"},
		"a thousandth short":    {skill: 0.3996, wantTrust: api.TrustUp, wantForecast: true, wantNote: "its skill is 0.3996, not 0.4000"},
		"enough to lower":       {skill: 0.4, wantTrust: api.TrustFull, wantForecast: true, wantDown: true},
		"perfect":               {skill: 1, wantTrust: api.TrustFull, wantForecast: true, wantDown: true},
		"its interval holds":    {skill: 1, coverage: &api.Coverage{Share: 0.9, Error: 0.02}, wantTrust: api.TrustFull, wantForecast: true, wantDown: true},
		"it may hold":           {skill: 1, coverage: &api.Coverage{Share: 0.82, Error: 0.02}, wantTrust: api.TrustFull, wantForecast: true, wantDown: true},
		"it holds too seldom":   {skill: 1, coverage: &api.Coverage{Share: 0.8, Error: 0.02}, wantTrust: api.TrustUp, wantForecast: true, wantNote: "80 % of what came was within its interval of 90 %, not 85–95 %"},
		"perhaps not too often": {skill: 1, coverage: &api.Coverage{Share: 0.98, Error: 0.02}, wantTrust: api.TrustFull, wantForecast: true, wantDown: true},
		"it holds too often":    {skill: 1, coverage: &api.Coverage{Share: 0.98, Error: 0.01}, wantTrust: api.TrustUp, wantForecast: true, wantNote: "98 % of what came"},
		"it holds, to no avail": {skill: 0.3, coverage: &api.Coverage{Share: 0.9, Error: 0.02}, wantTrust: api.TrustUp, wantForecast: true, wantNote: "its skill is 0.30, not 0.40"},
		"too seldom, no skill":  {skill: 0, coverage: &api.Coverage{Share: 0.5, Error: 0.02}, wantTrust: api.TrustNone, wantNote: "its skill is"},
	} {
		t.Run(name, func(t *testing.T) {
			got := trust(api.Forecast{Model: "m", Skill: c.skill, SeasonalSkill: 0.2, Coverage: c.coverage}, config)
			if (got.Forecast != nil) != c.wantForecast || got.Trusted != c.wantDown {
				t.Errorf("forecast given %v, trusted %v; want %v and %v", got.Forecast != nil, got.Trusted, c.wantForecast, c.wantDown)
			}
			if got.Skill == nil || got.Skill.Trust != c.wantTrust || got.Skill.Model != "m" || *got.Skill.Seasonal != 0.2 {
				t.Errorf("skill is told as %+v, want %s", got.Skill, c.wantTrust)
			}
			if (got.Skill.LastValue == nil) != math.IsNaN(c.skill) {
				t.Errorf("skill against the last value is told as %v, it is %v", got.Skill.LastValue, c.skill)
			}
			if (got.Skill.Coverage == nil) != (c.coverage == nil) || c.coverage != nil && *got.Skill.Coverage != c.coverage.Share {
				t.Errorf("coverage is told as %v", got.Skill.Coverage)
			}
			if (c.wantNote == "") != (got.Note == "") || !strings.Contains(got.Note, c.wantNote) {
				t.Errorf("note %q, want one with %q", got.Note, c.wantNote)
			}
		})
	}
}

// Only where a trusted forecast sees every demand input may a plan look ahead
// instead of back.
func TestLooksAhead(t *testing.T) {
	yes, no := Outlook{Trusted: true}, Outlook{}
	cpu := api.Workload{Replicas: 1}
	both := api.Workload{Replicas: 1, Triggers: []api.Trigger{{Name: "queue"}}}
	trigger := api.Workload{Replicas: 1, IgnoreCPU: true, Triggers: []api.Trigger{{Name: "queue"}}}
	two := api.Workload{Replicas: 1, IgnoreCPU: true, Triggers: []api.Trigger{{Name: "queue"}, {Name: "lag"}}}
	for name, c := range map[string]struct {
		mw   managed
		want bool
	}{
		"CPU, not trusted":                          {mw: managed{workload: cpu}},
		"CPU, trusted":                              {mw: managed{workload: cpu, trusted: true}, want: true},
		"CPU trusted, its trigger not":              {mw: managed{workload: both, trusted: true, outlooks: []Outlook{no}}},
		"its trigger trusted, CPU not":              {mw: managed{workload: both, outlooks: []Outlook{yes}}},
		"both trusted":                              {mw: managed{workload: both, trusted: true, outlooks: []Outlook{yes}}, want: true},
		"only a trigger, trusted":                   {mw: managed{workload: trigger, outlooks: []Outlook{yes}}, want: true},
		"only a trigger, not trusted":               {mw: managed{workload: trigger, outlooks: []Outlook{no}}},
		"one of two triggers trusted":               {mw: managed{workload: two, outlooks: []Outlook{yes, no}}},
		"only a trigger, of which nothing is known": {mw: managed{workload: trigger}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.mw.looksAhead(); got != c.want {
				t.Errorf("looksAhead is %v, want %v", got, c.want)
			}
		})
	}
}
