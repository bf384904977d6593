package providertest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/mash2-io/mash2/execution/provider"
)

// Refusals let an API server refuse the next write, for providers whose API is
// a Kubernetes API server: put Wrap into the client's configuration.
type Refusals struct {
	next http.RoundTripper

	mu   sync.Mutex
	code int
	body string
}

// Wrap stands between the client and the API server.
func (r *Refusals) Wrap(next http.RoundTripper) http.RoundTripper {
	r.next = next
	return r
}

// RoundTrip implements http.RoundTripper.
func (r *Refusals) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	code, body := r.code, r.body
	if req.Method == http.MethodGet {
		code = 0
	} else {
		r.code = 0
	}
	r.mu.Unlock()
	if code == 0 {
		return r.next.RoundTrip(req)
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// Faults are answers as API servers give them.
func (r *Refusals) Faults() map[error]func() {
	refuse := func(code int, reason, message string) func() {
		return func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.code = code
			r.body = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code)
		}
	}
	return map[error]func(){
		provider.ErrPermission:  refuse(http.StatusForbidden, "Forbidden", `nodes "x" is forbidden: User "y" cannot patch resource`),
		provider.ErrQuota:       refuse(http.StatusForbidden, "Forbidden", `machines "x" is forbidden: exceeded quota: machines`),
		provider.ErrBusy:        refuse(http.StatusConflict, "Conflict", "the object has been modified"),
		provider.ErrUnavailable: refuse(http.StatusServiceUnavailable, "ServiceUnavailable", "apiserver is shutting down"),
		provider.ErrNotFound:    refuse(http.StatusNotFound, "NotFound", `"x" not found`),
	}
}
