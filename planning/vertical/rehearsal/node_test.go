package rehearsal

import (
	"math"
	"testing"
)

// TestServe: more CPU answers sooner; what can't be done waits and is done later.
func TestServe(t *testing.T) {
	var a, b State
	a.Rate, b.Rate = 50, 50
	a.serve(50, 0.6, 8, 0.01)
	b.serve(50, 0.9, 8, 0.01)
	if !(a.Response > b.Response) || !(b.Response >= 0.01) {
		t.Errorf("with 0.6 cores %g s, with 0.9 %g s", a.Response, b.Response)
	}
	if used := a.serve(50, 0.3, 8, 0.01); math.Abs(used-0.3) > 1e-9 || math.Abs(a.Backlog-0.2) > 1e-9 {
		t.Errorf("used %g, backlog %g", used, a.Backlog)
	}
	a.Rate = 0
	if used := a.serve(0, 0.3, 8, 0.01); math.Abs(used-0.2) > 1e-9 || a.Backlog > 1e-9 {
		t.Errorf("used %g, backlog %g", used, a.Backlog)
	}
}
