package scenarios

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Kinds of distributions.
const (
	Constant    = "constant"
	Exponential = "exponential"
	Uniform     = "uniform"
	LogNormal   = "lognormal"
)

// Distribution of a non-negative duration.
type Distribution struct {
	// Kind is constant, exponential, uniform or lognormal.
	Kind string `yaml:"distribution"`
	// Mean of every kind.
	Mean Duration `yaml:"mean"`
	// Deviation is the standard deviation of a lognormal distribution, and
	// half the width of a uniform one (mean ± deviation). The other kinds have
	// none of their own choosing.
	Deviation Duration `yaml:"deviation,omitempty"`
}

// Sample draws a value in seconds.
func (d Distribution) Sample(r *rand.Rand) float64 {
	mean, dev := d.Mean.Seconds(), d.Deviation.Seconds()
	switch d.Kind {
	case Exponential:
		return mean * r.ExpFloat64()
	case Uniform:
		return mean + dev*(2*r.Float64()-1)
	case LogNormal:
		// With X = exp(μ + σZ): mean = exp(μ + σ²/2), var/mean² = exp(σ²) − 1.
		s2 := math.Log1p(dev * dev / (mean * mean))
		return math.Exp(math.Log(mean) - s2/2 + math.Sqrt(s2)*r.NormFloat64())
	default:
		return mean
	}
}

func (d Distribution) validate() error {
	mean, dev := d.Mean.Duration, d.Deviation.Duration
	if mean < 0 || dev < 0 {
		return errors.New("mean and deviation must not be negative")
	}
	switch d.Kind {
	case Constant, Exponential:
		if dev != 0 {
			return fmt.Errorf("a %s distribution has no deviation", d.Kind)
		}
	case Uniform:
		if dev > mean {
			return errors.New("deviation must not exceed the mean: values would be negative")
		}
	case LogNormal:
		if mean == 0 {
			return errors.New("the mean of a lognormal distribution must be positive")
		}
	default:
		return fmt.Errorf("distribution %q is none of %s, %s, %s, %s", d.Kind, Constant, Exponential, Uniform, LogNormal)
	}
	return nil
}

// MeanSeconds is the distribution's mean in seconds.
func (d Distribution) MeanSeconds() float64 { return d.Mean.Seconds() }

// Variation is the standard deviation relative to the mean; 0 without a mean.
func (d Distribution) Variation() float64 {
	if d.Mean.Duration == 0 {
		return 0
	}
	by := d.Deviation.Seconds() / d.Mean.Seconds()
	switch d.Kind {
	case Exponential:
		return 1
	case Uniform:
		return by / math.Sqrt(3) // of a width of twice the deviation
	case LogNormal:
		return by
	}
	return 0
}
