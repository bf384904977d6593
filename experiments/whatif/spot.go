package whatif

import (
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// Spot is what of a workload's replicas would run on spot machines, and what these are like.
type Spot struct {
	// Share of the replicas at most, 0–1; 0 tries none. Floor is how many never do; the
	// minimum replicas if 0.
	Share float64
	Floor int32
	// PriceRatio is what a machine costs of a like one on demand, Interruptions how often each
	// is taken away, per hour.
	PriceRatio, Interruptions float64
}

// spotOutage is for how long, on average, there are none after one was taken away.
const spotOutage = 5 * time.Minute

func (s Spot) validate() error {
	switch {
	case !(s.Share >= 0 && s.Share <= 1):
		return fmt.Errorf("--spot-share must be between 0 and 1, is %v", s.Share)
	case s.Share == 0:
		return nil
	case s.Floor < 0:
		return fmt.Errorf("--spot-floor must not be negative, is %d", s.Floor)
	case !(s.PriceRatio > 0 && s.PriceRatio <= 1):
		return fmt.Errorf("--spot-price must be above 0 and at most 1, is %v", s.PriceRatio)
	case !(s.Interruptions >= 0 && s.Interruptions <= 60):
		return fmt.Errorf("--spot-interruptions must be between 0 and 60, is %v", s.Interruptions)
	}
	return nil
}

// spotSuffix is that of the names of spot pools.
const spotSuffix = "-spot"

// beside is a scenario with a spot pool beside each pool that a policy allows, and policies that
// allow it these as well.
func (s Spot) beside(of scenarios.Scenario, policies, policy string) (scenarios.Scenario, string, error) {
	allowed := []string{of.Pools[0].Name}
	if policy != api.CostSaving {
		allowed = []string{of.Pools[len(of.Pools)-1].Name}
	}
	if policies != "" {
		spec, err := configmap.Parse(map[string]string{configmap.KeyPolicy: policy, configmap.KeyPolicies: policies}, nil)
		if err != nil {
			return of, "", err
		}
		allowed = spec.Policies[policy].NodePools
	}
	of.Pools = slices.Clone(of.Pools)
	pools := slices.Clone(allowed)
	for _, p := range of.Pools {
		if !slices.Contains(allowed, p.Name) {
			continue
		}
		p.Name += spotSuffix
		p.Nodes, p.NodesPerZone.Min = 0, 0
		p.Spot = &scenarios.SpotMachines{PriceRatio: s.PriceRatio, InterruptionsPerHour: s.Interruptions, Outage: scenarios.Duration{Duration: spotOutage}}
		of.Pools, pools = append(of.Pools, p), append(pools, p.Name)
	}
	spot := map[string]any{"maxShare": s.Share}
	if s.Floor > 0 {
		spot["floor"] = s.Floor
	}
	text, err := withPolicy(policies, policy, map[string]any{"nodePools": pools, "spot": spot})
	return of, text, err
}

// SpotSaving is what a policy saves by spot machines, and what that does to its service.
type SpotSaving struct {
	Policy string `json:"policy"`
	// Share of the replicas on spot machines at most, Floor of them never.
	Share float64 `json:"share"`
	Floor int32   `json:"floor"`
	// Cost of nodes relative to the same policy's without, −0.1 is a tenth less, with its 95 %
	// interval over seeds; and by how many minutes more violate the SLO, on average.
	Cost                 score.Interval `json:"cost"`
	MoreViolationMinutes float64        `json:"moreViolationMinutes"`
	// SavingUSD30Days is by how much less nodes cost in thirty such days, USD.
	SavingUSD30Days float64 `json:"savingUsd30Days"`
}

// spots are the savings of all policies that were tried with spot machines.
func (o *Result) spots(runs []score.Run, spot Spot, floor int32) {
	if spot.Share == 0 {
		return
	}
	for _, p := range o.Policies {
		without, with := o.of(p), o.named(job{scaler: "mash2", policy: p, spot: spot.Share}.name())
		o.Spot = append(o.Spot, SpotSaving{
			Policy: p, Share: spot.Share, Floor: floor,
			Cost:                 score.Relative(runs, with.Scaler, without.Scaler, score.MetricNamed("costUsd")),
			MoreViolationMinutes: with.Mean("sloViolationMinutes") - without.Mean("sloViolationMinutes"),
			SavingUSD30Days:      without.CostUSD30Days - with.CostUSD30Days,
		})
	}
}

// Sentence says it.
func (s SpotSaving) Sentence() string {
	return fmt.Sprintf("%s with at most %g %% of the replicas on spot machines and never fewer than %d off them: its nodes cost %s, %.2f USD less in 30 days, with %+.1f minutes in violation",
		s.Policy, 100*s.Share, s.Floor, s.Cost.Text(score.Percent), s.SavingUSD30Days, s.MoreViolationMinutes)
}
