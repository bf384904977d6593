// Package sizing plans what the containers of one workload request, so that requests
// and replicas are one choice.
//
// CPU. Replicas follow demand: at a request of r millicores each, demand D needs
// R = ⌈D·k/(s·r)⌉ of them, k the headroom and s the speed of machines (MAS-H², eq. 3,
// with the planned request). What r decides is how much is wasted where R can't follow:
// below the minimum of replicas, by whole pods, and by the memory that every further pod
// asks for. So r is what costs the least over the days of demand that are known,
//
//	cost(r) = mean over t of clamp(R_t(r), least, most) · (p_cpu·r + p_mem·m)
//
// with demand of a week ago counting half as much as that of now,
// among requests up to the author's own: pods become smaller, never larger, unless demand
// doesn't fit into the most replicas. What a pod needs when it serves more than it ever
// did isn't known; what it needs when it serves less is no more than what was seen. A
// workload whose replicas are fixed gets what its peak needs by the same formula.
//
// Memory. The largest working set of any replica in the days that are known, and a
// margin. An OOM kill raises it at once, by a fifth and at least 100 MiB beyond the limit
// it happened at (VPA's oom-bump-up-ratio and oom-min-bump-up-bytes). Raising needs one
// reading; lowering needs a day of them, without a gap until now. Where the limit goes down
// with it, what it is too small for is killed (TestDownsizes has how often). Then lowering
// needs a week of readings, in which weekdays and weekends are, and keeps the limit above
// what the working set's tail may reach. Files that the kernel keeps in memory fill whatever
// limit there is, so they are no reason for more than its author's.
//
// Limits of CPU and memory kill and throttle, and cost nothing on a node: they are not
// lowered unless their author asks for their ratio, or the pod's quality of service does,
// and then not below what was ever used. What a container uses in its first moments isn't
// known: where a pod does not become Ready as its CPU limit holds it, CPU is its author's
// again, at once.
//
// Where the API server refuses pods of other sizes than their author's, as a LimitRange or
// a webhook may have it do, sizes are the author's again: a replica that is larger than it
// must be is better than none. Running pods grow to them, and none shrinks.
//
// Where nothing else is stated a container requests between a quarter and four times of
// what its author wrote: what was seen of a few days is not all that can come.
package sizing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Config of the planner. A run at n times the speed divides every duration by n.
type Config struct {
	// Evidence is how long usage must be known, without a gap, before less is requested.
	Evidence time.Duration
	// LimitEvidence is how long usage must be known, in all, before a memory limit goes down
	// with its request.
	LimitEvidence time.Duration
	// Patience is for how long a kubelet may not lower a memory limit before it is left as it was.
	Patience time.Duration
	// Fresh is how old the newest reading may be for that.
	Fresh time.Duration
	// Settle is the least time from one choice to another one that only saves money.
	Settle time.Duration
	// Look is how often the cost of other CPU requests is looked at.
	Look time.Duration
	// HalfLife is the age at which known demand counts half as much as that of now.
	HalfLife time.Duration
	// MemoryMargin is what is requested beyond the largest working set, over it.
	MemoryMargin float64
	// LimitMargin is the same where the memory limit goes down with the request.
	LimitMargin float64
	// Deadband is the relative change of a request below which nothing changes.
	Deadband float64
	// Worth is the share of a workload's cost that another CPU request must save.
	Worth float64
}

// DefaultConfig is for real time.
func DefaultConfig() Config {
	return Config{
		Evidence: 24 * time.Hour, LimitEvidence: 7 * 24 * time.Hour, Patience: 2 * time.Minute, Fresh: 15 * time.Minute, Settle: 12 * time.Hour, Look: time.Hour, HalfLife: 7 * 24 * time.Hour,
		MemoryMargin: 0.15, LimitMargin: 0.3, Deadband: 0.1, Worth: 0.05,
	}
}

// Scaled returns c for a run at speed times real time.
func (c Config) Scaled(speed float64) Config {
	for _, d := range []*time.Duration{&c.Evidence, &c.LimitEvidence, &c.Patience, &c.Fresh, &c.Settle, &c.Look, &c.HalfLife} {
		*d = time.Duration(float64(*d) / speed)
	}
	return c
}

// VPA's defaults of its recommender's flags oom-bump-up-ratio and oom-min-bump-up-bytes.
const (
	oomRatio = 1.2
	oomLeast = 100 << 20
)

