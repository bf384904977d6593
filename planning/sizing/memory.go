package sizing

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// memory chooses the memory requests.
func (c *chooser) memory() {
	for i, u := range c.in.Sizing.Containers {
		plan := &c.now[i]
		if u.FixedMemory || u.Requests.Memory == 0 || u.Since.IsZero() && c.kill(u.Name).Limit == 0 {
			continue
		}
		margin, follows := c.MemoryMargin, c.lowersMemoryLimit(u)
		if follows {
			margin = c.LimitMargin
		}
		// 1. An OOM kill says what was too little.
		need := roundUp(float64(u.MemoryPeak)*(1+margin), memoryStep)
		why := fmt.Sprintf("peak %s and %.0f %%", mebibytes(u.MemoryPeak), 100*margin)
		if most := c.filled(u, margin); most < need {
			need, why = most, fmt.Sprintf("peak %s, of which %s are no files, within the limit", mebibytes(u.MemoryPeak), mebibytes(u.MemoryResident))
		}
		if k := c.kill(u.Name); k.Limit > 0 {
			after := k.need()
			if !k.Resized && k.Limit < u.Limits.Memory { // more at each of several kills would be a kill too many
				after = max(after, u.Requests.Memory)
			}
			if after > need {
				need, why = after, fmt.Sprintf("killed at %s for its memory at %s", k.At.UTC().Format(time.RFC3339), mebibytes(k.Limit))
				if k.Resized {
					why = fmt.Sprintf("killed at %s for its memory, and has %s since", k.At.UTC().Format(time.RFC3339), mebibytes(k.Limit))
				}
			}
		}
		if k := c.stuckAt(u.Name); follows && c.in.Time.Sub(k.Since) >= c.Patience {
			if at := requestAt(k.Limit, u); at > need {
				need, why = at, fmt.Sprintf("kubelets did not lower its limit from %s at %s, as it uses more with the files that are kept for it",
					mebibytes(k.Limit), k.Since.UTC().Format(time.RFC3339))
			}
		}
		least, most := c.allowed(u)
		need = within(need, least.Memory, most.Memory)
		have := plan.Requests.Memory
		// 2. More at once, less when it is proven.
		if need > have {
			if float64(u.MemoryPeak)*(1+margin/3) > float64(have) || float64(need) > float64(have)*(1+c.Deadband) {
				plan.Requests.Memory, plan.Reason = need, "memory: "+why
			}
			continue
		}
		if follows && c.tail(u) > need {
			need, why = within(c.tail(u), least.Memory, most.Memory), fmt.Sprintf("peak %s, which varies up to %s", mebibytes(u.MemoryPeak), mebibytes(u.MemoryTail))
		}
		if float64(need) >= float64(have)*(1-c.Deadband) {
			continue
		}
		wait := c.proven(u, c.Evidence)
		if wait == "" && follows {
			wait = c.provenForLimit(u)
		}
		if wait != "" {
			c.waits = fmt.Sprintf("%s may need less memory than %s, but %s", u.Name, mebibytes(have), wait)
			continue
		}
		plan.Requests.Memory, plan.Reason = need, "memory: "+why
	}
}

// raise requests the memory that usage or a kill ask for, and none less.
func (c *chooser) raise() {
	before, waits := slices.Clone(c.now), c.waits
	c.memory()
	for i := range c.now {
		if c.now[i].Requests.Memory < before[i].Requests.Memory {
			c.now[i] = before[i]
		}
	}
	c.waits = waits
}

// filled is the most that usage is a reason to request. The kernel keeps files until a limit is
// reached, whatever that is, and drops them where memory is short: beyond its author's limit only
// what is no file counts.
func (c *chooser) filled(u api.ContainerUse, margin float64) int64 {
	if u.Limits.Memory == 0 || u.MemoryResident == 0 {
		return math.MaxInt64
	}
	within := u.Requests.Memory // its limit follows, or is that
	if u.Limits.Memory != u.Requests.Memory && !c.lowersMemoryLimit(u) {
		within = int64(float64(u.Limits.Memory) / burstable)
	}
	return max(within, roundUp(float64(u.MemoryResident)*(1+margin), memoryStep))
}

// tail is the request at which the limit that follows it is what the working set may reach.
func (c *chooser) tail(u api.ContainerUse) int64 { return requestAt(u.MemoryTail, u) }

// requestAt is the memory request whose limit, which follows it, is this.
func requestAt(limit int64, u api.ContainerUse) int64 {
	return roundUp(float64(limit)*float64(u.Requests.Memory)/float64(u.Limits.Memory), memoryStep)
}

// provenForLimit reports whether usage is known for long enough, gaps left out, to lower a
// memory limit; else why not.
func (c *chooser) provenForLimit(u api.ContainerUse) (why string) {
	known := u.MemoryKnown
	if since := u.Until.Sub(c.m.Template); !c.m.Template.IsZero() && since < known {
		known = since
	}
	if known < c.LimitEvidence || u.MemoryTail == 0 {
		return fmt.Sprintf("its usage is known for %s of the %s that it takes for a limit", known.Round(time.Minute), c.LimitEvidence)
	}
	return ""
}

// lowersMemoryLimit reports whether a container's memory limit follows its request down.
func (c *chooser) lowersMemoryLimit(u api.ContainerUse) bool {
	return u.Limits.Memory > 0 && c.lowersLimits()
}
