package sensing

import (
	"testing"
	"time"
)

// History comes from recorded series as far as they reach, and from the raw
// ones where they don't: whatever is recorded, the history is whole and right.
func TestRecordedHistory(t *testing.T) {
	always := time.Time{}
	for name, c := range map[string]struct {
		recorded map[string]time.Time
		matchers string
		// Queries over history: by recorded series that had something, and raw.
		wantRaw, wantRecorded bool
	}{
		"everything is recorded":         {recorded: map[string]time.Time{"Deployment/web": always, "Deployment/api": always}, wantRecorded: true},
		"nothing is":                     {wantRaw: true, wantRecorded: true},
		"the rules are an hour old":      {recorded: map[string]time.Time{"Deployment/web": epoch.Add(-time.Hour), "Deployment/api": epoch.Add(-time.Hour)}, wantRaw: true, wantRecorded: true},
		"one workload is not":            {recorded: map[string]time.Time{"Deployment/web": always}, wantRaw: true, wantRecorded: true},
		"one is older than the other":    {recorded: map[string]time.Time{"Deployment/web": always, "Deployment/api": epoch.Add(-time.Hour)}, wantRaw: true, wantRecorded: true},
		"several clusters in Prometheus": {recorded: map[string]time.Time{"Deployment/web": always}, matchers: `cluster="prod"`, wantRaw: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(cfg *Config) {
				cfg.RecordedUsage, cfg.Matchers = "mash2:recorded_usage:cores", c.matchers
				cfg.MaxPoints = 100 // several slices
			})
			w.recorded = c.recorded
			w.shop("web", 2)
			w.shop("api", 1)
			s := w.observe()
			for _, x := range s.Workloads {
				want := map[string]float64{"web": 400, "api": 200}[x.Key.Name]
				if n := len(x.Demand.Values); n != 480 {
					t.Errorf("%s: %d samples, want 480", x.Key.Name, n)
				}
				for i, v := range x.Demand.Values {
					if v != want {
						t.Fatalf("%s: sample %d is %v, want %v", x.Key.Name, i, v, want)
					}
				}
			}
			var raw, recorded bool
			for _, q := range w.asked() {
				raw = raw || q.history() && !q.recorded()
				recorded = recorded || q.recorded()
			}
			if raw != c.wantRaw || recorded != c.wantRecorded {
				t.Errorf("raw asked: %v, want %v; recorded asked: %v, want %v", raw, c.wantRaw, recorded, c.wantRecorded)
			}
		})
	}
}
