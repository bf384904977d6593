package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/sensing"
)

// TestDefaultConfig: the defaults can be used, and what follows from how demand
// is read follows from how sensing reads it by default.
func TestDefaultConfig(t *testing.T) {
	c := core.DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	sense := sensing.DefaultConfig()
	if want := core.MetricDelay(sense.Step, sense.RateWindow); c.Planning.MetricDelay != want {
		t.Errorf("MetricDelay is %v, sensing's defaults make it %v", c.Planning.MetricDelay, want)
	}
	if c.Planning.Averaging != sense.RateWindow {
		t.Errorf("Averaging is %v, sensing's rate window %v", c.Planning.Averaging, sense.RateWindow)
	}
	fast := c.Faster(10)
	if err := fast.Validate(); err != nil {
		t.Fatal(err)
	}
	if fast.WakeGap != c.WakeGap/10 || fast.Planning.CyclePeriod != c.Planning.CyclePeriod/10 || fast.ActionTimeout != c.ActionTimeout {
		t.Errorf("ten times faster: %+v", fast)
	}
}

func TestValidate(t *testing.T) {
	found := func(string) (forecast.Forecaster, error) { return forecast.Naive{}, nil }
	for name, c := range map[string]struct {
		change  func(*core.Config)
		wantErr string // part of it; none if empty
	}{
		"nothing forecasts":              {func(c *core.Config) { c.Forecaster = "" }, ""},
		"the solver that suits":          {func(c *core.Config) { c.Solver = "" }, ""},
		"a forecaster to compare with":   {func(c *core.Config) { c.Forecaster = "dsp" }, `Forecaster: unknown forecast model "dsp" (have ["auto" "quick" `},
		"a forecaster of an experiment":  {func(c *core.Config) { c.Forecaster, c.FindForecaster = "dsp", found }, ""},
		"a forecaster nobody knows":      {func(c *core.Config) { c.Forecaster = "oracle" }, `Forecaster: unknown forecast model "oracle"`},
		"a solver nobody knows":          {func(c *core.Config) { c.Solver = "oracle" }, `Solver "oracle" is not in this build`},
		"no time for an action":          {func(c *core.Config) { c.ActionTimeout = 0 }, "ActionTimeout must be positive"},
		"cycles without end":             {func(c *core.Config) { c.Planning.CyclePeriod = 0 }, "CyclePeriod must be positive"},
		"a horizon shorter than a cycle": {func(c *core.Config) { c.Planning.Horizon = time.Second }, "Horizon must be CyclePeriod or more"},
		"fewer actions than none":        {func(c *core.Config) { c.Parallel = -1 }, "Parallel must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := core.DefaultConfig()
			c.change(&cfg)
			_, err := cfg.Hierarchy()
			switch {
			case c.wantErr == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)):
				t.Errorf("error %v, want one with %q", err, c.wantErr)
			}
		})
	}
}
