package sizing

import "time"

// Stuck is a container whose memory limit kubelets do not lower. They compare the new limit with
// all that the container uses, the files that the kernel keeps for it included, which may be as
// much as the old limit for ever. Until then they carry out no part of the pod's resize, so that
// it does not get more CPU either.
type Stuck struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	Limit int64     `json:"limit"` // that it keeps, bytes
}

// stuckFor is how long such a limit is left as it was.
const stuckFor = oomFor

// stuck remembers which limits kubelets do not lower, and forgets those that they lowered before
// patience was over.
func (c *chooser) stuck() {
	var kept []Stuck
	for _, u := range c.in.Sizing.Containers {
		k := c.stuckAt(u.Name)
		if k.Limit > 0 && (c.m.Template.Equal(c.in.Time) || c.in.Time.Sub(k.Since) >= stuckFor || u.MemoryStuck == 0 && c.in.Time.Sub(k.Since) < c.Patience) {
			k = Stuck{}
		}
		if u.MemoryStuck > 0 && k.Limit == 0 {
			k = Stuck{Name: u.Name, Since: c.in.Time}
		}
		if k.Limit = max(k.Limit, u.MemoryStuck); k.Limit > 0 {
			kept = append(kept, k)
		}
	}
	c.m.Stuck = kept
}

// stuckAt is the one of a container; the zero Stuck if none is known.
func (c *chooser) stuckAt(name string) Stuck {
	for _, k := range c.m.Stuck {
		if k.Name == name {
			return k
		}
	}
	return Stuck{}
}
