// Package webhook carries out the calls that strategies want, signed as Standard Webhooks
// are (https://www.standardwebhooks.com, version 1): headers webhook-id, webhook-timestamp
// and webhook-signature. A call is made at least once; its id tells repetitions.
package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/mash2-io/mash2/api"
)

const (
	// timeout of a call: a cycle waits for it.
	timeout = 3 * time.Second
	// firstPause after an attempt that failed, twice as long each time up to longestPause.
	firstPause, longestPause = 10 * time.Second, 2 * time.Minute
	// kept is how long what became of a call is known.
	kept = time.Hour
	// keyPrefix of keys in their text form.
	keyPrefix = "whsec_"
	// leastKey and mostKey are how many bytes a key has, by the specification.
	leastKey, mostKey = 24, 64
)

// ParseKey reads a key as Standard Webhooks write it: base64 of 24 to 64 bytes, usually
// after whsec_.
func ParseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(text), keyPrefix))
	if err != nil || len(key) < leastKey || len(key) > mostKey {
		return nil, fmt.Errorf("must be %s and base64 of %d to %d bytes", keyPrefix, leastKey, mostKey) // not the key
	}
	return key, nil
}

// Sender makes calls and remembers what became of them. Its methods may be used at the same
// time.
type Sender struct {
	hosts  []string
	key    []byte
	clock  clock.PassiveClock
	client *http.Client

	mu    sync.Mutex
	calls map[string]*call
}

// call is what is known of one.
type call struct {
	of       api.Key
	at       time.Time // of the last attempt
	delivery api.Delivery
}

// New returns a Sender to allowed hosts, each [NAMESPACE/]HOST[:PORT]. Without a key it makes
// no call.
func New(hosts []string, key []byte, now clock.PassiveClock) *Sender {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // an allowed host is what is called, nothing in between
	return &Sender{hosts: slices.Clone(hosts), key: key, clock: now, calls: map[string]*call{}, client: &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Apply makes a call once. An error is that of the attempt; Deliveries then says when the
// next one is due.
func (s *Sender) Apply(ctx context.Context, action api.Action) error {
	a, ok := action.(api.CallWebhook)
	if !ok {
		return fmt.Errorf("webhook: can't %s", action.Kind())
	}
	err := s.post(ctx, a)
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.calls {
		if now.Sub(c.at) > kept {
			delete(s.calls, id)
		}
	}
	c := s.calls[a.ID]
	if c == nil {
		c = &call{of: a.Strategy, delivery: api.Delivery{ID: a.ID}}
		s.calls[a.ID] = c
	}
	c.at = now
	if err == nil {
		c.delivery = api.Delivery{ID: a.ID, Done: now.Round(0)}
		return nil
	}
	pause := min(firstPause<<min(c.delivery.Attempts, 10), longestPause)
	c.delivery.Attempts++
	c.delivery.Error, c.delivery.Next = err.Error(), now.Add(pause).Round(0)
	return err
}

// Deliveries of a strategy, in order of id.
func (s *Sender) Deliveries(of api.Key) []api.Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []api.Delivery
	for _, c := range s.calls {
		if c.of == of {
			out = append(out, c.delivery)
		}
	}
	slices.SortFunc(out, func(a, b api.Delivery) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// post sends one call. Its errors have the host and no more of the address, which may be a
// secret.
func (s *Sender) post(ctx context.Context, a api.CallWebhook) error {
	if len(s.key) == 0 {
		return errors.New("mash2's owner has set no key to sign webhooks with (--webhook-key-file)")
	}
	if err := api.HostAllowed(s.hosts, a.Strategy.Namespace, a.URL); err != nil {
		return fmt.Errorf("%w (--webhook-host)", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL, strings.NewReader(a.Body))
	if err != nil {
		return errors.New("is no address that can be called")
	}
	stamp := strconv.FormatInt(s.clock.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "mash2")
	r.Header.Set("Webhook-Id", a.ID)
	r.Header.Set("Webhook-Timestamp", stamp)
	r.Header.Set("Webhook-Signature", Sign(s.key, a.ID, stamp, a.Body))
	answer, err := s.client.Do(r)
	if err != nil {
		if of := (*url.Error)(nil); errors.As(err, &of) {
			err = of.Err
		}
		return fmt.Errorf("calling %s: %w", r.URL.Host, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 4<<10)) // so that the connection can be used again
	_ = answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", r.URL.Host, answer.Status)
	}
	return nil
}

// Sign returns the value of webhook-signature for an id, a time in seconds and a body.
func Sign(key []byte, id, timestamp, body string) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
