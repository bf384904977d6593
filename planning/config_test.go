package planning_test

import (
	"math"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/planning"
)

func TestConfigValidate(t *testing.T) {
	if err := planning.DefaultConfig().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	if err := planning.DefaultConfig().Scaled(10).Validate(); err != nil {
		t.Errorf("defaults ten times as fast: %v", err)
	}
	for name, change := range map[string]func(*planning.Config){
		"CyclePeriod":  func(c *planning.Config) { c.CyclePeriod = 0 },
		"Horizon":      func(c *planning.Config) { c.Horizon = c.CyclePeriod - 1 },
		"Tolerance":    func(c *planning.Config) { c.Tolerance = math.NaN() },
		"Packings":     func(c *planning.Config) { c.Packings = 0 },
		"MinSkillUp":   func(c *planning.Config) { c.MinSkillUp = c.MinSkill + 0.1 },
		"SwitchMargin": func(c *planning.Config) { c.SwitchMargin = -1 },
	} {
		c := planning.DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v doesn't name it", name, err)
		}
	}
	fast, slow := planning.DefaultConfig().Scaled(10), planning.DefaultConfig()
	if fast.CyclePeriod != slow.CyclePeriod/10 || fast.Stabilization != slow.Stabilization/10 {
		t.Errorf("ten times as fast: period %v, stabilization %v", fast.CyclePeriod, fast.Stabilization)
	}
}
