package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/serve/rest"
)

// TestAgents: the page starts and stops agents, and sends what was changed of them, nothing
// else.
func TestAgents(t *testing.T) {
	b := newBrowser(t)
	actor := &remembering{}
	url := served(t, &rest.Server{Store: filled(3, 6), Auth: rest.Everybody{}, Actor: actor})
	hear(b, page.JavascriptDialogOpening, func(*page.EventJavascriptDialogOpening) {
		if _, err := chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}); err != nil {
			t.Error(err)
		}
	})
	wants := func(what, text string) {
		t.Helper()
		for range 600 {
			if got := actor.last(); got == text {
				return
			}
			b.until(`true`)
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("%s: %s, want %s", what, actor.last(), text)
	}
	button := func(text string) {
		b.until(`[...document.querySelectorAll("main button")].some((x) => x.textContent === "` + text + `")`)
		b.run(`setTimeout(() => [...document.querySelectorAll("main button")].find((x) => x.textContent === "` + text + `").click())`)
	}
	b.open(url + "#/workload/pay/web-2")
	b.until(`document.querySelector("main form") !== null`)
	b.run(`document.querySelector("main h1").id = "before"`)
	button("Stop")
	wants("stopped", `pay/web-2 {"run":false}`)
	b.until(`document.getElementById("before") === null`) // what was done is shown
	b.until(`(document.querySelector("main form").closest("details").open = true)`)
	b.run(`document.querySelector('main form input[type="text"]').value = "1500m"`)
	b.run(`document.querySelector("main form select").value = ""`)
	b.run(`document.querySelectorAll('main form input[type="number"]')[1].value = 80`)
	for _, wrong := range b.axe() {
		t.Error(wrong)
	}
	b.shot("agents-form")
	button("Change")
	wants("changed", `pay/web-2 {"cpu":"1500m","model":null,"priorities":[{"pod":"web-2-b","percent":80}]}`)
	b.clean()
}

// remembering is an actor who notes what is asked of agents.
type remembering struct {
	refusing
	mu   sync.Mutex
	said string
}

func (r *remembering) SetAgents(_ context.Context, _ *http.Request, key api.Key, change map[string]any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := json.Marshal(change)
	r.said = key.String() + " " + string(text)
	return err
}

func (r *remembering) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said
}
