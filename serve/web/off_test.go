package web_test

import (
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/serve/rest"
)

// A workload that was turned off has its page, with what turns it on again.
func TestAWorkloadThatIsOff(t *testing.T) {
	store := filled(3, 6)
	r := cycle(4, 6)
	r.Snapshot.Workloads[0].Mode = api.ModeOff
	r.Cycle.Plan.Workloads = r.Cycle.Plan.Workloads[1:]
	r.Cycle.Pools, r.Cycle.Workloads = api.Observed(r.Snapshot, r.Cycle.Policy)
	store.Add(r)
	b := newBrowser(t)
	b.open(served(t, &rest.Server{Store: store, Auth: rest.Everybody{}, Actor: &remembering{}}) + "#/workload/" + r.Snapshot.Workloads[0].Key.String())
	b.until(`[...document.querySelectorAll("main button")].some((x) => x.textContent === "Full")`)
	if got := b.text(`main button[aria-pressed="true"]`); got != "Off" {
		t.Errorf("its mode is %q, want Off", got)
	}
	for _, wrong := range b.axe() {
		t.Error(wrong)
	}
	b.shot("off")
	b.clean()
}
