package sizing

import (
	"math"
	"time"
)

// oomAgain is how soon after a kill another one says nothing more: a cycle, and what a kubelet takes to
// resize. A container that fails at its start is killed several times in it.
const oomAgain = 30 * time.Second

// Kill of a container for its memory, with a limit of so many bytes.
type Kill struct {
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
	Limit int64     `json:"limit"`
	// Resized tells that it was resized since: Limit is what it was given then.
	Resized bool `json:"resized,omitempty"`
	// Last is the newest kill that is known, where that is another one.
	Last time.Time `json:"last,omitzero"`
}

// need is the memory that a container needs after it, bytes: more than it had, or what it was
// given for it.
func (k Kill) need() int64 {
	if k.Resized {
		return k.Limit
	}
	return roundUp(math.Max(float64(k.Limit)*oomRatio, float64(k.Limit)+oomLeast), memoryStep)
}

// newest is when the newest kill was.
func (k Kill) newest() time.Time {
	if k.Last.After(k.At) {
		return k.Last
	}
	return k.At
}

// kills remembers what containers were killed at: what needs more where that is known of two
// times that are not long ago. A kill counts once, with the limit of when it was seen first:
// its pod may have been resized since, and its container killed again before the kubelet carries that out.
func (c *chooser) kills() {
	var kept []Kill
	for _, u := range c.in.Sizing.Containers {
		k := Kill{Name: u.Name, At: u.OOMKilled, Limit: u.OOMLimit, Resized: u.OOMResized}
		if before := c.kill(u.Name); before.Limit > 0 {
			switch {
			case k.Limit == 0 || !k.At.After(before.newest()):
				k = before
			case (before.need() >= k.need() || k.At.Sub(before.newest()) < oomAgain) && c.in.Time.Sub(before.At) < oomFor:
				before.Last = k.At
				k = before
			}
		}
		if k.Limit > 0 && c.in.Time.Sub(k.At) < oomFor {
			kept = append(kept, k)
		}
	}
	c.m.Kills = kept
}

// kill is the one of a container; the zero Kill if none is known.
func (c *chooser) kill(name string) Kill {
	for _, k := range c.m.Kills {
		if k.Name == name {
			return k
		}
	}
	return Kill{}
}
