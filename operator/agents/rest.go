package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// MARLISE's control API, with its paths, bodies and messages:
//
//	POST /start  /stop  /set_default_limits  /set_{dqn,ppo,ddpg}_algorithm
//	POST /set_resources {"resources": int}   /set_interval {"interval": int}
//	GET  /status  /algorithm  /resources  /interval
//
// The messages of /set_…_algorithm are those of its documentation ("DQN algorithm set");
// its code writes the name in lower case. A body that is wrong is answered with 422 as
// there, and {"detail": reason}.

// families of algorithms, as MARLISE's messages write them.
var families = map[string]string{DQNMind: "DQN", PPOMind: "PPO", DDPGMind: "DDPG"}

// mostBody of a request, in bytes.
const mostBody = 1 << 16

// Handler serves the control API. Who may call it is not its business: wrap it.
func (l *Loop) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, _ *http.Request) {
		message(w, map[bool]string{true: "Inference started", false: "Inference already running"}[l.Start()])
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		message(w, map[bool]string{true: "Inference stopped", false: "Inference not running"}[l.Stop()])
	})
	mux.HandleFunc("POST /set_resources", func(w http.ResponseWriter, r *http.Request) {
		setting(w, r, "resources", l.SetResources, "Resources set to %d")
	})
	mux.HandleFunc("POST /set_interval", func(w http.ResponseWriter, r *http.Request) {
		setting(w, r, "interval", l.SetInterval, "Interval set to %d")
	})
	for mind, name := range families {
		mux.HandleFunc("POST /set_"+mind+"_algorithm", func(w http.ResponseWriter, _ *http.Request) {
			switch changed, err := l.SetAlgorithm(mind); {
			case err != nil:
				detail(w, http.StatusConflict, err)
			case changed:
				message(w, name+" algorithm set")
			default:
				message(w, name+" algorithm already set")
			}
		})
	}
	mux.HandleFunc("POST /set_default_limits", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
		defer cancel()
		if err := l.SetDefaultLimits(ctx); err != nil {
			detail(w, http.StatusBadGateway, err)
			return
		}
		message(w, "Default limits set")
	})
	get := func(path string, value func() any) {
		mux.HandleFunc("GET /"+path, func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, map[string]any{path: value()})
		})
	}
	get("status", func() any { return l.Running() })
	get("algorithm", func() any { return l.Algorithm() })
	get("resources", func() any { return l.Resources() })
	get("interval", func() any { return int64(l.Interval() / time.Second) })
	return mux
}

// Paths of the control API.
func Paths() []string {
	out := []string{"/start", "/stop", "/set_resources", "/set_interval", "/set_default_limits", "/status", "/algorithm", "/resources", "/interval"}
	for mind := range families {
		out = append(out, "/set_"+mind+"_algorithm")
	}
	slices.Sort(out)
	return out
}

// setting reads {"name": int}, sets it and says so.
func setting(w http.ResponseWriter, r *http.Request, name string, set func(int64) error, done string) {
	value, err := number(http.MaxBytesReader(w, r.Body, mostBody), name)
	if err == nil {
		err = set(value)
	}
	if err != nil {
		detail(w, http.StatusUnprocessableEntity, fmt.Errorf("body.%s: %w", name, err))
		return
	}
	message(w, fmt.Sprintf(done, value))
}

// number of a body that is an object with this field.
func number(body io.Reader, name string) (int64, error) {
	var fields map[string]json.RawMessage
	if err := json.NewDecoder(body).Decode(&fields); err != nil {
		return 0, fmt.Errorf("want a JSON object: %w", err)
	}
	text, ok := fields[name]
	if !ok {
		return 0, errors.New("field required")
	}
	var value *int64
	if err := json.Unmarshal(text, &value); err != nil || value == nil {
		return 0, fmt.Errorf("want a whole number, is %.40s", text)
	}
	return *value, nil
}

func message(w http.ResponseWriter, text string) {
	answer(w, http.StatusOK, map[string]any{"message": text})
}

func detail(w http.ResponseWriter, status int, err error) {
	answer(w, status, map[string]any{"detail": err.Error()})
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller has gone
}

// Start deciding; false if it was.
func (l *Loop) Start() bool { return l.set(true) }

// Stop deciding; false if it had. Limits stay as they are.
func (l *Loop) Stop() bool { return l.set(false) }

func (l *Loop) set(running bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.running
	l.running = running
	l.awake()
	return was != running
}

// awake ends the present wait, so that a setting counts at once.
func (l *Loop) awake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// change an option, or return an error and change nothing.
func (l *Loop) change(do func(*Options)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.o
	do(&o)
	if err := o.Validate(); err != nil {
		return err
	}
	another := o.Algorithm != l.o.Algorithm
	l.o, l.config.Every = o, o.Interval
	if another {
		l.use(o.Algorithm)
	}
	l.awake()
	return nil
}

// SetResources sets the budget, millicores.
func (l *Loop) SetResources(budget int64) error {
	return l.change(func(o *Options) { o.Budget = budget })
}

// SetInterval sets the time between decisions, seconds.
func (l *Loop) SetInterval(seconds int64) error {
	if seconds < 1 || seconds > 3600 {
		return fmt.Errorf("want 1 to 3600 seconds, is %d", seconds)
	}
	return l.change(func(o *Options) { o.Interval = time.Duration(seconds) * time.Second })
}

// SetAlgorithm changes the minds of all agents. changed is false if they have it.
func (l *Loop) SetAlgorithm(name string) (changed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.Algorithm == name {
		return false, nil
	}
	if len(l.o.Minds[name]) == 0 {
		return false, fmt.Errorf("there is no model of %s: start with one (--load_model)", name)
	}
	l.use(name)
	return true, nil
}

// Running reports whether it decides.
func (l *Loop) Running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// Algorithm is the name of the minds.
func (l *Loop) Algorithm() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.o.Algorithm
}

// Resources is the budget, millicores.
func (l *Loop) Resources() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.o.Budget
}

// Interval between decisions.
func (l *Loop) Interval() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.o.Interval
}

// Trusted reports whether the learned minds have been better than the rule
// here, and need no trial.
func (l *Loop) Trusted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trial != nil && l.trial.online.Trusted()
}
