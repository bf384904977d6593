package serve

import (
	"fmt"
	"slices"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/mash2-io/mash2/api"
)

// Each message has an Event of its own: the recorder of client-go would count a
// second error of one kind as the first one again.
func TestEventsHaveTheirOwnMessage(t *testing.T) {
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &Status{Events: broadcaster.NewRecorder(clientgoscheme.Scheme, "mash2"), Policy: types.NamespacedName{Namespace: "mash2-system", Name: "mash2-policy"}}
	want := []string{"policies.A.quantile: must be below 1, is 5", "policies.B: unknown field", "policies.yaml: has 2 YAML documents"}
	for _, message := range want {
		s.tell(api.Cycle{Findings: []api.Finding{{Severity: api.Warning, Reason: "InvalidPolicy", Object: api.PolicyRef, Message: message}}}, nil)
	}
	var got []string
	for len(got) < len(want) {
		list, err := client.EventsV1().Events("mash2-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, e := range list.Items {
			got = append(got, e.Note)
		}
		if len(got) < len(want) {
			select {
			case <-t.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
		if slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Series != nil && len(list.Items) < len(want) }) {
			t.Fatalf("an Event counts for several messages: %v", got)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("notes %q, want %q", got, want)
	}
}

// What is wrong is told once while it lasts, in whichever figures; of several such things each is.
func TestNewFindingsAreThoseInOtherWords(t *testing.T) {
	cycle := func(all []api.Finding) api.Cycle { return api.Cycle{Findings: all} }
	of := func(reason string, messages ...string) (all []api.Finding) {
		for _, m := range messages {
			all = append(all, api.Finding{Severity: api.Warning, Reason: reason, Object: api.PolicyRef, Message: m})
		}
		return all
	}
	const down = "asking Prometheus for 4 steps until 2026-01-02T03:04:05Z: refused"
	for name, c := range map[string]struct {
		reason      string
		before, now []string
		want        []string
	}{
		"the first":              {"PrometheusUnreachable", nil, []string{down, down}, []string{down}},
		"the same":               {"PrometheusUnreachable", []string{down}, []string{down}, nil},
		"another time":           {"PrometheusUnreachable", []string{down}, []string{"asking Prometheus for 4 steps until 2026-01-02T03:04:20Z: refused"}, nil},
		"other figures":          {"Implausible", []string{"0.4 cores, 1.25"}, []string{"0.44 cores, 1.3"}, nil},
		"other words":            {"Implausible", []string{"much less"}, []string{"much more"}, []string{"much more"}},
		"another one beside it":  {"MigrationBlocked", []string{"pod web-0"}, []string{"pod web-0", "pod web-1"}, []string{"pod web-1"}},
		"before it in the list":  {"MigrationBlocked", []string{"pod web-1"}, []string{"pod web-0", "pod web-1"}, []string{"pod web-0"}},
		"one of two is left":     {"MigrationBlocked", []string{"pod web-0", "pod web-1"}, []string{"pod web-1"}, nil},
		"after it had gone":      {"Implausible", nil, []string{"0.4 cores"}, []string{"0.4 cores"}},
		"a figure of the policy": {"InvalidPolicy", []string{"must be below 1, is 5"}, []string{"must be below 1, is 7"}, []string{"must be below 1, is 7"}},
	} {
		_, before := news(cycle(of(c.reason, c.before...)), nil)
		told, said := news(cycle(of(c.reason, c.now...)), before)
		if !slices.Equal(told, of(c.reason, c.want...)) {
			t.Errorf("%s: told %v, want %q", name, told, c.want)
		}
		if again, _ := news(cycle(of(c.reason, c.now...)), said); len(again) > 0 {
			t.Errorf("%s: told again: %v", name, again)
		}
		// A cycle that was held in between knows of nothing but why.
		why := cycle(of("CycleHeld", "why"))
		why.Error = "why"
		if held, after := news(why, said); len(held) != 1 {
			t.Errorf("%s: of a cycle that was held %v is told", name, held)
		} else if again, _ := news(cycle(of(c.reason, c.now...)), after); len(again) > 0 {
			t.Errorf("%s: told again after a cycle that was held: %v", name, again)
		}
	}
}

// What is remembered in an outage does not grow with it, though each cycle tells other figures.
func TestALongOutageIsNotRemembered(t *testing.T) {
	held := func(seconds int) api.Cycle {
		return api.Cycle{Error: "no metrics", Findings: []api.Finding{
			{Severity: api.Warning, Reason: "MetricsUnavailable", Object: api.PolicyRef, Message: fmt.Sprintf("no answer after %d s", seconds)},
		}}
	}
	_, said := news(api.Cycle{Findings: []api.Finding{{Severity: api.Warning, Reason: "Conflict", Object: api.PolicyRef, Message: "two writers"}}}, nil)
	for i := range 1000 {
		var told []api.Finding
		if told, said = news(held(i), said); len(told) > 0 && i > 0 {
			t.Fatalf("cycle %d tells %v again", i, told)
		}
	}
	if len(said) != 2 {
		t.Errorf("%d findings are remembered, of two", len(said))
	}
}
