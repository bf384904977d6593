package knowledge

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Kind of an entry.
type Kind string

// The kinds.
const (
	KindModel    Kind = "model"    // a model that could decide from then on
	KindRun      Kind = "run"      // a training, an evaluation, a process of the operator
	KindScore    Kind = "score"    // how good something was
	KindReading  Kind = "reading"  // the value of a sensor or a signal
	KindDecision Kind = "decision" // what a strategy, a trial or the policy came to
)

// Kinds are all of them, in order.
func Kinds() []Kind { return []Kind{KindModel, KindRun, KindScore, KindReading, KindDecision} }

// Entry is one thing that is known.
type Entry struct {
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time"`
	// About is what it is about. Who may see its namespace may see the entry.
	About About `json:"about"`
	// Name of the sensor, rule, model, run or score.
	Name string `json:"name"`
	// Value of a reading; nil where it had none.
	Value *float64 `json:"value,omitempty"`
	// Text says in a sentence what was decided and why, or why a reading has no value.
	Text string `json:"text,omitempty"`
	// Params are what a run or a model was made with, and Metrics what came of it, each by
	// name.
	Params  map[string]string  `json:"params,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
}

// About names an object, as api.ObjectRef does, in JSON's usual form.
type About struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

func about(o api.ObjectRef) About { return About{o.Kind, o.Key.Namespace, o.Key.Name} }

// String is such as "strategy shop/edge-or-cloud".
func (a About) String() string {
	if a.Name == "" && a.Namespace == "" {
		return a.Kind
	}
	return a.Kind + " " + a.key()
}

// key is the namespace and the name.
func (a About) key() string {
	if a.Namespace == "" {
		return a.Name
	}
	return a.Namespace + "/" + a.Name
}

// ErrEntry is what errors of entries that can't be kept are.
var ErrEntry = errors.New("bad entry")

// mostText is the most bytes of a text, of a name and of what names something.
const mostText, mostName = 4096, 253

// Validate reports the first field that can't be kept, as an ErrEntry.
func (e Entry) Validate() error {
	bad := func(field, format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrEntry, field, fmt.Sprintf(format, args...))
	}
	switch {
	case !slices.Contains(Kinds(), e.Kind):
		return bad("kind", "must be one of %v, is %q", Kinds(), e.Kind)
	case e.Time.IsZero() || e.Time.Year() < 1970 || e.Time.Year() > 2200:
		return bad("time", "must be between 1970 and 2200, is %s", e.Time.Format(time.RFC3339))
	case e.About.Kind == "" || len(e.About.String()) > 3*mostName:
		return bad("about.kind", "must be set, and name no more than %d bytes in all", 3*mostName)
	case e.Name == "" || len(e.Name) > mostName:
		return bad("name", "must have 1 to %d bytes, has %d", mostName, len(e.Name))
	case e.Value != nil && !finite(*e.Value):
		return bad("value", "must be a finite number, is %g", *e.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
		if !finite(e.Metrics[name]) {
			return bad("metrics."+name, "must be a finite number, is %g", e.Metrics[name])
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// String is the entry in a line.
func (e Entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %-8s  %s: %s", e.Time.UTC().Format(time.RFC3339), e.Kind, e.About, e.Name)
	if e.Value != nil {
		fmt.Fprintf(&b, " = %.6g", *e.Value)
	}
	if e.Text != "" {
		fmt.Fprintf(&b, ": %s", e.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
		fmt.Fprintf(&b, "  %s=%.6g", name, e.Metrics[name])
	}
	for _, name := range slices.Sorted(maps.Keys(e.Params)) {
		fmt.Fprintf(&b, "  %s=%s", name, e.Params[name])
	}
	return b.String()
}

// Query says which entries are wanted.
type Query struct {
	Kind Kind // empty for all
	// About is a name, NAMESPACE/NAME, or one of them after its kind; empty for everything.
	About string
	Name  string // empty for every name
	// Text is looked for in every field, in small and capital letters alike.
	Text string
	// From and To are the first and the last time; zero for no bound.
	From, To time.Time
	// Limit is how many of the newest are wanted; 0 for all.
	Limit int
	// Sees reports whether entries of a namespace, empty for those of none, may be told; nil
	// for all.
	Sees func(namespace string) bool
}

// Validate reports a kind that there is not.
func (q Query) Validate() error {
	if q.Kind != "" && !slices.Contains(Kinds(), q.Kind) {
		return fmt.Errorf("%w: kind: must be one of %v, is %q", ErrEntry, Kinds(), q.Kind)
	}
	return nil
}

// fits reports whether an entry is wanted, apart from the limit. Raw is the entry's JSON.
func (q Query) fits(e Entry, raw []byte) bool {
	switch {
	case q.Kind != "" && e.Kind != q.Kind,
		q.Name != "" && e.Name != q.Name,
		q.About != "" && q.About != e.About.Name && q.About != e.About.key() && q.About != e.About.String() && q.About != e.About.Kind+"/"+e.About.key(),
		!q.From.IsZero() && e.Time.Before(q.From),
		!q.To.IsZero() && e.Time.After(q.To),
		q.Sees != nil && !q.Sees(e.About.Namespace):
		return false
	}
	return q.Text == "" || strings.Contains(strings.ToLower(plain(raw)), strings.ToLower(q.Text))
}

// plain takes away how JSON writes characters of HTML.
func plain(raw []byte) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\"`, `"`).Replace(string(raw))
}

// Select are the entries that a query wants, in order of time.
func Select(all []Entry, q Query) ([]Entry, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	var out []Entry
	for _, e := range all {
		raw, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if q.fits(e, raw) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return a.Time.Compare(b.Time) })
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[len(out)-q.Limit:]
	}
	return out, nil
}
