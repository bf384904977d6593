package rest

import (
	"bytes"
	"compress/gzip"
	"context"
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
	"github.com/mash2-io/mash2/record"
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

// Handler serves below api/v1/.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, answer func(Viewer, url.Values, *http.Request) (any, error)) {
		mux.HandleFunc("GET /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			v, err := s.viewer(r)
			if err != nil {
				fail(w, err)
				return
			}
			out, err := answer(v, r.URL.Query(), r)
			if err != nil {
				fail(w, err)
				return
			}
			send(w, r, http.StatusOK, out)
		})
	}
	get("overview", func(v Viewer, _ url.Values, _ *http.Request) (any, error) {
		o := s.Store.overview(v)
		o.Actions = s.Actor != nil
		return o, nil
	})
	get("workloads", func(v Viewer, _ url.Values, _ *http.Request) (any, error) {
		return struct {
			Workloads []WorkloadView `json:"workloads"`
		}{s.Store.workloadList(v)}, nil
	})
	get("workloads/{namespace}/{name}", func(v Viewer, _ url.Values, r *http.Request) (any, error) {
		d, ok := s.Store.workload(v, api.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")})
		if !ok {
			return nil, errNotThere
		}
		return d, nil
	})
	get("changes", func(v Viewer, q url.Values, _ *http.Request) (any, error) {
		before, limit, err := window(q)
		if err != nil {
			return nil, err
		}
		return struct {
			Changes []record.Change `json:"changes"`
		}{s.Store.changeList(v, Filter{Workload: q.Get("workload"), Before: before, Limit: limit})}, nil
	})
	get("cycles", func(v Viewer, q url.Values, _ *http.Request) (any, error) {
		if !v.All {
			return nil, errNotThere
		}
		before, limit, err := window(q)
		if err != nil {
			return nil, err
		}
		return struct {
			Cycles []Head `json:"cycles"`
		}{s.Store.headList(before, limit)}, nil
	})
	get("cycles/{id}", func(v Viewer, _ url.Values, r *http.Request) (any, error) {
		id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
		if err != nil {
			return nil, badf("cycles/%s: a cycle has a number", r.PathValue("id"))
		}
		e, err := s.Store.cycle(id)
		if err != nil {
			return nil, err
		}
		return v.shownCycle(e.Cycle), nil
	})
	get("explain", func(v Viewer, q url.Values, _ *http.Request) (any, error) {
		at, err := timeOf(q, "at")
		if err != nil {
			return nil, err
		}
		return s.Store.explain(v, record.Question{At: at, Workload: q.Get("workload"), Pool: q.Get("pool")})
	})
	get("otherwise", func(v Viewer, q url.Values, r *http.Request) (any, error) {
		at, err := timeOf(q, "at")
		switch {
		case err != nil:
			return nil, err
		case !v.All || s.Store.config.Otherwise == nil:
			return nil, errNotThere
		}
		s.Store.reading.Lock()
		defer s.Store.reading.Unlock()
		ctx, cancel := context.WithTimeout(r.Context(), 45*time.Second)
		defer cancel()
		return s.Store.config.Otherwise(ctx, at, Otherwise{Workload: q.Get("workload"), With: q["with"], Without: q["without"], Policy: q.Get("policy")})
	})
	get("nodes", func(v Viewer, q url.Values, _ *http.Request) (any, error) {
		if !v.Nodes {
			return nil, errNotThere
		}
		return s.Store.packing(q.Get("pool")), nil
	})
	mux.HandleFunc("GET /api/v1/stream", s.stream)
	s.actions(mux)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &RefusedError{http.StatusNotFound, "there is no " + r.Method + " " + r.URL.Path})
	})
	return s.guarded(mux)
}

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

// namespaces that workloads are in, in order.
func (s *Store) namespaces() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for _, w := range s.last.Cycle.Workloads {
		if n := len(out); n == 0 || out[n-1] != w.Key.Namespace {
			out = append(out, w.Key.Namespace)
		}
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
	status := http.StatusBadGateway // the API server gave no answer
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		status = refused.Status
	case errors.Is(err, errNoToken), errors.Is(err, errBadToken):
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", "Bearer")
	case errors.Is(err, errForbidden):
		status = http.StatusForbidden
	case errors.Is(err, errNotThere):
		status = http.StatusNotFound
	case errors.Is(err, errNoCycle), errors.Is(err, errBusy):
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Error string `json:"error"`
	}{err.Error()})
}
