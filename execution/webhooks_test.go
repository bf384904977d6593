package execution_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
)

// TestWebhooks: each turn of a rule is told once, while it is fresh, not before it is due
// again and not too many at once; what nobody takes is said.
func TestWebhooks(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	shop := api.Key{Namespace: "shop", Name: "a"}
	action := func(since time.Duration) api.StrategyAction {
		return api.StrategyAction{
			Kind: api.ActionCallWebhook, Strategy: shop, Rule: "crowd", URL: "https://hooks.example.com/token", Since: now.Add(-since), Reason: "visitors > 5 is true",
		}
	}
	sequence := func(deliveries []api.Delivery, actions ...api.StrategyAction) ([]api.CallWebhook, []api.Finding) {
		s := api.Snapshot{Time: now}
		s.Context.Strategies = []api.Strategy{{Key: api.Key{Namespace: "shop", Name: "other"}}, {Key: shop, Deliveries: deliveries}}
		all, findings := execution.Sequence(s, api.Plan{}, api.Policy{Name: "P", StrategyActions: actions})
		var out []api.CallWebhook
		for _, a := range all {
			out = append(out, a.(api.CallWebhook))
		}
		return out, findings
	}
	calls, _ := sequence(nil, action(time.Minute))
	if len(calls) != 1 || calls[0].URL != "https://hooks.example.com/token" || calls[0].String() != "call the webhook of hooks.example.com for rule crowd: visitors > 5 is true" {
		t.Fatalf("%+v", calls)
	}
	var body struct {
		Type      string
		Timestamp time.Time
		Data      map[string]string
	}
	if err := json.Unmarshal([]byte(calls[0].Body), &body); err != nil || body.Type != "mash2.rule.on" || !body.Timestamp.Equal(now.Add(-time.Minute)) ||
		fmt.Sprint(body.Data) != "map[namespace:shop policy:P reason:visitors > 5 is true rule:crowd strategy:a]" {
		t.Errorf("%v: %s", err, calls[0].Body)
	}
	id := calls[0].ID
	if again, _ := sequence(nil, action(2*time.Minute)); again[0].ID == id {
		t.Error("another turn has the same id")
	}
	shadow := action(time.Minute)
	shadow.NotDone = "mode is Shadow"
	old := action(11 * time.Minute)
	oldCalls, _ := sequence(nil, action(10*time.Minute))
	if len(oldCalls) != 1 {
		t.Error("ten minutes are too long")
	}
	oldID := ""
	for name, c := range map[string]struct {
		deliveries []api.Delivery
		action     api.StrategyAction
		calls      int
		finding    string
	}{
		"in Shadow":           {nil, shadow, 0, ""},
		"delivered":           {[]api.Delivery{{ID: id, Done: now}}, action(time.Minute), 0, ""},
		"another delivered":   {[]api.Delivery{{ID: "msg_x", Done: now}}, action(time.Minute), 1, ""},
		"not due again":       {[]api.Delivery{{ID: id, Attempts: 1, Next: now.Add(time.Second)}}, action(time.Minute), 0, ""},
		"due again":           {[]api.Delivery{{ID: id, Attempts: 1, Next: now}}, action(time.Minute), 1, ""},
		"on before a restart": {nil, old, 0, ""},
		"another kind":        {nil, api.StrategyAction{Kind: api.ActionMove}, 0, ""},
	} {
		calls, findings := sequence(c.deliveries, c.action)
		if len(calls) != c.calls || len(findings) != 0 {
			t.Errorf("%s: %d calls, findings %v", name, len(calls), findings)
		}
	}
	// The id of the old turn, by asking while it was fresh.
	s := api.Snapshot{Time: now.Add(-5 * time.Minute)}
	fresh, _ := execution.Sequence(s, api.Plan{}, api.Policy{StrategyActions: []api.StrategyAction{old}})
	oldID = fresh[0].(api.CallWebhook).ID
	calls, findings := sequence([]api.Delivery{{ID: oldID, Attempts: 7, Error: "it answers 502"}}, old)
	if len(calls) != 0 || len(findings) != 1 || findings[0].Reason != "WebhookNotDelivered" || findings[0].Object != api.StrategyRef(shop) ||
		findings[0].Message != "crowd wants a call of hooks.example.com: given up after 10m0s and 7 attempts: it answers 502" {
		t.Errorf("%v, %+v", calls, findings)
	}
	var many []api.StrategyAction
	for i := range 20 {
		a := action(time.Minute)
		a.Rule = fmt.Sprint(i)
		many = append(many, a)
	}
	if calls, _ := sequence(nil, many...); len(calls) != 8 {
		t.Errorf("%d calls at once", len(calls))
	}
}

