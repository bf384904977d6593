package vertical

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// MiB is the unit that memory limits are set in, bytes.
const MiB = 1 << 20

// MemoryConfig is how memory limits follow working sets. Memory differs from CPU: who has
// too little is killed. So limits rise at once, fall late, and a smaller budget never takes
// what a pod may use.
type MemoryConfig struct {
	// Headroom is what a limit has above the largest working set of the window, without files
	// where that is known, as a share of it, and at least twice what the working set has risen by within Lead.
	Headroom float64
	// Lead is how long a resize may take: that of another pod which gives the memory, and then
	// the pod's own.
	Lead time.Duration
	// Window is how long a pod must have been watched, without a gap, before its limit falls.
	Window time.Duration
	// Pressed is what counts instead of Window, and of Remember, where others lack memory: who
	// will be killed goes before who might be.
	Pressed time.Duration
	// Tolerance is the smallest fall that is worth a write, as a share of the limit.
	Tolerance float64
	// Growth is by how much a limit is multiplied after a kill for want of memory, and
	// Remember how long it does not fall below that, nor below what a node did not lower. VPA
	// grows by 1.2, too.
	Growth   float64
	Remember time.Duration
	// Every is the shortest time between two writes of one pod, but for rises.
	Every time.Duration
	// Stale is how old a reading may be. A pod without a fresh one keeps its limit.
	Stale time.Duration
}

// DefaultMemoryConfig keeps a quarter above the peak of five minutes, the time for which an
// HPA, too, looks back before it takes something away.
func DefaultMemoryConfig() MemoryConfig {
	return MemoryConfig{
		Headroom: 0.25, Lead: 10 * time.Second, Window: 5 * time.Minute, Pressed: time.Minute, Tolerance: 0.1, Growth: 1.2, Remember: 24 * time.Hour,
		Every: time.Minute, Stale: 5 * time.Second,
	}
}

// Validate returns an error that names a field which makes no sense.
func (c MemoryConfig) Validate() error {
	switch {
	case !(c.Headroom > 0 && c.Headroom <= 10):
		return fmt.Errorf("headroom: want above 0 and up to 10, is %g", c.Headroom)
	case c.Window <= 0 || c.Pressed < 0 || c.Lead < 0 || c.Every < 0 || c.Stale <= 0 || c.Remember < 0:
		return errors.New("window and stale must be above 0; pressed, lead, every and remember 0 or more")
	case !(c.Tolerance >= 0 && c.Tolerance < 1):
		return fmt.Errorf("tolerance: want 0 or more and below 1, is %g", c.Tolerance)
	case !(c.Growth >= 1 && c.Growth <= 10):
		return fmt.Errorf("growth: want 1 to 10, is %g", c.Growth)
	}
	return nil
}

// WorkingSets decides about memory limits and knows what pods used before. The zero value
// knows nothing. It belongs to one goroutine.
type WorkingSets struct {
	round
	seen map[string]*workingSet
	tick uint64
}

// workingSet is what is known of one pod's memory, bytes.
type workingSet struct {
	spans [spans + 1]span // of the window, in a ring
	last  int             // the present one
	// recent readings, in a ring; the last one at now.
	recent [recent]reading
	now    int
	begun  bool
	// since is from when on it was watched without a gap, at the time of the last reading.
	since, at time.Time
	rise      float64 // within the last Lead
	tick      uint64
	written   time.Time
	// killed is when it was killed last; until then it keeps at least floor.
	killed, until time.Time
	floor         int64
	// keeps is a limit that its node did not lower; until stuck is over it is left so.
	keeps int64
	stuck time.Time
}

const (
	// spans that a window is cut into.
	spans = 10
	// recent readings that rises are measured by.
	recent = 12
)

type reading struct {
	at   time.Time
	held float64
}

// span is a part of the window: the largest working set in it, with files and without, and the
// largest rise of the latter within Lead, or from one reading to the next where that is longer.
type span struct {
	from, to         time.Time
	peak, held, rise float64
}

