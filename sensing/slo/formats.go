package slo

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Kinds of the resources that are read, by their groups.
const (
	GroupSloth   = "sloth.slok.dev"
	KindSloth    = "PrometheusServiceLevel"
	GroupPyrra   = "pyrra.dev"
	KindPyrra    = "ServiceLevelObjective"
	GroupOpenSLO = "openslo.com"
	KindOpenSLO  = "SLO"
)

// number may be written as a text.
type number string

// UnmarshalJSON takes both.
func (n *number) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*n = number(text)
		return nil
	}
	var value json.Number
	if err := json.Unmarshal(b, &value); err != nil {
		return err
	}
	*n = number(value)
	return nil
}

// FromSloth reads the spec of a PrometheusServiceLevel (sloth.slok.dev/v1), as JSON or
// YAML: those of its SLOs that can be read, by name, and why the others can't.
func FromSloth(spec []byte) (map[string]Definition, map[string]error, error) {
	var s struct {
		SLOs []struct {
			Name      string `json:"name"`
			Objective number `json:"objective"`
			SLI       struct {
				Events *struct {
					ErrorQuery string `json:"errorQuery"`
					TotalQuery string `json:"totalQuery"`
				} `json:"events"`
			} `json:"sli"`
		} `json:"slos"`
	}
	if err := yaml.Unmarshal(spec, &s); err != nil {
		return nil, nil, err
	}
	out, wrong := map[string]Definition{}, map[string]error{}
	for _, in := range s.SLOs {
		if in.SLI.Events == nil {
			wrong[in.Name] = fmt.Errorf("sli must have events: a raw ratio or a plugin has no count of events")
			continue
		}
		d, err := FromPromQL(string(in.Objective), in.SLI.Events.ErrorQuery, in.SLI.Events.TotalQuery)
		if err != nil {
			wrong[in.Name] = err
			continue
		}
		out[in.Name] = d
	}
	return out, wrong, nil
}

// FromPyrra reads the spec of a ServiceLevelObjective (pyrra.dev/v1alpha1), as JSON or
// YAML. A grouping is summed over.
func FromPyrra(spec []byte) (Definition, error) {
	type metric struct {
		Metric string `json:"metric"`
	}
	var s struct {
		Target    number `json:"target"`
		Indicator struct {
			Ratio *struct {
				Errors metric `json:"errors"`
				Total  metric `json:"total"`
			} `json:"ratio"`
			Latency *struct {
				Success metric `json:"success"`
				Total   metric `json:"total"`
			} `json:"latency"`
		} `json:"indicator"`
	}
	if err := yaml.Unmarshal(spec, &s); err != nil {
		return Definition{}, err
	}
	counter := func(m metric) query { return query{text: m.Metric, raw: true} }
	switch i := s.Indicator; {
	case i.Ratio != nil:
		return define(string(s.Target), 100, counter(i.Ratio.Errors), query{}, counter(i.Ratio.Total))
	case i.Latency != nil:
		return define(string(s.Target), 100, query{}, counter(i.Latency.Success), counter(i.Latency.Total))
	}
	return Definition{}, fmt.Errorf("indicator must be ratio or latency: others don't count events")
}

// FromOpenSLO reads an SLO of OpenSLO v1, as JSON or YAML: one with its indicator in it,
// with a ratioMetric of Prometheus and one objective.
func FromOpenSLO(document []byte) (Definition, error) {
	type source struct {
		MetricSource struct {
			Type string          `json:"type"`
			Spec json.RawMessage `json:"spec"`
		} `json:"metricSource"`
	}
	var s struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			Indicator *struct {
				Spec struct {
					RatioMetric *struct {
						Counter bool    `json:"counter"`
						Good    *source `json:"good"`
						Bad     *source `json:"bad"`
						Total   *source `json:"total"`
					} `json:"ratioMetric"`
				} `json:"spec"`
			} `json:"indicator"`
			Objectives []struct {
				Target        number `json:"target"`
				TargetPercent number `json:"targetPercent"`
			} `json:"objectives"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(document, &s); err != nil {
		return Definition{}, err
	}
	switch {
	case s.APIVersion != "openslo/v1" && s.APIVersion != GroupOpenSLO+"/v1" || s.Kind != KindOpenSLO:
		return Definition{}, fmt.Errorf("must be an SLO of openslo/v1, is %q of %q", s.Kind, s.APIVersion)
	case s.Spec.Indicator == nil:
		return Definition{}, fmt.Errorf("spec.indicator is missing: write the indicator into the SLO instead of a reference to it")
	case s.Spec.Indicator.Spec.RatioMetric == nil:
		return Definition{}, fmt.Errorf("spec.indicator.spec must have a ratioMetric: others don't count events")
	case len(s.Spec.Objectives) != 1:
		return Definition{}, fmt.Errorf("spec.objectives must have one entry, has %d", len(s.Spec.Objectives))
	}
	ratio := s.Spec.Indicator.Spec.RatioMetric
	read := func(of string, in *source) (q query, err error) {
		if in == nil {
			return q, nil
		}
		if t := in.MetricSource.Type; t != "" && t != "Prometheus" && t != "prometheus" {
			return q, fmt.Errorf("%s.metricSource.type must be Prometheus, is %q", of, t)
		}
		var spec struct {
			Query string `json:"query"`
		}
		text := ""
		if json.Unmarshal(in.MetricSource.Spec, &text) == nil {
			spec.Query = text
		} else if err := json.Unmarshal(in.MetricSource.Spec, &spec); err != nil {
			return q, fmt.Errorf("%s.metricSource.spec: %w", of, err)
		}
		return query{text: spec.Query, raw: ratio.Counter}, nil
	}
	good, err := read("good", ratio.Good)
	if err != nil {
		return Definition{}, err
	}
	bad, err := read("bad", ratio.Bad)
	if err != nil {
		return Definition{}, err
	}
	total, err := read("total", ratio.Total)
	if err != nil {
		return Definition{}, err
	}
	if o := s.Spec.Objectives[0]; o.TargetPercent != "" {
		return define(string(o.TargetPercent), 100, bad, good, total)
	}
	return define(string(s.Spec.Objectives[0].Target), 1, bad, good, total)
}
