package demand

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

func TestReadings(t *testing.T) {
	const window = 15 * time.Second
	type read struct {
		pod Pod
		v   float64
	}
	old := Pod{Ready: true, ReadyAt: noon.Add(-time.Hour), New: true}
	young := Pod{Ready: true, ReadyAt: noon.Add(-10 * time.Second), New: true}
	recovered := Pod{Ready: true, ReadyAt: noon.Add(-10 * time.Second)}
	starting := Pod{Starting: noon.Add(-time.Minute)}
	died := Pod{Starting: noon.Add(5 * time.Second)}
	again := Pod{Starting: noon.Add(5 * time.Second), Again: true}
	unwell := Pod{}
	of := func(v float64, pods int32) *api.Usage {
		return &api.Usage{At: noon, Window: window, MilliCPU: v, Pods: pods}
	}
	for name, c := range map[string]struct {
		reads []read
		want  *api.Usage
	}{
		"none":                             {},
		"of all":                           {[]read{{old, 100}, {old, 200}}, of(300, 2)},
		"one starts":                       {[]read{{old, 100}, {starting, 1000}}, of(100, 1)},
		"one had just started":             {[]read{{old, 100}, {young, 1000}}, of(100, 1)},
		"and has used no more":             {[]read{{young, 120}, {old, 100}}, of(220, 2)},
		"as much more as may be by chance": {[]read{{young, 130}, {old, 100}}, of(230, 2)},
		"and no more":                      {[]read{{young, 131}, {old, 100}}, of(100, 1)},
		"all had just started":             {[]read{{young, 1000}}, nil},
		"one answers no more":              {[]read{{old, 100}, {unwell, 1000}}, of(1100, 2)},
		"one recovered":                    {[]read{{old, 100}, {recovered, 1000}}, of(1100, 2)},
		"one served until it died":         {[]read{{old, 100}, {died, 90}}, of(190, 2)},
		"and was started again":            {[]read{{old, 100}, {again, 90}}, of(190, 2)},
		"which took much":                  {[]read{{old, 100}, {again, 900}}, of(100, 1)},
		"alone":                            {[]read{{again, 90}}, nil},
		"who is unwell is no yardstick":    {[]read{{unwell, 1000}, {young, 500}}, of(1000, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			var r Readings
			for _, read := range c.reads {
				r.Add(read.pod, noon, window, read.v)
			}
			for range 2 {
				if diff := cmp.Diff(c.want, r.Usage()); diff != "" {
					t.Errorf("usage (-want +got):\n%s", diff)
				}
			}
		})
	}
}
