package execution

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

const (
	// webhookWindow is how long after its rule turned on a call is tried. It bounds what a
	// process that doesn't know what the last one delivered says again.
	webhookWindow = 10 * time.Minute
	// webhooksAtOnce is how many calls one cycle makes.
	webhooksAtOnce = 8
	// webhookTold is for how long after its rule turned on it is told that a call was never
	// tried: as long as it is known what became of calls.
	webhookTold = time.Hour
)

// webhookBody is what is posted.
type webhookBody struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // when the rule turned on
	Data      struct {
		Namespace string `json:"namespace"`
		Strategy  string `json:"strategy"`
		Rule      string `json:"rule"`
		Reason    string `json:"reason"`
		Policy    string `json:"policy"` // in force
	} `json:"data"`
}

// webhooks are the calls that strategies want and that were not taken yet, and what is to be
// said of those that are not taken.
func webhooks(s api.Snapshot, policy api.Policy) (out []api.Action, findings []api.Finding) {
	var due []api.CallWebhook
	for _, a := range policy.StrategyActions {
		if a.Kind != api.ActionCallWebhook || a.NotDone != "" {
			continue
		}
		id := webhookID(a)
		last, since := delivery(s, a.Strategy, id)
		givenUp := func(why string) {
			findings = append(findings, api.Finding{
				Severity: api.Warning, Agent: api.StrategicAgent, Reason: "WebhookNotDelivered", Object: api.StrategyRef(a.Strategy),
				Message: fmt.Sprintf("%s wants %s: given up after %v and %s", a.Rule, a.What(), webhookWindow, why),
			})
		}
		switch {
		case !last.Done.IsZero():
		case s.Time.Sub(a.Since) > webhookWindow:
			if last.Attempts > 0 {
				givenUp(fmt.Sprintf("%d attempts: %s", last.Attempts, last.Error))
			} else if !since.IsZero() && since.Before(a.Since) && s.Time.Sub(a.Since) <= webhookTold {
				givenUp("no attempt: other calls came first, or mash2 made none then")
			}
		case s.Time.Before(last.Next):
		default:
			b := webhookBody{Type: "mash2.rule.on", Timestamp: a.Since.UTC()}
			b.Data.Namespace, b.Data.Strategy, b.Data.Rule, b.Data.Reason, b.Data.Policy = a.Strategy.Namespace, a.Strategy.Name, a.Rule, a.Reason, policy.Name
			body, err := json.Marshal(b)
			if err != nil {
				continue // strings and a time always can be
			}
			due = append(due, api.CallWebhook{Strategy: a.Strategy, Rule: a.Rule, ID: id, URL: a.URL, Body: string(body), Reason: a.Reason})
		}
	}
	for _, call := range inTurn(due, s.Time) {
		out = append(out, call)
	}
	return out, findings
}

// inTurn are the calls that are made now: all, or where those are too many one of each
// namespace, then another one of each, so that nobody's calls wait for all those of others.
// Within a namespace the order stays, which is that of priority. Who is first is drawn anew at
// each time.
func inTurn(due []api.CallWebhook, now time.Time) (out []api.CallWebhook) {
	if len(due) <= webhooksAtOnce {
		return due
	}
	of := map[string][]api.CallWebhook{}
	for _, call := range due {
		of[call.Strategy.Namespace] = append(of[call.Strategy.Namespace], call)
	}
	lot := func(namespace string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", namespace, now.UnixNano()))
		return string(sum[:])
	}
	namespaces := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Compare(lot(a), lot(b)) })
	for i := 0; len(out) < webhooksAtOnce; i++ {
		for _, namespace := range namespaces {
			if calls := of[namespace]; i < len(calls) && len(out) < webhooksAtOnce {
				out = append(out, calls[i])
			}
		}
	}
	return out
}

// webhookID is the same for one turn of a rule, in every process.
func webhookID(a api.StrategyAction) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", a.Strategy, a.Rule, a.URL, a.Since.UnixNano()))
	return "msg_" + hex.EncodeToString(sum[:12])
}

// delivery is what became of a call, and from when on it would be known.
func delivery(s api.Snapshot, of api.Key, id string) (api.Delivery, time.Time) {
	for _, with := range s.Context.Strategies {
		if with.Key != of {
			continue
		}
		for _, d := range with.Deliveries {
			if d.ID == id {
				return d, with.CallsSince
			}
		}
		return api.Delivery{}, with.CallsSince
	}
	return api.Delivery{}, time.Time{}
}
