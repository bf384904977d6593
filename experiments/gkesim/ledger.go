package gkesim

import "time"

// Lifetime is the paid time of one instance. Its times are those of the clock,
// not of the scenario.
type Lifetime struct {
	Pool, MachineType, Zone string
	// Node is the name of the instance and of its node.
	Node string
	// Requested is when the instance was created, Booted when its node
	// registered, Deleted when it was gone; the latter two are zero until then.
	Requested, Booted, Deleted time.Time
}

// Duration is the time from the boot request to deletion, or to now.
func (l Lifetime) Duration(now time.Time) time.Duration {
	if !l.Deleted.IsZero() {
		now = l.Deleted
	}
	return max(0, now.Sub(l.Requested))
}

// Ledger returns the lifetimes of all instances so far, in the order of their
// requests.
func (s *Server) Ledger() []Lifetime {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Lifetime, len(s.ledger))
	for i, l := range s.ledger {
		out[i] = *l
	}
	return out
}

// NodeHours returns the node-hours of each pool so far, from boot request to
// deletion, in scenario time.
func (s *Server) NodeHours() map[string]float64 {
	now := s.cfg.Clock.Now()
	hours := map[string]float64{}
	for _, p := range s.cfg.Pools {
		hours[p.Name] = 0
	}
	for _, l := range s.Ledger() {
		hours[l.Pool] += l.Duration(now).Hours() * s.cfg.Speed
	}
	return hours
}
