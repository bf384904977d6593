package api

import (
	"strings"
	"testing"
)

// TestDescribeSpot: what labels say of a pool, and which are refused.
func TestDescribeSpot(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		spot   bool
		rate   float64
		err    string
	}{
		"none":                   {},
		"GKE's":                  {labels: map[string]string{"cloud.google.com/gke-spot": "true"}, spot: true, rate: DefaultInterruptions},
		"another value":          {labels: map[string]string{"cloud.google.com/gke-spot": "false"}},
		"Karpenter's":            {labels: map[string]string{"karpenter.sh/capacity-type": "spot"}, spot: true, rate: DefaultInterruptions},
		"not by mash2's":         {labels: map[string]string{"cloud.google.com/gke-spot": "true", LabelSpot: "false"}},
		"on demand":              {labels: map[string]string{"karpenter.sh/capacity-type": "on-demand"}},
		"mash2's, with rate":     {labels: map[string]string{LabelSpot: "true", LabelInterruptions: "0.2"}, spot: true, rate: 0.2},
		"never interrupted":      {labels: map[string]string{LabelSpot: "true", LabelInterruptions: "0"}, spot: true},
		"no rate without it":     {labels: map[string]string{LabelInterruptions: "0.2"}},
		"a rate that is none":    {labels: map[string]string{LabelSpot: "true", LabelInterruptions: "often"}, spot: true, rate: DefaultInterruptions, err: LabelInterruptions},
		"a negative one":         {labels: map[string]string{LabelSpot: "true", LabelInterruptions: "-1"}, spot: true, rate: DefaultInterruptions, err: LabelInterruptions},
		"NaN":                    {labels: map[string]string{LabelSpot: "true", LabelInterruptions: "NaN"}, spot: true, rate: DefaultInterruptions, err: LabelInterruptions},
		"neither true nor false": {labels: map[string]string{LabelSpot: "yes"}, err: LabelSpot},
	} {
		pool := Pool{Name: "p"}
		err := DescribeSpot(&pool, c.labels)
		if pool.Spot != c.spot || pool.Interruptions != c.rate {
			t.Errorf("%s: spot %v, %g interruptions an hour; want %v, %g", name, pool.Spot, pool.Interruptions, c.spot, c.rate)
		}
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), "pool p: label "+c.err+": must be") {
			t.Errorf("%s: error %v, want one about %q", name, err, c.err)
		}
	}
}

// TestPriceLabel: a price is a positive number.
func TestPriceLabel(t *testing.T) {
	for text, want := range map[string]float64{"0.03": 0.03, "0": -1, "cheap": -1, "-2": -1, "Inf": -1} {
		got, err := PriceLabel(Pool{Name: "p", Labels: map[string]string{LabelPrice: text}})
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %g, %v", text, got, err)
		}
	}
	if got, err := PriceLabel(Pool{}); got != 0 || err != nil {
		t.Errorf("without one: %g, %v", got, err)
	}
}
