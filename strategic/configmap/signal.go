package configmap

import (
	"errors"
	"fmt"
	"time"

	"github.com/mash2-io/mash2/api"
)

// fileSignal is one signal; pointers tell what is left out.
type fileSignal struct {
	Name         string          `json:"name"`
	Prometheus   *filePrometheus `json:"prometheus"`
	ConfigMapKey string          `json:"configMapKey"`
	Above        *float64        `json:"above"`
	Below        *float64        `json:"below"`
	Until        *float64        `json:"until"`
	Equals       *string         `json:"equals"`
	Policy       string          `json:"policy"`
	MinStay      duration        `json:"minStay"`
}

type filePrometheus struct {
	Query string `json:"query"`
}

// signal is what strategic.Validate then looks at. The error is of fields that exclude one
// another, which can't be told later.
func (f fileSignal) signal(path string) (api.Signal, error) {
	out := api.Signal{Name: f.Name, Key: f.ConfigMapKey, Policy: f.Policy, MinStay: time.Duration(f.MinStay)}
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s.%s: %s", path, field, fmt.Sprintf(format, args...)))
	}
	if f.Prometheus != nil {
		if out.Query = f.Prometheus.Query; out.Query == "" {
			bad("prometheus.query", "is required")
		}
	}
	stated := 0
	for _, c := range []struct {
		compare api.SignalCompare
		value   *float64
	}{{api.CompareAbove, f.Above}, {api.CompareBelow, f.Below}} {
		if c.value != nil {
			out.Compare, out.On, out.Off = c.compare, *c.value, *c.value
			stated++
		}
	}
	if f.Equals != nil {
		out.Compare, out.Text = api.CompareEquals, *f.Equals
		stated++
	}
	if stated > 1 {
		bad(string(out.Compare), "a signal has only one of above, below and equals")
	}
	switch {
	case f.Until == nil:
	case f.Equals != nil:
		bad("until", "is for above and below")
	default:
		out.Off = *f.Until
	}
	return out, errors.Join(errs...)
}