// Decide for all pods. What it returns holds until the next call.
//
// A limit is raised at once to what the pod may use, if it has less than half of its
// headroom left, and after a kill. It falls to that, if it has been watched for a window. The kernel
// keeps as many files for a pod as its limit lets it: they are no reason for more. But a
// node lowers no limit below what it counts with them. A
// budget that doesn't allow that, because others rise or it was cut, is shared by weighted
// max-min fairness: it takes back what pods have not needed within Pressed, for those that lack
// something. OverBudget is set when that is not enough.
func (w *WorkingSets) Decide(c MemoryConfig, in Input) Output {
	w.observe(c, in)
	w.out.Decisions = w.out.Decisions[:0]
	w.out.Held, w.out.OverBudget = "", false
	if err := in.Envelope.Validate(); err != nil {
		return w.hold(in, "the envelope of memory is not valid: "+err.Error())
	}
	if !in.Time.Before(in.Envelope.Until) {
		return w.hold(in, "the envelope ended at "+in.Envelope.Until.UTC().Format(time.RFC3339))
	}
	w.claims = w.claims[:0]
	budget := in.Envelope.Budget
	for i := range in.Pods {
		p := &in.Pods[i]
		least, wish, d := w.wish(c, in.Time, in.Envelope.of(p), p)
		w.claims = append(w.claims, Claim{Least: least, Most: wish, Weight: weight(p.Priority)})
		w.out.Decisions = append(w.out.Decisions, d)
		budget -= max(0, p.Held-max(p.Limit, least))
	}
	w.out.OverBudget = !w.divide(budget)
	w.wait(in)
	for i := range w.out.Decisions {
		d := &w.out.Decisions[i]
		if d.To == d.From {
			continue
		}
		if down := floorMiB(d.To); d.To > d.From {
			d.To = max(d.From, down)
		} else {
			d.To = max(down, w.claims[i].Least)
		}
		if d.To != d.From {
			w.seen[d.ID].written = in.Time
		}
	}
	return w.out
}

// divide a budget among the claims. Where it is too little, those who lack something come
// first, and who only has more than they need gets what is left. It is false if the budget
// does not even have what everybody keeps.
func (w *WorkingSets) divide(budget int64) bool {
	w.got = append(w.got[:0], make([]int64, len(w.claims))...)
	wishes := make([]int64, len(w.claims))
	var all int64
	for i, c := range w.claims {
		wishes[i] = c.Most
		all += c.Most
	}
	if all > budget {
		for i := range w.claims {
			if c := &w.claims[i]; c.Most <= w.out.Decisions[i].From {
				c.Most = c.Least
			}
		}
		got, _ := Share(budget, w.claims, w.got)
		for i := range w.claims {
			if c := &w.claims[i]; wishes[i] > w.out.Decisions[i].From {
				c.Least, c.Most = got[i], got[i] // what they got is theirs
			} else {
				c.Most = wishes[i]
			}
		}
	}
	got, ok := Share(budget, w.claims, w.got)
	for i := range w.out.Decisions {
		d := &w.out.Decisions[i]
		if d.To = got[i]; got[i] < wishes[i] {
			d.Binding = BoundBudget
		}
	}
	return ok
}

// wish of a pod: what it keeps in any case, and what it should have.
func (w *WorkingSets) wish(c MemoryConfig, now time.Time, e Envelope, p *Pod) (least, wish int64, d Decision) {
	s := w.seen[p.ID]
	d = Decision{ID: p.ID, From: p.Limit, To: p.Limit, Proposed: math.NaN(), Binding: BoundNot}
	least, wish = p.Limit, p.Limit
	fresh := s.fresh(c, now)
	if fresh {
		of := s.seen(c.Window)
		floor := max(e.Floor, s.kept(c, now, p.Limit))
		needs, tight := max(ceilMiB(of.held+of.headroom(c, of.held)), floor), max(ceilMiB(of.held+of.headroom(c, of.held)/2), floor)
		enough := max(ceilMiB(of.peak+of.headroom(c, of.peak)), floor)
		d.Proposed = float64(max(needs, min(enough, p.Limit)))
		watched := now.Sub(s.since)
		switch {
		case p.Limit < tight:
			wish = needs
		case watched >= c.Window && p.settled() && float64(p.Limit)*(1-c.Tolerance) >= float64(enough):
			if wish = enough; now.Sub(s.written) < c.Every {
				wish, d.Binding = p.Limit, BoundRate
			}
		}
		if pressed := min(c.Pressed, c.Window); watched >= pressed && p.settled() {
			// Growth that has ended needs no room here.
			peak := s.seen(pressed).peak
			least = min(p.Limit, max(ceilMiB(peak+max(c.Headroom*peak, 2*s.rise)), e.Floor))
			if now.Sub(s.killed) < c.Window {
				least = min(p.Limit, max(least, s.floor))
			}
		}
	} else {
		d.Binding = BoundNoData
		if kept := max(e.Floor, s.kept(c, now, p.Limit)); kept > p.Limit {
			wish = kept
		}
	}
	if kept := s.kept(c, now, p.Limit); kept > 0 && kept >= wish {
		d.Binding = BoundKilled
	}
	if !p.settled() && wish <= p.Limit {
		d.Binding = BoundResize
	}
	if now.Before(s.stuck) {
		if least = max(least, s.keeps); wish <= s.keeps {
			wish, d.Binding = s.keeps, BoundStuck
		}
	}
	// The ceiling is no reason to take what is used.
	if top := max(e.Ceiling, least); wish > top {
		wish, d.Binding = top, BoundCeiling
	}
	return min(least, wish), wish, d
}

