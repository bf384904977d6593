package api

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Labels by which pools say of themselves what no provider tells.
const (
	// LabelPrice is what a node costs, USD per hour.
	LabelPrice = Group + "/price-per-hour"
	// LabelSpot is true on nodes that their provider may take away at any time, and false on
	// such as are to count as others, whatever the provider's own label says.
	LabelSpot = Group + "/spot"
	// LabelInterruptions is how often that happens, per node and hour. Without it
	// DefaultInterruptions.
	LabelInterruptions = Group + "/interruptions-per-hour"
)

// DefaultInterruptions of a spot node, per hour, where its pool states none: one in
// fifty hours. No provider publishes figures for all of its types; users measure
// anything from one a month to several a day.
const DefaultInterruptions = 0.02

// SpotPriceRatio is what a spot node costs of a like one on demand where no price of its
// own is known: Google states discounts of 60 to 91 %, and the smallest counts.
const SpotPriceRatio = 0.4

// spotLabels are those that providers and node autoscalers put on spot nodes.
var spotLabels = map[string]string{
	"cloud.google.com/gke-spot":             "true",
	"cloud.google.com/gke-preemptible":      "true",
	"eks.amazonaws.com/capacityType":        "SPOT",
	"karpenter.sh/capacity-type":            "spot",
	"kubernetes.azure.com/scalesetpriority": "spot",
	"node.kubernetes.io/lifecycle":          "spot",
	LabelSpot:                               "true",
}

// DescribeSpot notes on a pool whether its nodes are spot, by these labels of theirs, and
// how often each is taken away. The error names a label whose value can't be used.
func DescribeSpot(pool *Pool, labels map[string]string) error {
	pool.Spot, pool.Interruptions = false, 0
	for label, value := range spotLabels {
		pool.Spot = pool.Spot || labels[label] == value
	}
	if text, ok := labels[LabelSpot]; ok && !slices.Contains([]string{"true", "false"}, text) {
		return fmt.Errorf("pool %s: label %s: must be true or false, is %q", pool.Name, LabelSpot, text)
	}
	if pool.Spot = pool.Spot && labels[LabelSpot] != "false"; !pool.Spot {
		return nil
	}
	pool.Interruptions = DefaultInterruptions
	text, ok := labels[LabelInterruptions]
	if !ok {
		return nil
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || !(rate >= 0) || math.IsInf(rate, 0) {
		return fmt.Errorf("pool %s: label %s: must be a number of 0 or more, is %q", pool.Name, LabelInterruptions, text)
	}
	pool.Interruptions = rate
	return nil
}

// PriceLabel is the price that a pool's labels state, USD per node and hour; 0 where they
// state none.
func PriceLabel(pool Pool) (float64, error) {
	text, ok := pool.Labels[LabelPrice]
	if !ok {
		return 0, nil
	}
	price, err := strconv.ParseFloat(text, 64)
	if err != nil || !(price > 0) || math.IsInf(price, 0) {
		return 0, fmt.Errorf("pool %s: label %s: must be a positive number, is %q", pool.Name, LabelPrice, text)
	}
	return price, nil
}