const (
	// oomFor is how long an OOM kill is remembered: VPA's history, eight days.
	oomFor = 8 * 24 * time.Hour
	// leastCPU is the least that a container is given, millicores; below it the share that
	// a kernel gives is all rounding.
	leastCPU = 10
	// cpuStep and memoryStep are what requests are whole multiples of.
	cpuStep    = 5
	memoryStep = 1 << 20
	// apart is how many times more or less than its author wrote a container may request
	// where no bound is stated.
	apart = 4
	// finer is how many requests are tried between one and twice of it.
	finer = 16
	// sample is the step at which demand of the past is looked at, its largest in it.
	sample = 5 * time.Minute
	// burstable is how much a limit is above the request where it must not equal it:
	// equal ones would change the pod's quality of service, which can't be changed.
	burstable = 1.05
	// peakMargin is what is added to the highest demand where no more replicas can be had.
	peakMargin = 1.1
)

// CPUToMemory is what a core costs in GiB of memory: Google's list prices of n2 and e2
// (us-central1, on demand: 0.031611 and 0.004237 USD per hour).
const CPUToMemory = 7.46

// Prices of what pods request, in USD per hour.
type Prices struct {
	Core float64 // one core
	GiB  float64 // one GiB of memory
}

// DefaultPrices are Google's list prices of n2 in us-central1, for clusters whose nodes
// have none.
var DefaultPrices = Prices{Core: 0.031611, GiB: 0.004237}

// of so much, USD per hour.
func (p Prices) of(milliCPU, memory float64) float64 {
	return p.Core*milliCPU/1000 + p.GiB*memory/(1<<30)
}

// Machine is a kind of machine.
type Machine struct {
	Room  api.Amounts // that one has for pods
	Price float64     // USD per hour; 0 if not known
	Speed float64     // of its cores, as of Input
}

// Input is everything a choice depends on. It must not be written to.
type Input struct {
	Time   time.Time
	Sizing api.Sizing
	// Demand is CPU usage of all replicas together, reference millicores, and Stale tells
	// that its newest part is not known.
	Demand api.Series
	Stale  bool
	// Forecast is the highest demand that is expected; 0 if not known.
	Forecast float64
	// Least and Most replicas that the workload may have.
	Least, Most int32
	// Headroom is by how much requests are more than expected usage, and LeastHeadroom by how much
	// where that would be more than Ceiling, reference millicores; 0 for no ceiling.
	Headroom, LeastHeadroom, Ceiling float64
	// Machines that the workload's pods may be on, one of each kind; none if not known.
	Machines []Machine
	// Alone is the share, 0 to 1, of what pods request of CPU that is this workload's: as far as
	// nobody else is there, nobody uses what its pods leave of a machine.
	Alone float64
	// Speed of the machines it runs on.
	Speed  float64
	Prices Prices
	// FixedCPU is not empty where CPU requests must stay, and says why.
	FixedCPU string
	// Doubt is not empty where nothing may become smaller now, and says why.
	Doubt string
	// Kept is what ran while objectives were kept, where the whole plan is taken back to
	// that; nil where it isn't.
	Kept []api.ContainerPlan
}

// Memory is what is remembered from one cycle to the next.
type Memory struct {
	// Containers as they were chosen, and Since when; Template is from when on the template
	// requests what it does, zero if always.
	Containers []api.ContainerPlan `json:"containers,omitempty"`
	Since      time.Time           `json:"since,omitzero"`
	Template   time.Time           `json:"template,omitzero"`
	// Acted tells that pods were given these sizes.
	Acted bool `json:"acted,omitempty"`
	// Looked is when the cost of other CPU requests was last looked at, and Saved when one
	// was last chosen for it.
	Looked time.Time `json:"looked,omitzero"`
	Saved  time.Time `json:"saved,omitzero"`
	// Priced is when Cost and Saving were found.
	Priced time.Time `json:"priced,omitzero"`
	Cost   float64   `json:"cost,omitempty"`
	Saving float64   `json:"saving,omitempty"`
	// Refused is when pods of other sizes than their author's were refused, zero if they
	// weren't; RefusedFor is why, and RefusedLarger tells that they had more of something.
	Refused       time.Time `json:"refused,omitzero"`
	RefusedFor    string    `json:"refusedFor,omitempty"`
	RefusedLarger bool      `json:"refusedLarger,omitempty"`
	// Slow is when a pod was last held by a CPU limit less than its author's, so that it
	// did not become Ready, zero if none was; SlowFor is which.
	Slow    time.Time `json:"slow,omitzero"`
	SlowFor string    `json:"slowFor,omitempty"`
	// Crowded is when a node of its pods was last short of memory, zero if none was;
	// CrowdedOn is its name.
	Crowded   time.Time `json:"crowded,omitzero"`
	CrowdedOn string    `json:"crowdedOn,omitempty"`
	// Kills are the newest kills of containers for their memory, in the template's order:
	// pods that would tell of them may be gone.
	Kills []Kill `json:"kills,omitempty"`
	// Stuck are the memory limits that kubelets do not lower.
	Stuck []Stuck `json:"stuck,omitempty"`
}

