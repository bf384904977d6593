package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
)

// over accounts for the time between two flags.
func over(l *record.Log, q record.Question, from, to string) (record.Account, error) {
	begin, err := recordedTime(l, "from", from)
	if err != nil {
		return record.Account{}, err
	}
	end, err := until(l, "to", to)
	if err != nil {
		return record.Account{}, err
	}
	if to == "" {
		last, err := l.At(time.Time{})
		if err != nil {
			return record.Account{}, err
		}
		end = last.Cycle.Time
	}
	if end.Before(begin) {
		return record.Account{}, Usagef("--to %s is before --from %s", to, from)
	}
	account, err := l.Over(q, begin, end)
	if err != nil {
		return account, Usage(err)
	}
	return account, nil
}

// accountText is for people: the result first, then each change.
func accountText(a record.Account) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Between %s and %s, in %s under %s:\n", a.From.UTC().Format(time.RFC3339), a.To.UTC().Format(time.RFC3339), counted(a.Cycles, "cycle"), strings.Join(a.Policies, ", then "))
	course := func(c record.Course, what string) {
		size := change(c.From, c.To) + " " + what
		switch {
		case c.Steps > 0 && c.From == c.To:
			size += " at both ends"
		case c.Steps == 0:
			size += " all the time"
		}
		fmt.Fprintf(&b, "  %s %s", named(c.Object), size)
		if c.Steps > 0 {
			fmt.Fprintf(&b, ", in %s, between %d and %d", counted(c.Steps, "step"), c.Least, c.Most)
		}
		if c.DemandFrom > 0 && c.DemandTo > 0 {
			fmt.Fprintf(&b, "; CPU usage %.2f → %.2f cores", c.DemandFrom/1000, c.DemandTo/1000)
		}
		fmt.Fprintln(&b)
		if c.Why != "" {
			fmt.Fprintf(&b, "    at last %s\n", c.Why)
		}
	}
	for _, w := range a.Workloads {
		course(w, "replicas")
	}
	for _, p := range a.Pools {
		course(p, "nodes")
	}
	for _, c := range a.Unchanged {
		what := "replicas"
		if c.Object.Kind == api.KindPool {
			what = "nodes"
		}
		course(c, what)
	}
	if len(a.Workloads)+len(a.Pools)+len(a.Unchanged) == 0 {
		fmt.Fprintln(&b, "  no size changed; --workload or --node-pool says why")
	}
	fmt.Fprintf(&b, "  nodes cost %.3f USD/h at first and %.3f at last, %.3f USD in between\n", a.HourlyFrom, a.HourlyTo, a.Spent)
	if a.Held > 0 {
		fmt.Fprintf(&b, "  %s decided nothing\n", counted(a.Held, "cycle"))
	}
	if len(a.Changes) > 0 {
		fmt.Fprintln(&b, "What happened:")
	}
	for _, k := range a.Changes {
		size := ""
		if k.From != nil && k.To != nil {
			size = " " + change(*k.From, *k.To)
		}
		about := named(k.Object) + size + ": "
		if k.Object == api.CycleRef {
			about = ""
		}
		fmt.Fprintf(&b, "  %s  %s%s\n", k.Time.UTC().Format(time.TimeOnly), about, k.Text)
	}
	if a.Left > 0 {
		fmt.Fprintf(&b, "  and %d more; a shorter time, --workload or --node-pool lists them\n", a.Left)
	}
	for _, f := range a.Failing {
		fmt.Fprintf(&b, "Still failing since %s: %s: %s\n", f.Since.UTC().Format(time.TimeOnly), f.Action, f.Error)
	}
	for _, f := range a.Open {
		fmt.Fprintf(&b, "Still: %s\n", f)
	}
	for _, f := range a.Gone {
		fmt.Fprintf(&b, "Over: %s %s\n", f.Reason, named(f.Object))
	}
	lostText(&b, a.Lost)
	return strings.TrimRight(b.String(), "\n")
}

// named is an object without the word for the commonest kind.
func named(o api.ObjectRef) string { return strings.TrimPrefix(o.String(), "workload ") }
