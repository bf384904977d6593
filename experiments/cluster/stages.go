package cluster

import (
	_ "embed"
	"fmt"
	"strings"
	"text/template"
	"time"
)

// FakeNodeAnnotation and FakeNodeValue mark the nodes that kwok plays: it
// keeps them Ready, renews their leases and runs the pods bound to them.
const (
	FakeNodeAnnotation = "kwok.x-k8s.io/node"
	FakeNodeValue      = "fake"
)

// Range is an interval from which a duration is drawn uniformly.
type Range struct{ Min, Max time.Duration }

// Delays are how long the steps of a pod's life take, in scenario time: each
// pod draws its own. kwok draws anew, and waits from then on, when the pod is
// changed while a step is pending; nothing in Kubernetes changes pods then,
// but annotating a pod that is starting or terminating prolongs the step.
type Delays struct {
	// Startup is from the binding to a node until the containers run: image
	// pull, sandbox, container start.
	Startup Range
	// Readiness is from then until the readiness probes succeed.
	Readiness Range
	// Termination is from the deletion until the last container has exited.
	// An application that exceeds its grace period is not modelled.
	Termination Range
	// Resize is from an in-place change of resources until the status
	// reports it.
	Resize Range
	// Completion is how long the pods of a Job run.
	Completion Range
}

// DefaultDelays are those of a small web service whose image is on the node.
//
//   - Startup 1–3 s: Kubernetes' own objective is that 99 % of stateless pods
//     start within 5 s once scheduled, image pulling excluded (SIG Scalability,
//     pod startup latency SLO); 1–3 s is the body of that.
//   - Readiness 2–5 s: an assumption; a service that needs a few seconds to
//     warm up, seen by probes of a short period.
//   - Termination 2–5 s: an assumption; requests in flight are drained and a
//     preStop hook of a few seconds waits for endpoints to be updated, well
//     inside the default grace period of 30 s.
//   - Resize 0.4–1 s: measured with a real kubelet and containerd, 0.44–0.95 s.
//   - Completion 1–2 s: an assumption; Jobs play no part in the scenarios.
func DefaultDelays() Delays {
	return Delays{
		Startup:     Range{1 * time.Second, 3 * time.Second},
		Readiness:   Range{2 * time.Second, 5 * time.Second},
		Termination: Range{2 * time.Second, 5 * time.Second},
		Resize:      Range{400 * time.Millisecond, 1 * time.Second},
		Completion:  Range{1 * time.Second, 2 * time.Second},
	}
}

func (d Delays) validate() error {
	for _, r := range []struct {
		name string
		Range
	}{
		{"startup", d.Startup}, {"readiness", d.Readiness}, {"termination", d.Termination},
		{"resize", d.Resize}, {"completion", d.Completion},
	} {
		if r.Min < 0 || r.Max < r.Min {
			return fmt.Errorf("%s delay from %v to %v is no range", r.name, r.Min, r.Max)
		}
	}
	return nil
}

//go:embed stages.yaml.tmpl
var stagesText string

// The template's delimiters are not kwok's, whose templates are inside.
var stagesTemplate = template.Must(template.New("stages").Delims("<<", ">>").Parse(stagesText))

// Stages returns kwok's configuration for these delays divided by speed, as
// YAML documents.
func (d Delays) Stages(speed float64) string {
	at := func(r Range) map[string]int64 {
		return map[string]int64{
			"Min": scale(r.Min, speed).Milliseconds(),
			"Max": scale(r.Max, speed).Milliseconds(),
		}
	}
	var out strings.Builder
	err := stagesTemplate.Execute(&out, map[string]any{
		"Startup":     at(d.Startup),
		"Readiness":   at(d.Readiness),
		"Termination": at(d.Termination),
		"Resize":      at(d.Resize),
		"Completion":  at(d.Completion),
		"Annotation":  FakeNodeAnnotation + "=" + FakeNodeValue,
	})
	if err != nil {
		panic(err) // the template is a constant, and the writer never fails
	}
	return out.String()
}

// scale is a duration of the scenario in wall-clock time.
func scale(d time.Duration, speed float64) time.Duration {
	return time.Duration(float64(d) / speed)
}
