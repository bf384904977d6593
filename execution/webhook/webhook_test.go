package webhook

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mash2-io/mash2/api"
)

var begin = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// receiver is a server that notes what it is sent, and answers with a status.
type receiver struct {
	*httptest.Server
	status int
	got    []*http.Request
	bodies []string
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusNoContent}
	r.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.got, r.bodies = append(r.got, q), append(r.bodies, string(body))
		if r.status == http.StatusFound {
			http.Redirect(rw, q, "http://127.0.0.1:1/elsewhere", r.status)
			return
		}
		rw.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) host() string { return strings.TrimPrefix(r.URL, "http://") }

// TestSignature: the example of the specification's own libraries.
func TestSignature(t *testing.T) {
	key, err := ParseKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, text := range []string{"", "whsec_", "whsec_c2hvcnQ=", "no base64 at all, but long enough to be a key", base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if _, err := ParseKey(text); err == nil || len(text) > 10 && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSender(t *testing.T) {
	r := newReceiver(t)
	key := bytes.Repeat([]byte("k"), 32)
	clock := clocktesting.NewFakePassiveClock(begin)
	s := New([]string{"shop/" + r.host()}, key, clock)
	shop := api.Key{Namespace: "shop", Name: "a"}
	call := api.CallWebhook{Strategy: shop, Rule: "crowd", ID: "msg_1", URL: r.URL + "/hooks/token", Body: `{"type":"mash2.rule.on"}`}

	if err := s.Apply(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	h := r.got[0].Header
	if r.bodies[0] != call.Body || r.got[0].Method != http.MethodPost || h.Get("webhook-id") != "msg_1" || h.Get("webhook-timestamp") != "1772442000" ||
		!hmac.Equal([]byte(h.Get("webhook-signature")), []byte(Sign(key, "msg_1", "1772442000", call.Body))) {
		t.Errorf("%s %s, %v", r.got[0].Method, r.bodies[0], h)
	}
	if got := s.Deliveries(shop); len(got) != 1 || !got[0].Done.Equal(begin) || got[0].ID != "msg_1" {
		t.Errorf("%+v", got)
	}
	if got := s.Deliveries(api.Key{Namespace: "shop", Name: "b"}); len(got) != 0 {
		t.Errorf("another strategy's: %+v", got)
	}

	// One that fails is due again after longer and longer.
	r.status = http.StatusBadGateway
	call.ID = "msg_2"
	for i, pause := range []time.Duration{10, 20, 40, 80, 120, 120} {
		err := s.Apply(t.Context(), call)
		if err == nil || !strings.Contains(err.Error(), "answers 502") || strings.Contains(err.Error(), "token") {
			t.Fatalf("attempt %d: %v", i, err)
		}
		if got := s.Deliveries(shop)[1]; got.Attempts != i+1 || !got.Next.Equal(clock.Now().Add(pause*time.Second)) || !got.Done.IsZero() {
			t.Errorf("attempt %d: %+v, want a pause of %d s", i, got, pause)
		}
	}
	r.status = http.StatusOK
	if err := s.Apply(t.Context(), call); err != nil || s.Deliveries(shop)[1].Error != "" {
		t.Errorf("%v: %+v", err, s.Deliveries(shop))
	}

	// What is old is forgotten.
	clock.SetTime(begin.Add(2 * time.Hour))
	call.ID = "msg_3"
	if err := s.Apply(t.Context(), call); err != nil || len(s.Deliveries(shop)) != 1 {
		t.Errorf("%v: %+v", err, s.Deliveries(shop))
	}
}

// TestSenderRefuses: nobody is called who is not allowed, and no error has the address, which
// may hold a secret.
func TestSenderRefuses(t *testing.T) {
	r := newReceiver(t)
	key := bytes.Repeat([]byte("k"), 32)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	nobody := strings.TrimPrefix(gone.URL, "http://")
	for name, c := range map[string]struct {
		hosts     []string
		key       []byte
		namespace string
		url       string
		status    int
		want      string
		called    int
	}{
		"no key":            {[]string{r.host()}, nil, "shop", r.URL, 200, "has set no key", 0},
		"no host":           {nil, key, "shop", r.URL + "/token", 200, "has not allowed", 0},
		"another namespace": {[]string{"shop/" + r.host()}, key, "bank", r.URL + "/token", 200, "for namespace bank (--webhook-host)", 0},
		"a redirect":        {[]string{r.host(), "127.0.0.1:1"}, key, "shop", r.URL + "/token", http.StatusFound, "answers 302", 1},
		"nobody is there":   {[]string{nobody}, key, "shop", gone.URL + "/token", 200, "calling " + nobody + ": dial tcp", 0},
	} {
		r.got, r.status = nil, c.status
		err := New(c.hosts, c.key, clocktesting.NewFakePassiveClock(begin)).Apply(t.Context(), api.CallWebhook{Strategy: api.Key{Namespace: c.namespace, Name: "a"}, ID: "msg", URL: c.url})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "token") || len(r.got) != c.called {
			t.Errorf("%s: %v, %d calls", name, err, len(r.got))
		}
	}
	if err := New(nil, key, clocktesting.NewFakePassiveClock(begin)).Apply(t.Context(), api.CordonNode{}); err == nil || !strings.Contains(err.Error(), "can't CordonNode") {
		t.Error(err)
	}
}