// observe readings and kills, and forget pods that are gone.
func (w *WorkingSets) observe(c MemoryConfig, in Input) {
	if w.seen == nil {
		w.seen = map[string]*workingSet{}
	}
	w.tick++
	w.held = 0
	for i := range in.Pods {
		p := &in.Pods[i]
		s, known := w.seen[p.ID], true
		if s == nil {
			s, known = &workingSet{}, false
			w.seen[p.ID] = s
		}
		s.tick = w.tick
		w.held += max(p.Limit, p.Held)
		if p.Killed.After(s.killed) {
			s.killed = p.Killed
			// The limit of a kill before it was watched isn't known: it keeps what it has.
			s.floor, s.until = p.Limit, p.Killed.Add(c.Remember)
			if known {
				s.floor = ceilMiB(float64(p.Limit) * c.Growth)
			}
		}
		if p.Stuck && p.Held > p.Limit {
			s.keeps, s.stuck = p.Held, in.Time.Add(c.Remember)
		}
		if age := in.Time.Sub(p.At); p.At.IsZero() || age > c.Stale || age < -c.Stale || !(p.Usage >= 0) || math.IsInf(p.Usage, 0) || !p.At.After(s.at) {
			continue
		}
		files := p.Files
		if !(files >= 0) {
			files = 0
		}
		s.add(c, p.At, p.Usage, max(0, p.Usage-files))
	}
	for id, s := range w.seen {
		if s.tick != w.tick {
			delete(w.seen, id)
		}
	}
}

// add a reading: all that is used, and what is held of that beside files.
func (s *workingSet) add(c MemoryConfig, at time.Time, used, held float64) {
	rise := 0.0
	if !s.begun || at.Sub(s.at) > 2*c.Stale {
		s.since, s.recent = at, [recent]reading{}
	}
	for i := range s.recent {
		if r := s.recent[i]; !r.at.IsZero() && (i == s.now || at.Sub(r.at) <= c.Lead) {
			rise = max(rise, held-r.held)
		}
	}
	s.now = (s.now + 1) % recent
	s.recent[s.now] = reading{at, held}
	if !s.begun || at.Sub(s.spans[s.last].from) >= c.Window/spans {
		s.last = (s.last + 1) % len(s.spans)
		s.spans[s.last] = span{from: at}
		s.begun = true
	}
	is := &s.spans[s.last]
	is.to, is.peak, is.held, is.rise = at, max(is.peak, used), max(is.held, held), max(is.rise, rise)
	s.at, s.rise = at, rise
}

func (s *workingSet) fresh(c MemoryConfig, now time.Time) bool {
	return s.begun && now.Sub(s.at) <= c.Stale
}

// seen is all of a window that ends now.
func (s *workingSet) seen(window time.Duration) (out span) {
	for _, is := range s.spans {
		if !is.from.IsZero() && s.at.Sub(is.to) <= window {
			out.peak, out.held, out.rise = max(out.peak, is.peak), max(out.held, is.held), max(out.rise, is.rise)
		}
	}
	return out
}

// headroom above a peak, bytes.
func (s span) headroom(c MemoryConfig, peak float64) float64 { return max(c.Headroom*peak, 2*s.rise) }

// kept is what a pod that was killed has at least: for a window it is raised to that; later
// what others have taken meanwhile is not taken back for it.
func (s *workingSet) kept(c MemoryConfig, now time.Time, limit int64) int64 {
	switch {
	case now.Sub(s.killed) < c.Window:
		return s.floor
	case now.Before(s.until):
		return min(s.floor, limit)
	}
	return 0
}

func ceilMiB(bytes float64) int64 {
	return int64(math.Ceil(min(bytes, most)/MiB)) * MiB
}

func floorMiB(bytes int64) int64 { return bytes / MiB * MiB }