// Planner chooses what containers request.
type Planner struct{ Config Config }

// Plan returns what the containers should request and what to remember of it. What isn't
// known changes nothing. It is pure.
func (p Planner) Plan(in Input, m Memory) (api.SizingPlan, Memory) {
	c := &chooser{Config: p.Config, in: in, m: m}
	c.start()
	c.kills()
	c.stuck()
	plan := api.SizingPlan{Mode: in.Sizing.Mode, Hold: in.Sizing.Hold}
	c.refusals()
	c.slowness()
	c.crowds()
	switch {
	case c.asWritten():
		// Replicas are counted by these sizes, so running pods grow to them. None shrinks.
		if plan.Mode == api.SizingInPlace && (in.Sizing.AsWritten != "" || c.m.RefusedLarger) {
			plan.Mode = api.SizingInitialOnly
		}
	case in.Sizing.Hold != "":
	case in.Kept != nil:
		c.takeBack()
		c.raise()
		c.startable()
		c.roomy()
		c.fit()
		c.limits()
	default:
		c.memory()
		c.cpu()
		c.startable()
		c.roomy()
		c.keep()
		c.limits()
		c.bound()
	}
	if c.changed() {
		c.m.Since, c.m.Priced = in.Time, time.Time{}
	}
	c.m.Containers = c.now
	c.money()
	plan.Containers, plan.Since, plan.Cost, plan.Saving = slices.Clone(c.now), c.m.Since, c.m.Cost, c.m.Saving
	if !c.m.Slow.IsZero() {
		plan.CPUAsWrittenUntil = c.m.Slow.Add(slowFor)
	}
	if !c.m.Crowded.IsZero() {
		plan.MemoryAsWrittenUntil = c.m.Crowded.Add(crowdedFor)
	}
	plan.Reason = c.reason()
	return plan, c.m
}

// chooser is the state of one choice.
type chooser struct {
	Config
	in  Input
	m   Memory
	was []api.ContainerPlan // before, one for each container
	now []api.ContainerPlan
	cpuWhy,
	waits string // what there is to say of CPU, and what a saving waits for
}

// start finds what was chosen before for the template of now. Another template is another
// program for all that is known: its author's requests hold until it is known again.
func (c *chooser) start() {
	before := c.m.Containers
	if before == nil {
		// Who chose these may have known why, a new template or a kill, which nobody does now: what
		// has been seen since then counts.
		before = c.in.Sizing.Planned
		c.m.Since, c.m.Template = c.in.Sizing.PlannedSince, c.in.Sizing.PlannedSince
	}
	for _, u := range c.in.Sizing.Containers {
		plan := api.ContainerPlan{Name: u.Name, Requests: u.Requests, Limits: u.Limits, Template: u.Requests, TemplateLimits: u.Limits, Reason: "as its author wrote it"}
		at := slices.IndexFunc(before, func(p api.ContainerPlan) bool { return p.Name == u.Name })
		switch {
		case at >= 0 && before[at].Template == u.Requests:
			plan = before[at]
			plan.TemplateLimits = u.Limits
			if u.Limits == (api.Amounts{}) {
				plan.Limits = api.Amounts{}
			}
		case at >= 0 || len(before) > 0:
			c.m.Template = c.in.Time
		}
		c.now = append(c.now, plan)
	}
	c.was = slices.Clone(c.now)
	if c.in.Sizing.Hold == "" {
		c.fix()
	}
}

// fix makes what is not chosen, or not any more, its author's.
func (c *chooser) fix() {
	for i, u := range c.in.Sizing.Containers {
		plan := &c.now[i]
		before := plan.Requests
		if u.FixedCPU || c.in.FixedCPU != "" {
			plan.Requests.MilliCPU, plan.Limits.MilliCPU = u.Requests.MilliCPU, u.Limits.MilliCPU
		}
		if u.FixedMemory {
			plan.Requests.Memory, plan.Limits.Memory = u.Requests.Memory, u.Limits.Memory
		}
		switch plan.Requests {
		case before:
		case u.Requests:
			plan.Reason = "as its author wrote it"
		default:
			plan.Reason = "what is not chosen any more is as its author wrote it"
		}
	}
}

// keep lets nothing become smaller while there is doubt.
func (c *chooser) keep() {
	if c.in.Doubt == "" {
		return
	}
	for i := range c.now {
		r, was := &c.now[i].Requests, c.was[i].Requests
		if r.MilliCPU < was.MilliCPU || r.Memory < was.Memory {
			c.waits = "nothing is requested less: " + c.in.Doubt
			r.MilliCPU, r.Memory = max(r.MilliCPU, was.MilliCPU), max(r.Memory, was.Memory)
		}
	}
}

