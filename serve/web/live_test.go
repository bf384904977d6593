package web_test

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/serve/rest"
)

// TestPageSaysThatCyclesStopped: an operator that hangs keeps the line and sends no cycle. The
// page says so by itself, and takes it back when cycles come again.
func TestPageSaysThatCyclesStopped(t *testing.T) {
	b := newBrowser(t)
	const period = 250 * time.Millisecond // it is late after twenty
	s := rest.NewStore(rest.Config{Program: "v1", Period: period})
	id := uint64(0)
	ends := func() {
		id++
		r := cycle(id, 3)
		r.Cycle.Time = time.Now()
		s.Add(r)
	}
	says := func(status, late string) string {
		return `document.getElementById("status").textContent === "` + status + `" && document.getElementById("banner").textContent.includes("The newest cycle is of ") === ` + late
	}
	// Cycles end until the page says that it is live: a slow machine is late itself.
	live := func() {
		t.Helper()
		for range 600 {
			ends()
			time.Sleep(period)
			if value[bool](b, says("live", "false")) {
				return
			}
		}
		t.Fatalf("cycles end, and the page says %q", b.text("#status"))
	}
	ends()
	b.open(served(t, &rest.Server{Store: s, Auth: rest.Everybody{}}))
	live()
	b.until(says("connected, but no new cycle", "true"))
	live()
	b.clean()
}