// One namespace's calls don't keep those of another waiting, however many these are and
// whatever their priority is.
func TestWebhooksOfAllNamespacesTakeTurns(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	const quiet = "quiet"
	for name, loud := range map[string]int{"a loud namespace": 1, "more loud ones than calls at once": 20} {
		called := map[string]int{}
		for cycle := range 40 {
			s := api.Snapshot{Time: now.Add(time.Duration(cycle) * 15 * time.Second)}
			var actions []api.StrategyAction
			for i := range 10 * loud { // their rules turn on again and again
				of := api.Key{Namespace: fmt.Sprint("loud-", i%loud), Name: "a"}
				actions = append(actions, api.StrategyAction{Kind: api.ActionCallWebhook, Strategy: of, Rule: fmt.Sprint(i), URL: "https://hooks.example.com/l", Since: s.Time})
			}
			last := api.StrategyAction{Kind: api.ActionCallWebhook, Strategy: api.Key{Namespace: quiet, Name: "a"}, Rule: "crowd", URL: "https://hooks.example.com/v", Since: now}
			calls, _ := execution.Sequence(s, api.Plan{}, api.Policy{Name: "P", StrategyActions: append(actions, last)})
			if len(calls) != 8 {
				t.Fatalf("%s: %d calls at once", name, len(calls))
			}
			ofFirst := -1
			for _, c := range calls {
				call := c.(api.CallWebhook)
				called[call.Strategy.Namespace]++
				var rule int
				if _, err := fmt.Sscan(call.Rule, &rule); err == nil && call.Strategy.Namespace == "loud-0" {
					if rule <= ofFirst {
						t.Errorf("%s: rule %d after %d, which is of less priority", name, rule, ofFirst)
					}
					ofFirst = rule
				}
			}
		}
		if len(called) != loud+1 || called[quiet] < 5 {
			t.Errorf("%s: calls %v", name, called)
		}
	}
}

// A call that was never tried is told, too, if this process would know of it.
func TestWebhookThatWasNeverTried(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	shop := api.Key{Namespace: "shop", Name: "a"}
	for name, c := range map[string]struct {
		since, watched time.Duration // ago
		told           bool
	}{
		"its window has passed":          {11 * time.Minute, 12 * time.Minute, true},
		"it was on before this process":  {11 * time.Minute, 5 * time.Minute, false},
		"calls of then are forgotten":    {61 * time.Minute, 5 * time.Hour, false},
		"its window has not passed":      {9 * time.Minute, 12 * time.Minute, false},
		"it is not known who made calls": {11 * time.Minute, 0, false},
	} {
		s := api.Snapshot{Time: now}
		s.Context.Strategies = []api.Strategy{{Key: shop}}
		if c.watched > 0 {
			s.Context.Strategies[0].CallsSince = now.Add(-c.watched)
		}
		_, findings := execution.Sequence(s, api.Plan{}, api.Policy{StrategyActions: []api.StrategyAction{
			{Kind: api.ActionCallWebhook, Strategy: shop, Rule: "crowd", URL: "https://hooks.example.com/v", Since: now.Add(-c.since)},
		}})
		if told := len(findings) == 1 && findings[0].Reason == "WebhookNotDelivered" && strings.Contains(findings[0].Message, "10m0s and no attempt"); told != c.told || len(findings) > 1 {
			t.Errorf("%s: %+v", name, findings)
		}
	}
}
