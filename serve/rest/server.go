package rest

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // the API's description
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// errNoCycle is of a process that has not decided anything yet, as a standby never does.
var errNoCycle = errors.New("no cycle yet: this replica doesn't lead, or has just begun")

// Actor does what a viewer asks for, with the viewer's own rights.
type Actor interface {
	// SetPolicy sets the policy by hand; empty leaves it to the schedule again.
	SetPolicy(ctx context.Context, r *http.Request, name string) error
	// Pause stops every write, or takes that back.
	Pause(ctx context.Context, r *http.Request, on bool) error
	// EndRollback lets mash2 go on after a rollback.
	EndRollback(ctx context.Context, r *http.Request) error
	// SetMode of a ManagedWorkload.
	SetMode(ctx context.Context, r *http.Request, key api.Key, mode api.Mode) error
	// SetAgents changes spec.vertical of a ManagedWorkload by a JSON merge patch.
	SetAgents(ctx context.Context, r *http.Request, key api.Key, change map[string]any) error
	// RestartCanary lets the trial of a workload's namespace begin anew.
	RestartCanary(ctx context.Context, r *http.Request, key api.Key) error
	// PutStrategy writes a Strategy's spec; it is made if it is not there.
	PutStrategy(ctx context.Context, r *http.Request, key api.Key, spec v1alpha1.StrategySpec) error
	// ChangeStrategy changes the Strategy that is there.
	ChangeStrategy(ctx context.Context, r *http.Request, key api.Key, change func(*v1alpha1.Strategy) error) error
	// DeleteStrategy deletes it.
	DeleteStrategy(ctx context.Context, r *http.Request, key api.Key) error
}

// RefusedError is of an action that can't be done as it was asked for.
type RefusedError struct {
	Status int // of HTTP
	Why    string
}

// Error says why.
func (e *RefusedError) Error() string { return e.Why }

// mostStreams are open at once.
const mostStreams = 128

// Server is the API.
type Server struct {
	Store *Store
	Auth  Authenticator
	// Actor is nil where the page only shows.
	Actor Actor
	// Loopback refuses requests that don't name this machine as their host: a page of
	// somewhere else must not read this one by a name that leads here.
	Loopback bool
	// Recheck is how often a stream asks again who listens; 0 is [Remembered].
	Recheck time.Duration

	streams atomic.Int32
}

// Handler serves below /api/v1/, and a few paths under other names; see alias.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.HandleFunc(r.Method+" /api/v1/"+r.Path, func(w http.ResponseWriter, q *http.Request) {
			out, err := s.answer(r, q)
			if err != nil {
				fail(w, err)
				return
			}
			send(w, q, http.StatusOK, out)
		})
	}
	mux.HandleFunc("GET /api/v1/stream", s.stream)
	mux.HandleFunc("GET /api/v1/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI) // who asked may be gone
	})
	s.alias(mux)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &RefusedError{http.StatusNotFound, "there is no " + r.Method + " " + r.URL.Path})
	})
	return s.guarded(mux)
}

// openAPI describes the routes, made of them by a test with -update.
//
//go:embed openapi.json
var openAPI []byte

// answer lets in who may, and does what a route does.
func (s *Server) answer(r route, q *http.Request) (any, error) {
	if r.Method == http.MethodGet {
		v, err := s.viewer(q)
		if err != nil {
			return nil, err
		}
		return r.get(v, q)
	}
	if err := s.mayAct(q); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(q.Body, maxBody+1))
	if err != nil {
		return nil, badf("the body can't be read: %v", err)
	}
	if len(body) > maxBody {
		return nil, &RefusedError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d KiB", maxBody>>10)}
	}
	if err := r.act(q, body); err != nil {
		return nil, err
	}
	return Done{}, nil
}

// maxBody is the most bytes that are read of what is sent.
const maxBody = 256 << 10

// Done is the answer to what was carried out.
type Done struct{}

