package execution

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mash2-io/mash2/api"
)

const (
	// webhookWindow is how long after its rule turned on a call is tried. It bounds what a
	// process that doesn't know what the last one delivered says again.
	webhookWindow = 10 * time.Minute
	// webhooksAtOnce is how many calls one cycle makes.
	webhooksAtOnce = 8
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
	for _, a := range policy.StrategyActions {
		if a.Kind != api.ActionCallWebhook || a.NotDone != "" {
			continue
		}
		id := webhookID(a)
		last := delivery(s, a.Strategy, id)
		switch {
		case !last.Done.IsZero():
		case s.Time.Sub(a.Since) > webhookWindow:
			if last.Attempts > 0 {
				findings = append(findings, api.Finding{
					Severity: api.Warning, Agent: api.StrategicAgent, Reason: "WebhookNotDelivered", Object: api.StrategyRef(a.Strategy),
					Message: fmt.Sprintf("%s wants %s: given up after %v and %d attempts: %s", a.Rule, a.What(), webhookWindow, last.Attempts, last.Error),
				})
			}
		case s.Time.Before(last.Next) || len(out) == webhooksAtOnce:
		default:
			b := webhookBody{Type: "mash2.rule.on", Timestamp: a.Since.UTC()}
			b.Data.Namespace, b.Data.Strategy, b.Data.Rule, b.Data.Reason, b.Data.Policy = a.Strategy.Namespace, a.Strategy.Name, a.Rule, a.Reason, policy.Name
			body, err := json.Marshal(b)
			if err != nil {
				continue // strings and a time always can be
			}
			out = append(out, api.CallWebhook{Strategy: a.Strategy, Rule: a.Rule, ID: id, URL: a.URL, Body: string(body), Reason: a.Reason})
		}
	}
	return out, findings
}

// webhookID is the same for one turn of a rule, in every process.
func webhookID(a api.StrategyAction) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", a.Strategy, a.Rule, a.URL, a.Since.UnixNano()))
	return "msg_" + hex.EncodeToString(sum[:12])
}

func delivery(s api.Snapshot, of api.Key, id string) api.Delivery {
	for _, with := range s.Context.Strategies {
		if with.Key != of {
			continue
		}
		for _, d := range with.Deliveries {
			if d.ID == id {
				return d
			}
		}
	}
	return api.Delivery{}
}
