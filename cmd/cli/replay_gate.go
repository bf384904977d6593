package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mash2-io/mash2/operator/replay"
)

// limits are those of the flags, and whether each is there. The cost's is a share.
func (o *replayFlags) limits() (cost float64, short time.Duration, err error) {
	if o.maxCost != "" {
		percent, ok := strings.CutSuffix(o.maxCost, "%")
		if cost, err = strconv.ParseFloat(percent, 64); !ok || err != nil || !(cost >= 0) {
			return 0, 0, Usagef("--max-cost-increase must be a percentage of at least 0, such as 5%%, not %q", o.maxCost)
		}
	}
	if o.maxShort != "" {
		if short, err = time.ParseDuration(o.maxShort); err != nil || short < 0 {
			return 0, 0, Usagef("--max-short-increase must be a duration such as 30m, not %q", o.maxShort)
		}
	}
	return cost / 100, short, nil
}

// gate reports whether there are limits, and as an error which of them are left.
func (o *replayFlags) gate(r replay.Result) (bool, error) {
	if o.maxCost == "" && o.maxShort == "" {
		return false, nil
	}
	most, longest, err := o.limits()
	if err != nil {
		return true, err
	}
	var errs []error
	b := r.Balance
	if o.maxCost != "" {
		switch {
		case b.Cost.Recorded == 0:
			errs = append(errs, errors.New("--max-cost-increase can't be judged: no nodes were planned for money when this was recorded"))
		case b.Unplanned > 0:
			errs = append(errs, fmt.Errorf("--max-cost-increase can't be judged: %s would plan no nodes; do the policies name nodePools?", counted(b.Unplanned, "cycle")))
		case b.Cost.Decided > b.Cost.Recorded*(1+most):
			errs = append(errs, fmt.Errorf("planned nodes would cost %.3f USD instead of %.3f: %.1f %% more, at most %s is allowed",
				b.Cost.Decided, b.Cost.Recorded, 100*(b.Cost.Decided/b.Cost.Recorded-1), o.maxCost))
		}
	}
	switch more := b.Short.Decided - b.Short.Recorded; {
	case o.maxShort == "":
	case b.Judged == 0:
		errs = append(errs, errors.New("--max-short-increase can't be judged: of no workload fresh CPU demand, requests and what had been decided a pod startup before were recorded"))
	case more > longest.Minutes():
		text := fmt.Sprintf("workloads would have too few replicas for %.1f minutes more (%.1f instead of %.1f), at most %s is allowed", more, b.Short.Decided, b.Short.Recorded, o.maxShort)
		if w := b.Worst; w != nil {
			text += fmt.Sprintf("; worst is %s, first at %s: %d replicas where demand needs %.2f", w.Workload, w.At.UTC().Format(time.RFC3339), w.Decided, w.Needs)
		}
		errs = append(errs, errors.New(text))
	}
	return true, errors.Join(errs...)
}
