package planning

import (
	"fmt"
	"math"
	"strconv"

	"github.com/mash2-io/mash2/api"
)

// How often the 90 % interval of a forecast that may lower replicas held, beyond two
// standard errors of what was seen. Of one that held less often it isn't known how much
// more than said may come, and one that held more often says too much.
const (
	LeastCoverage = 0.85
	MostCoverage  = 0.95
)

// trust decides what a forecast may be used for.
func trust(f api.Forecast, c Config) Outlook {
	skill := &api.ForecastSkill{Model: f.Model, LastValue: known(f.Skill), Seasonal: known(f.SeasonalSkill), Trust: api.TrustNone}
	if f.Coverage != nil {
		skill.Coverage = &f.Coverage.Share
	}
	switch {
	case math.IsNaN(f.Skill):
		return Outlook{Note: "forecast not used: too little history to know its skill", Skill: skill}
	case f.Skill <= c.MinSkillUp:
		has, least := toldApart(f.Skill, c.MinSkillUp)
		return Outlook{Note: fmt.Sprintf("forecast not used: its skill is %s, not above %s", has, least), Skill: skill}
	}
	skill.Trust = api.TrustUp
	if v := f.Coverage; v.TooSeldom(LeastCoverage) || v.TooOften(MostCoverage) {
		return Outlook{Forecast: &f, Skill: skill, Note: fmt.Sprintf(
			"forecast may not lower replicas: %.0f %% of what came was within its interval of 90 %%, not %.0f–%.0f %%",
			100*v.Share, 100*LeastCoverage, 100*MostCoverage)}
	}
	if f.Skill >= c.MinSkill {
		skill.Trust = api.TrustFull
		return Outlook{Forecast: &f, Trusted: true, Skill: skill}
	}
	has, least := toldApart(f.Skill, c.MinSkill)
	return Outlook{Forecast: &f, Skill: skill, Note: fmt.Sprintf("forecast may not lower replicas: its skill is %s, not %s", has, least)}
}

// toldApart writes two numbers with two digits after the point, or as many as it takes to
// tell them apart.
func toldApart(a, b float64) (string, string) {
	for digits := 2; ; digits++ {
		x, y := strconv.FormatFloat(a, 'f', digits, 64), strconv.FormatFloat(b, 'f', digits, 64)
		if x != y || a == b || digits > 15 {
			return x, y
		}
	}
}