// guarded refuses what no page of ours sends, and forbids caches.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if s.Loopback && !LoopbackHost(r.Host) {
			fail(w, &RefusedError{http.StatusForbidden, "this page is for this machine: open it by 127.0.0.1 or localhost"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// LoopbackHost reports whether a Host header names this machine.
func LoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// viewer is who asks. Before the first cycle nothing is known that could be shown.
func (s *Server) viewer(r *http.Request) (Viewer, error) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	namespaces := s.Store.namespaces()
	if n := r.URL.Query().Get("namespace"); n != "" {
		if !slices.Contains(namespaces, n) {
			namespaces = nil
		} else {
			namespaces = []string{n}
		}
	}
	v, err := s.Auth.Viewer(ctx, r, namespaces)
	if err != nil {
		return v, err
	}
	if !s.Store.any() {
		return v, errNoCycle
	}
	return v, nil
}

// stream tells of each new cycle by an event of its number, until the listener goes or may
// not listen any more. A comment every few seconds keeps proxies from ending it.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	// A standby's listeners wait for it to lead.
	if _, err := s.viewer(r); err != nil && !errors.Is(err, errNoCycle) {
		fail(w, err)
		return
	}
	if s.streams.Add(1) > mostStreams {
		s.streams.Add(-1)
		fail(w, &RefusedError{http.StatusServiceUnavailable, "too many pages are open"})
		return
	}
	defer s.streams.Add(-1)
	wake, stop := s.Store.listen()
	defer stop()
	recheck := s.Recheck
	if recheck == 0 {
		recheck = Remembered
	}
	check, alive := time.NewTicker(recheck), time.NewTicker(10*time.Second)
	defer check.Stop()
	defer alive.Stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // nothing more is read
	say := func(text string) bool {
		// The server's own deadline is for answers.
		_ = out.SetWriteDeadline(time.Now().Add(15 * time.Second))
		_, err := io.WriteString(w, text)
		return err == nil && out.Flush() == nil
	}
	id := s.Store.newestID()
	if !say(fmt.Sprintf("event: cycle\ndata: {\"cycle\":%d}\n\n", id)) {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-wake:
			if !say(fmt.Sprintf("event: cycle\ndata: {\"cycle\":%d}\n\n", s.Store.newestID())) {
				return
			}
		case <-alive.C:
			if !say(": here\n\n") {
				return
			}
		case <-check.C:
			if _, err := s.viewer(r); err != nil && !errors.Is(err, errNoCycle) {
				say("event: end\ndata: {}\n\n")
				return
			}
		}
	}
}

// namespaces that workloads and strategies are in, in order.
func (s *Store) namespaces() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	add := func(namespace string) {
		if n := len(out); n == 0 || out[n-1] != namespace {
			out = append(out, namespace)
		}
	}
	for _, w := range s.last.Cycle.Workloads {
		add(w.Key.Namespace)
	}
	for _, of := range s.last.Snapshot.Context.Strategies {
		add(of.Key.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *Store) any() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last.Cycle.ID != 0
}

func (s *Store) newestID() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.newest.ID
}

func badf(format string, args ...any) error {
	return &RefusedError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// window reads ?before=TIME&limit=N.
func window(q url.Values) (time.Time, int, error) {
	before, err := timeOf(q, "before")
	if err != nil {
		return before, 0, err
	}
	limit := 100
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return before, 0, badf("limit must be a number from 1 to 1000, not %q", text)
		}
		limit = n
	}
	return before, limit, nil
}

func timeOf(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, badf("%s must be a time such as 2026-01-02T15:04:05Z, not %q", name, text)
	}
	return t, nil
}

// send writes JSON, compressed where that is worth it.
func send(w http.ResponseWriter, r *http.Request, status int, v any) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	if err := e.Encode(v); err != nil {
		// A figure that JSON can't hold is our own mistake: it must not pass as an empty answer.
		http.Error(w, `{"error":"this answer can't be written as JSON"}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	const small = 2048
	if body.Len() < small || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		_, _ = w.Write(body.Bytes()) // who asked may be gone
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that there is
	_, _ = z.Write(body.Bytes())
	_ = z.Close()
}

// fail writes an error as JSON.
func fail(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(w, err))
	_ = json.NewEncoder(w).Encode(Failure{err.Error()})
}

// Failure is the answer to what was refused.
type Failure struct {
	Error string `json:"error"`
}

// statusOf an error in HTTP. It asks for a token where that is what is missing.
func statusOf(w http.ResponseWriter, err error) int {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return refused.Status
	case errors.Is(err, errNoToken), errors.Is(err, errBadToken):
		w.Header().Set("WWW-Authenticate", "Bearer")
		return http.StatusUnauthorized
	case errors.Is(err, errForbidden):
		return http.StatusForbidden
	case errors.Is(err, errNotThere):
		return http.StatusNotFound
	case errors.Is(err, errNoCycle), errors.Is(err, errBusy), errors.Is(err, errReading):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway // the API server gave no answer
}
