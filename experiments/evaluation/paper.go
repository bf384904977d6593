package main

import (
	"fmt"
	"strings"

	"github.com/mash2-io/mash2/experiments/score"
)

// published are the figures that the MAS-H² paper states in its section 4.2.1: the
// most replicas, and the CPU utilisation that goes with them.
var published = []struct {
	scenario, scaler, who, text string
	replicas                    int
}{
	{"heartbeat", "mash2", "MAS-H²", "8 replicas, mean CPU below 40 %", 8},
	{"heartbeat", "hpa", "HPA (80 %) + CA", "at most 3 replicas, CPU above 80 %", 3},
	{"flash-sale", "mash2", "MAS-H²", "4 replicas at 15 % CPU", 4},
	{"flash-sale", "hpa", "HPA (80 %) + CA", "1 replica at 35 % CPU", 1},
}

// users of the scenarios at their peaks, of the paper's tables 1 and 2, and the pods'
// requests that its HPA had used there: 3 replicas above 80 %, one at 35 %.
const (
	heartbeatUsers, heartbeatPods = 400, 3 * 0.80
	flashSaleUsers, flashSalePods = 700, 1 * 0.35
)

// paper compares with what the paper states and says which of our pictures are its
// figures.
func paper(real []experiment) string {
	var b strings.Builder
	b.WriteString("| MAS-H² paper | here |\n|---|---|\n")
	b.WriteString("| Figure 1, the hierarchy; figure 2, the prototype | [README](../../README.md#how-it-works) |\n")
	for i, name := range shown {
		made := "not made for this page"
		pairs := made
		for _, e := range real {
			if e.name == name {
				made = fmt.Sprintf("[%s.png](%s.png): replicas, CPU, nodes by pool, pending pods, pod cost, CPU waste, packing; all in `out/experiments/%s/report.html`", e.picture("paper"), e.picture("paper"), name)
				pairs = fmt.Sprintf("[%s.png](%s.png)", e.picture("pairs"), e.picture("pairs"))
			}
		}
		fmt.Fprintf(&b, "| Figure %d, %s over time | %s |\n| Figure %d, %s in pairs | %s |\n", 3+i, name, made, 5+i, name, pairs)
	}
	b.WriteString("| Tables 1 and 2, the loads | `experiments/scenarios/heartbeat.yaml`, `flash-sale.yaml` (the switch before the peak, as the text has it), `flash-sale-late.yaml` (in it, as the table has it) |\n\n")
	b.WriteString("| scenario | scaler | the paper says | here, real: most replicas | mean replicas | CPU mean, % | highest CPU, % |\n|---|---|---|---|---|---|---|\n")
	for _, p := range published {
		cells := []string{"–", "–", "–", "–"}
		for _, e := range real {
			if e.name != p.scenario {
				continue
			}
			for _, o := range e.recording.Outcomes {
				if o.Scaler != p.scaler {
					continue
				}
				r, err := o.Run()
				if err != nil {
					continue
				}
				for i, name := range []string{"maxReplicas", "meanReplicas", "meanCpuUtilization", "peakCpuUtilization"} {
					m := score.MetricNamed(name)
					cells[i] = score.IntervalOf([]float64{m.Of(r)}).Text(m)
				}
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p.scenario, p.who, p.text, strings.Join(cells, " | "))
	}
	own, other := heartbeatPods/heartbeatUsers, flashSalePods/flashSaleUsers
	fmt.Fprintf(&b, paperWhy, 1000*own, 1000*other, own/other)
	for _, e := range real {
		b.WriteString(e.direction())
	}
	return b.String() + "\n"
}

// direction tells whether mash2 has more replicas and less CPU of them than the HPA,
// as the paper's had.
func (e experiment) direction() string {
	by := map[string]score.Run{}
	for _, o := range e.recording.Outcomes {
		if r, err := o.Run(); err == nil && r.MeanReplicas != nil && r.MeanCPUUtilization != nil {
			by[o.Scaler] = r
		}
	}
	mine, ok := by["mash2"]
	hpa, ok2 := by["hpa"]
	if !ok || !ok2 {
		return ""
	}
	same := "not the paper's"
	if *mine.MeanReplicas > *hpa.MeanReplicas && *mine.MeanCPUUtilization < *hpa.MeanCPUUtilization {
		same = "the paper's"
	}
	return fmt.Sprintf("In %s mash2 has %.1f replicas on average at %.0f %% CPU, the HPA %.1f at %.0f %%: the direction is %s; mash2's pods cost %+.0f %%, its nodes %+.0f %%.\n",
		e.recording.Scenario, *mine.MeanReplicas, 100**mine.MeanCPUUtilization, *hpa.MeanReplicas, 100**hpa.MeanCPUUtilization, same,
		100*(mine.PodCostUSD/hpa.PodCostUSD-1), 100*(mine.CostUSD/hpa.CostUSD-1))
}
