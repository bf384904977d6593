package clusterapi_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/clusterapi"
	"github.com/mash2-io/mash2/execution/provider"
)

// TestMarksAndSizes: a Machine bears mash2's mark only while it is to go, somebody else's mark and
// somebody else's size stay. Three Machines, a, b and c, and three replicas to begin with.
func TestMarksAndSizes(t *testing.T) {
	apply := func(a api.Action) func(*testing.T, *fake, *clusterapi.Provider) error {
		return func(t *testing.T, _ *fake, p *clusterapi.Provider) error { return p.Apply(t.Context(), a) }
	}
	refused := func(status int, then api.Action) func(*testing.T, *fake, *clusterapi.Provider) error {
		return func(t *testing.T, f *fake, p *clusterapi.Provider) error {
			f.refuse = status
			return p.Apply(t.Context(), then)
		}
	}
	marked := func(machine, by string, replicas int) func(*testing.T, *fake, *clusterapi.Provider) error {
		return func(_ *testing.T, f *fake, _ *clusterapi.Provider) error {
			f.mark(machine, by)
			of(f.deployments["fast"], "spec")["replicas"] = replicas
			return nil
		}
	}
	grown := func(_ *testing.T, f *fake, _ *clusterapi.Provider) error {
		of(f.deployments["fast"], "spec")["replicas"] = 10
		return nil
	}
	type steps = []func(*testing.T, *fake, *clusterapi.Provider) error
	for name, c := range map[string]struct {
		steps steps // the last may fail, others' errors count for nothing
		want  string
		err   error
		says  string
	}{
		"a removal marks and asks for one less":         {steps: steps{apply(removal("a"))}, want: "2 a by mash2"},
		"the same once more, before anything is done":   {steps: steps{apply(removal("a")), apply(removal("a"))}, want: "2 a by mash2"},
		"another beside it":                             {steps: steps{apply(removal("a")), apply(removal("b"))}, want: "1 a by mash2 b by mash2"},
		"killed between the mark and the scaling":       {steps: steps{marked("a", "mash2", 3), apply(removal("a"))}, want: "2 a by mash2"},
		"a scaling that is refused takes its mark back": {steps: steps{refused(http.StatusForbidden, removal("a"))}, want: "3", err: provider.ErrPermission},
		"one that may have been done does not":          {steps: steps{refused(http.StatusInternalServerError, removal("a"))}, want: "3 a by mash2", err: provider.ErrUnavailable},
		"but another removal does, as it was not":       {steps: steps{refused(http.StatusInternalServerError, removal("a")), apply(removal("b"))}, want: "2 b by mash2"},
		"and so does a growth":                          {steps: steps{refused(http.StatusInternalServerError, removal("a")), apply(api.ResizePool{Pool: "fast", From: 3, To: 4})}, want: "4"},
		"a node that is wanted again stays":             {steps: steps{apply(removal("a")), apply(api.ResizePool{Pool: "fast", From: 2, To: 3})}, want: "3"},
		"and another can be removed":                    {steps: steps{apply(removal("a")), apply(api.ResizePool{Pool: "fast", From: 2, To: 3}), apply(removal("b"))}, want: "2 b by mash2"},
		"one goes of two, and it is not known which": {
			steps: steps{marked("a", "mash2", 3), marked("b", "mash2", 2), apply(removal("b"))},
			want:  "2 a by mash2 b by mash2", err: provider.ErrBusy, says: "2 of them marked to go",
		},
		"somebody else's mark is waited for": {
			steps: steps{marked("c", "true", 3), apply(removal("a"))},
			want:  "3 c by true", err: provider.ErrBusy, says: "Machine c bears the annotation cluster.x-k8s.io/delete-machine",
		},
		"a node that somebody else has marked may go": {steps: steps{marked("c", "true", 3), apply(removal("c"))}, want: "2 c by true"},
		"while somebody else removes one":             {steps: steps{marked("c", "true", 2), apply(removal("a"))}, want: "1 a by mash2 c by true"},
		"a growth leaves somebody else's mark":        {steps: steps{marked("c", "true", 3), apply(api.ResizePool{Pool: "fast", From: 3, To: 4})}, want: "4 c by true"},
		"a pool that grows keeps its nodes":           {steps: steps{grown, apply(removal("a"))}, want: "10", err: provider.ErrBusy},
		"a growth asked for twice":                    {steps: steps{apply(api.ResizePool{Pool: "fast", From: 3, To: 4}), apply(api.ResizePool{Pool: "fast", From: 3, To: 4})}, want: "4"},
		"somebody has grown the pool further": {
			steps: steps{grown, apply(api.ResizePool{Pool: "fast", From: 3, To: 4})}, want: "10", err: provider.ErrBusy, says: "somebody else has asked for 10",
		},
		"and just before mash2 does": {
			steps: steps{func(t *testing.T, f *fake, p *clusterapi.Provider) error {
				f.before = func() {
					if code, _ := f.scale("fast", object{"metadata": object{}, "spec": object{"replicas": 10.0}}); code != http.StatusOK {
						t.Errorf("%d", code)
					}
				}
				return p.Apply(t.Context(), api.ResizePool{Pool: "fast", From: 3, To: 4})
			}},
			want: "10", err: provider.ErrBusy,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newFake(t, 3)
			var err error
			for _, step := range c.steps {
				err = step(t, f, p)
			}
			if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %v, saying %q", err, c.err, c.says)
			}
			if got := f.state(); got != c.want {
				t.Errorf("replicas and marks %q, want %q", got, c.want)
			}
		})
	}
}
