package planning

import (
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// What DaemonSets use counts once it was read for an hour, no less than a quarter of what
// they request, and with what readings differ by.
func TestStanding(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	alternating := func(i int) *float64 { return at(100 + 20*float64(i%2*2-1)) }
	for name, c := range map[string]struct {
		read  func(minute int) *float64
		hours float64
		want  float64 // NaN: not known
	}{
		"never read":                         {func(int) *float64 { return nil }, 3, math.NaN()},
		"for less than an hour":              {func(int) *float64 { return at(100) }, 0.9, math.NaN()},
		"for longer":                         {func(int) *float64 { return at(100) }, 1.1, 100},
		"idle":                               {func(int) *float64 { return at(0) }, 2, 50},
		"no number":                          {func(int) *float64 { return at(math.NaN()) }, 2, math.NaN()},
		"readings that differ":               {alternating, 10, 140},
		"a reading that fails now and then":  {func(i int) *float64 { return map[bool]*float64{true: at(100)}[i%3 == 0] }, 2, 100},
		"none for an hour, and then again":   {func(i int) *float64 { return map[bool]*float64{true: at(100)}[i < 90 || i > 155] }, 3, math.NaN()},
		"none of late":                       {func(i int) *float64 { return map[bool]*float64{true: at(100)}[i < 150] }, 3, 100},
		"days ago more, and little since":    {func(i int) *float64 { return at(map[bool]float64{true: 180, false: 60}[i < 60]) }, 24 * 8, 64},
		"more than a day ago as much as now": {func(i int) *float64 { return at(map[bool]float64{true: 180, false: 60}[i < 24*60]) }, 48, 236},
	} {
		t.Run(name, func(t *testing.T) {
			var memory []Standing
			var pools []api.Pool
			for i := range int(c.hours * 60) {
				read := []api.Pool{{Name: "e2", StandingUsage: c.read(i), Overhead: api.Resources{MilliCPU: 200}}}
				before := read[0].StandingUsage
				pools, memory = standing(memory, marginNow.Add(time.Duration(i)*time.Minute), read)
				if read[0].StandingUsage != before {
					t.Fatal("the snapshot was written to")
				}
			}
			got := math.NaN()
			if used := pools[0].StandingUsage; used != nil {
				got = *used
			}
			if math.IsNaN(got) != math.IsNaN(c.want) || math.Abs(got-c.want) > 0.03*c.want {
				t.Errorf("%v, want %v; %+v", got, c.want, memory)
			}
		})
	}
}
