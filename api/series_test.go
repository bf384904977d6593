package api

import "testing"

// A share counts as too small or too large from more than two standard errors beyond.
func TestCoverageOutOfBounds(t *testing.T) {
	for name, c := range map[string]struct {
		coverage      *Coverage
		seldom, often bool
	}{
		"not known":                  {},
		"right":                      {coverage: &Coverage{Share: 0.5, Error: 0.125}},
		"two errors below the least": {coverage: &Coverage{Share: 0.25, Error: 0.125}},
		"more than two":              {coverage: &Coverage{Share: 0.25, Error: 0.12}, seldom: true},
		"two errors above the most":  {coverage: &Coverage{Share: 1, Error: 0.125}},
		"more than two above":        {coverage: &Coverage{Share: 1, Error: 0.12}, often: true},
		"for sure":                   {coverage: &Coverage{Share: 0.49}, seldom: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.coverage.TooSeldom(0.5); got != c.seldom {
				t.Errorf("too seldom: %v", got)
			}
			if got := c.coverage.TooOften(0.75); got != c.often {
				t.Errorf("too often: %v", got)
			}
		})
	}
}
