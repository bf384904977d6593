package sizing

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

const (
	// refusedFor is how long sizes stay the author's after others were refused.
	refusedFor = oomFor
	// slowFor is how long CPU stays the author's after pods did not become Ready with less.
	slowFor = oomFor
	// crowdedFor is how long memory stays the author's after a node was short of it.
	crowdedFor = oomFor
	// quotaUsedUp is what the API server says where a ResourceQuota has no room left.
	quotaUsedUp = "exceeded quota"
	// notAsked is what it says where it could not ask a webhook.
	notAsked = "failed calling webhook"
)

// ofSizes are words of a refusal for what pods request: other ones are of privileges, names
// or numbers.
var ofSizes = regexp.MustCompile(`(?i)\b(cpu|memory|resources?)\b`)

// takeBack requests what ran while objectives were kept, where that is more. Limits follow.
func (c *chooser) takeBack() {
	for i := range c.now {
		plan := &c.now[i]
		at := slices.IndexFunc(c.in.Kept, func(k api.ContainerPlan) bool { return k.Name == plan.Name && k.Template == plan.Template })
		if at < 0 {
			continue
		}
		kept := c.in.Kept[at]
		if kept.Requests.MilliCPU > plan.Requests.MilliCPU || kept.Requests.Memory > plan.Requests.Memory {
			kept.Requests.MilliCPU = max(kept.Requests.MilliCPU, plan.Requests.MilliCPU)
			kept.Requests.Memory = max(kept.Requests.Memory, plan.Requests.Memory)
			kept.Reason = "it ran while the SLOs were kept, and the whole plan is taken back to that"
			kept.TemplateLimits = plan.TemplateLimits
			*plan = kept
		}
	}
	c.fix()
}

// slowness remembers that a pod did not become Ready with the CPU limit that it has. The
// published plan remembers it beyond this program.
func (c *chooser) slowness() {
	if c.m.Slow.IsZero() && c.m.Containers == nil {
		if until := c.in.Sizing.CPUAsWrittenUntil; until.After(c.in.Time) {
			c.m.Slow, c.m.SlowFor = until.Add(-slowFor), "a pod did not become Ready with less"
		}
	}
	if c.m.Template.Equal(c.in.Time) || c.in.Time.Sub(c.m.Slow) >= slowFor {
		c.m.Slow, c.m.SlowFor = time.Time{}, ""
	}
	// An hour later is soon enough to notice that it still is so.
	if c.in.Sizing.Slow != "" && c.m.Acted && !c.m.Template.Equal(c.in.Time) && c.in.Time.Sub(c.m.Slow) >= c.Look {
		c.m.Slow, c.m.SlowFor = c.in.Time, c.in.Sizing.Slow
	}
}

// startable requests no less CPU than a container's author wrote where pods did not become
// Ready with less. Limits follow.
func (c *chooser) startable() {
	if c.m.Slow.IsZero() {
		return
	}
	c.cpuWhy = fmt.Sprintf("CPU requests are no less than written before %s: %s", c.m.Slow.Add(slowFor).UTC().Format(time.RFC3339), c.m.SlowFor)
	for i, u := range c.in.Sizing.Containers {
		if plan := &c.now[i]; plan.Requests.MilliCPU < u.Requests.MilliCPU {
			plan.Requests.MilliCPU = u.Requests.MilliCPU
			plan.Reason = "cpu: as its author wrote it, as pods did not become Ready with less"
		}
	}
}

// crowds remembers that a node of its pods was short of memory: what requests leave free there, others
// use, who request less than they use. The published plan remembers it beyond this program.
func (c *chooser) crowds() {
	if c.m.Crowded.IsZero() && c.m.Containers == nil {
		if until := c.in.Sizing.MemoryAsWrittenUntil; until.After(c.in.Time) {
			c.m.Crowded, c.m.CrowdedOn = until.Add(-crowdedFor), "one of its nodes"
		}
	}
	if c.in.Time.Sub(c.m.Crowded) >= crowdedFor {
		c.m.Crowded, c.m.CrowdedOn = time.Time{}, ""
	}
	// An hour later is soon enough to notice that it still is so.
	if on := c.in.Sizing.Crowded; on != "" && c.in.Time.Sub(c.m.Crowded) >= c.Look {
		c.m.Crowded, c.m.CrowdedOn = c.in.Time, "node "+on
	}
}

// roomy requests no less memory than a container's author wrote where nodes were short of it.
// Limits follow.
func (c *chooser) roomy() {
	if c.m.Crowded.IsZero() {
		return
	}
	for i, u := range c.in.Sizing.Containers {
		if plan := &c.now[i]; !u.FixedMemory && plan.Requests.Memory < u.Requests.Memory {
			plan.Requests.Memory = u.Requests.Memory
			plan.Reason = fmt.Sprintf("memory: as its author wrote it before %s, as %s was short of it",
				c.m.Crowded.Add(crowdedFor).UTC().Format(time.RFC3339), c.m.CrowdedOn)
		}
	}
}

// refusals remembers that pods of these sizes were refused for them. A quota that is used up
// is not their fault where they have no more than their author wrote.
func (c *chooser) refusals() {
	if c.m.Template.Equal(c.in.Time) || c.in.Time.Sub(c.m.Refused) >= refusedFor {
		c.m.Refused, c.m.RefusedFor, c.m.RefusedLarger = time.Time{}, "", false
	}
	why := c.in.Sizing.Refused
	if why == "" || !c.m.Acted || !c.in.Sizing.Admits || c.m.Template.Equal(c.in.Time) {
		return
	}
	other, larger := false, false
	for i, u := range c.in.Sizing.Containers {
		is := c.now[i]
		other = other || is.Requests != u.Requests || is.Limits != u.Limits
		for _, amount := range [][2]api.Amounts{{is.Requests, u.Requests}, {is.Limits, u.Limits}} {
			larger = larger || amount[0].MilliCPU > amount[1].MilliCPU || amount[0].Memory > amount[1].Memory
		}
	}
	if !other || !ofSizes.MatchString(why) || strings.Contains(why, notAsked) || !larger && strings.Contains(why, quotaUsedUp) {
		return
	}
	c.m.Refused, c.m.RefusedFor, c.m.RefusedLarger = c.in.Time, why, larger
}

// asWritten takes containers back to what their author wrote, where nothing else is let in,
// and reports whether that is so.
func (c *chooser) asWritten() bool {
	why := c.in.Sizing.AsWritten
	if why == "" && !c.m.Refused.IsZero() {
		why = fmt.Sprintf("pods of other sizes were refused at %s: %s", c.m.Refused.UTC().Format(time.RFC3339), c.m.RefusedFor)
	}
	if why == "" {
		return false
	}
	copy(c.now, c.in.Sizing.Authors("as its author wrote it"))
	c.waits = why
	return true
}