func (c *chooser) changed() bool {
	for i := range c.now {
		if c.now[i].Requests != c.was[i].Requests || c.now[i].Limits != c.was[i].Limits {
			return true
		}
	}
	return c.m.Since.IsZero() || c.m.Template.Equal(c.in.Time)
}

// since is from when on a container's usage counts.
func (c *chooser) since(u api.ContainerUse) time.Time {
	if c.m.Template.After(u.Since) {
		return c.m.Template
	}
	return u.Since
}

// proven reports whether usage is known for long enough, up to now, to request less; else
// why not.
func (c *chooser) proven(u api.ContainerUse, evidence time.Duration) (why string) {
	since := c.since(u)
	switch {
	case u.Since.IsZero():
		return "its usage is not known"
	case c.in.Time.Sub(u.Until) > c.Fresh:
		return fmt.Sprintf("its usage is not known since %s", u.Until.UTC().Format(time.RFC3339))
	case u.Until.Sub(since) < evidence:
		return fmt.Sprintf("its usage is known for %s of the %s that it takes", max(0, u.Until.Sub(since)).Round(time.Minute), evidence)
	}
	return ""
}

func (c *chooser) lowersCPULimit(u api.ContainerUse) bool {
	return u.Limits.MilliCPU > 0 && c.lowersLimits()
}

// lowersLimits reports whether limits follow requests down: a pod stays Guaranteed only if all of them do.
func (c *chooser) lowersLimits() bool {
	return c.in.Sizing.Guaranteed || c.in.Sizing.Limits == api.LimitsRatio
}

// limits follow requests.
func (c *chooser) limits() {
	for i, u := range c.in.Sizing.Containers {
		plan := &c.now[i]
		plan.Limits.MilliCPU = limit(u.Requests.MilliCPU, u.Limits.MilliCPU, plan.Requests.MilliCPU, u.CPUPeak, c.lowersLimits())
		plan.Limits.Memory = limit(u.Requests.Memory, u.Limits.Memory, plan.Requests.Memory, u.MemoryPeak, c.lowersLimits())
	}
}

// limit is what becomes of an author's limit, where the request has changed; peak is the
// most that was used, and lowers tells that it follows the request down.
func limit(authors, limit, request, peak int64, lowers bool) int64 {
	ratio := float64(limit) / math.Max(float64(authors), 1)
	switch {
	case limit == 0 || request == authors:
		return limit
	case limit == authors && lowers:
		return request
	case limit == authors:
		return max(limit, request)
	case lowers:
		return max(int64(math.Ceil(float64(request)*ratio)), peak)
	case float64(request)*burstable > float64(limit):
		return int64(math.Ceil(float64(request) * math.Max(ratio, burstable)))
	}
	return limit
}

// bound keeps what the author allows, whatever was chosen or read.
func (c *chooser) bound() {
	for i, u := range c.in.Sizing.Containers {
		r := &c.now[i].Requests
		least, most := c.allowed(u)
		if controlled(u) {
			r.MilliCPU = within(r.MilliCPU, least.MilliCPU, most.MilliCPU)
		}
		if !u.FixedMemory && r.Memory > 0 {
			r.Memory = within(r.Memory, least.Memory, most.Memory)
		}
		if told := ", as LimitRange " + u.Range.Names + " allows"; atRange(u, *r, least, most) && !strings.Contains(c.now[i].Reason, told) {
			c.now[i].Reason += told
		}
	}
	c.fit()
	c.limits()
}

func roundUp(v float64, step int64) int64 {
	return int64(math.Ceil(v/float64(step)-1e-9)) * step
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", math.Ceil(float64(n)/(1<<20))) }

// reason is what there is to say of the whole.
func (c *chooser) reason() string {
	var parts []string
	if c.in.Sizing.Hold != "" {
		parts = append(parts, c.in.Sizing.Hold)
	}
	for i, u := range c.in.Sizing.Containers {
		if plan := c.now[i]; plan.Requests != u.Requests {
			parts = append(parts, fmt.Sprintf("%s requests %s instead of %s (%s)", u.Name, plan.Requests, u.Requests, plan.Reason))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "containers request what their author wrote")
	}
	return strings.Join(append(parts, slices.DeleteFunc([]string{c.cpuWhy, c.waits}, func(s string) bool { return s == "" })...), "; ")
}

// requests of one replica at some sizes.
func requests(containers []api.ContainerPlan) (sum api.Amounts) {
	for _, p := range containers {
		sum.MilliCPU += p.Requests.MilliCPU
		sum.Memory += p.Requests.Memory
	}
	return sum
}

// template is what one replica requests by its author.
func (c *chooser) template() (sum api.Amounts) {
	for _, u := range c.in.Sizing.Containers {
		sum.MilliCPU += u.Requests.MilliCPU
		sum.Memory += u.Requests.Memory
	}
	return sum
}
