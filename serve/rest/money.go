package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Settings of the HPA that the estimate is of: those of a user who states none.
const (
	hpaTarget        = 0.8 // of requests: the default of autoscaling/v1
	hpaTolerance     = 0.1
	hpaStabilization = 5 * time.Minute
)

// stockHPA follows what the stock HPA would have of one workload, had it the same
// demand: ceil(usage / (target × request)), no change within its tolerance, and down only
// to the largest recommendation of the last five minutes. Its limits on the rate of
// growth and its own delays are left out, in its favour.
type stockHPA struct {
	// stabilization is how long what was recommended keeps replicas up.
	stabilization time.Duration
	replicas      int32
	recent        []recommendation // of the stabilization window, oldest first
}

type recommendation struct {
	at       time.Time
	replicas int32
}

// step returns its replicas at a time at which demand needs so many in full use. Need is
// negative where demand is not known: then nothing changes.
func (h *stockHPA) step(at time.Time, need float64, w api.Workload) int32 {
	if h.replicas == 0 {
		h.replicas = w.Replicas
	}
	if need < 0 || math.IsNaN(need) || w.Replicas == 0 {
		return h.replicas
	}
	want := math.Ceil(need / hpaTarget)
	if ratio := need / hpaTarget / float64(max(h.replicas, 1)); math.Abs(ratio-1) <= hpaTolerance {
		want = float64(h.replicas)
	}
	r := int32(min(want, float64(w.MaxReplicas)))
	r = max(r, w.MinReplicas, 1)
	for len(h.recent) > 0 && at.Sub(h.recent[0].at) > h.stabilization {
		h.recent = h.recent[1:]
	}
	// An older recommendation that is no larger decides nothing any more.
	for len(h.recent) > 0 && h.recent[len(h.recent)-1].replicas <= r {
		h.recent = h.recent[:len(h.recent)-1]
	}
	h.recent = append(h.recent, recommendation{at, r})
	h.replicas = h.recent[0].replicas
	return h.replicas
}

// bill is what nodes cost over some time.
type bill struct {
	Cost    float64 `json:"cost"`    // USD
	HPA     float64 `json:"hpa"`     // USD, estimated
	Seconds float64 `json:"seconds"` // for which it is known
}

func (b *bill) add(o bill) {
	b.Cost += o.Cost
	b.HPA += o.HPA
	b.Seconds += o.Seconds
}

// ledger adds up money by the hour of UTC, for this month and the last one.
type ledger struct {
	Hours map[int64]*bill `json:"hours"` // by Unix time / 3600
	path  string          // empty: it is kept in memory only
	saved time.Time
}

// newLedger reads a ledger, or begins one where there is none yet. The error is of a file
// that can't be read or isn't a ledger.
func newLedger(path string) (*ledger, error) {
	l := &ledger{Hours: map[int64]*bill{}, path: path}
	if path == "" {
		return l, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("reading what was spent: %w", err)
	}
	if err := json.Unmarshal(text, l); err != nil {
		return &ledger{Hours: map[int64]*bill{}, path: path}, fmt.Errorf("reading what was spent: %s: %w", path, err)
	}
	if l.Hours == nil {
		l.Hours = map[int64]*bill{}
	}
	return l, nil
}

// spend adds what was spent in d until at, at these prices, USD/h.
func (l *ledger) spend(at time.Time, d time.Duration, hourly, hpa float64) {
	hour := at.Unix() / 3600
	b := l.Hours[hour]
	if b == nil {
		b = &bill{}
		l.Hours[hour] = b
		for h := range l.Hours {
			if h < hour-62*24 {
				delete(l.Hours, h)
			}
		}
	}
	b.add(bill{Cost: hourly * d.Hours(), HPA: hpa * d.Hours(), Seconds: d.Seconds()})
}

// save writes the file at most once a minute.
func (l *ledger) save(at time.Time) error {
	if l.path == "" || at.Sub(l.saved) < time.Minute {
		return nil
	}
	l.saved = at
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	next := l.path + ".new"
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, l.path)
}

// since adds up the hours from a time on.
func (l *ledger) since(from time.Time) bill {
	var sum bill
	for hour, b := range l.Hours {
		if hour >= from.Unix()/3600 {
			sum.add(*b)
		}
	}
	return sum
}

// Money is what the nodes of pools that mash2 resizes cost, and what they would cost with
// the stock HPA: an estimate, of the same load at a target of 80 % and default behavior,
// on nodes of the same kind that are as full as these.
type Money struct {
	// Hourly prices now, USD/h.
	Hourly    float64 `json:"hourly"`
	HPAHourly float64 `json:"hpaHourly"`
	// Day and Month are of the calendar's, UTC, so far.
	Day   Spent `json:"day"`
	Month Spent `json:"month"`
}

// Spent is money over some time, USD.
type Spent struct {
	From  time.Time `json:"from"`
	Spent float64   `json:"spent"`
	HPA   float64   `json:"hpa"` // estimated, over the same time
	// Known is the share of the time since From of which the figures are, 0–1: nothing
	// is counted for times in which no cycle ran.
	Known float64 `json:"known"`
}

func (l *ledger) money(now time.Time, hourly, hpa float64) Money {
	now = now.UTC()
	spent := func(from time.Time) Spent {
		b := l.since(from)
		s := Spent{From: from, Spent: b.Cost, HPA: b.HPA}
		if d := now.Sub(from).Seconds(); d > 0 {
			s.Known = min(b.Seconds/d, 1)
		}
		return s
	}
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return Money{Hourly: hourly, HPAHourly: hpa, Day: spent(day), Month: spent(month)}
}
