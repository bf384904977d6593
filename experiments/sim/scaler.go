package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kinds of scalers. A scaler is a kind, and after a colon its parameter if it takes
// one.
const (
	// Mash2 is this operator. The parameter is the utilisation, in percent, that
	// workloads state instead of the policy's.
	Mash2 = "mash2"
	// Mash2Any is this operator with policies that allow every pool of the scenario:
	// it chooses the one to be on, as Karpenter is free to. The parameter is Mash2's.
	Mash2Any = "mash2-any"
	// Mash2Sized is this operator with what containers request chosen from usage, in place.
	// The parameter is Mash2's.
	Mash2Sized = "mash2-sized"
	// Mash2Mixed is Mash2Any with each workload on the pool that suits it, and Mash2Joint is
	// Mash2Mixed with what containers request chosen as well. The parameter is Mash2's.
	Mash2Mixed = "mash2-mixed"
	Mash2Joint = "mash2-joint"
	// Mash2Agents is this operator with agents that let pods grow in place (see [Agents]): from
	// their template's limit of CPU on, up to the parameter's percentage of it, twice without one.
	Mash2Agents = "mash2-agents"
	// Clairvoyant is Mash2Any with forecasts that are right: what is left to gain by
	// forecasting, with nodes, pods and boots as they are. The parameter is Mash2's.
	Clairvoyant = "clairvoyant"
	// Mash2RL is Mash2Any with planner rl and the one model of its configuration, or the one
	// that comes with the program. It takes no parameter.
	Mash2RL = "mash2-rl"
	// HPA is the stock HorizontalPodAutoscaler's rules with Cluster Autoscaler's, both
	// with their flags' defaults. The parameter is the target utilisation in percent;
	// the scenario's without one.
	HPA = "hpa"
	// HPAOverprovisioned is HPA at the scenario's target, and pause pods of priority
	// −10 that hold a share of the cluster free: Cluster Autoscaler's FAQ, "How can I
	// configure overprovisioning with Cluster Autoscaler?", with its 200m for each
	// core. The parameter is the share in percent, 20 as there without one.
	HPAOverprovisioned = "hpa-overprovisioned"
	// KEDARPS is a ScaledObject of KEDA on requests per second from Prometheus, with
	// KEDA's defaults, and Cluster Autoscaler. The parameter is the threshold, requests
	// per second and replica; without one what a replica can serve of its CPU request
	// on the pool's machines, times the scenario's target utilisation.
	KEDARPS = "keda-rps"
	// PHPA is the Predictive Horizontal Pod Autoscaler with the settings of its own
	// examples, a pass of the scenario being the season, and Cluster Autoscaler. The
	// parameter is the target utilisation in percent.
	PHPA = "phpa"
	// Karpenter is HPA's rules with Karpenter's provisioning and consolidation, of all
	// machine types of the scenario's pools. The parameter is the HPA's target.
	Karpenter = "karpenter"
	// HPAVPA is HPA, and a VerticalPodAutoscaler of memory for each workload: its
	// documentation rules out both on CPU. KarpenterVPA is Karpenter with the same.
	HPAVPA       = "hpa-vpa"
	KarpenterVPA = "karpenter-vpa"
	// KEDAVPA is KEDARPS and a VerticalPodAutoscaler of CPU and memory, which its
	// documentation allows beside an HPA on other metrics.
	KEDAVPA = "keda-vpa"
	// Attune is Karpenter, and requests of CPU and memory by Attune's documented percentiles in
	// mode Auto; Autopilot is Karpenter, and requests by the moving windows of Google's Autopilot
	// (S_p95 of CPU, S_p98 of memory).
	Attune    = "attune"
	Autopilot = "autopilot"
	// Steered is scaled by Options.Steering, with Cluster Autoscaler.
	Steered = "steered"
	// Static is as many replicas as the scenario's peak needs, and their nodes.
	Static = "static"
)

// Scalers are all that Run knows, with what their parameter is called.
func Scalers() []string {
	return []string{
		Mash2, Mash2 + ":PERCENT", Mash2Any + "[:PERCENT]", Mash2Sized + "[:PERCENT]", Mash2Mixed + "[:PERCENT]", Mash2Joint + "[:PERCENT]", Mash2Agents + "[:PERCENT]", Mash2RL, Clairvoyant + "[:PERCENT]", HPA, HPA + ":PERCENT", HPAOverprovisioned + "[:PERCENT]", KEDARPS + "[:RPS]",
		PHPA + "[:PERCENT]", Karpenter + "[:PERCENT]", HPAVPA + "[:PERCENT]", KarpenterVPA + "[:PERCENT]", KEDAVPA + "[:RPS]", Attune + "[:PERCENT]", Autopilot + "[:PERCENT]", Static,
	}
}

// kindOf is ParseScaler with Steered, which only programs can run: it has no rules of
// its own.
func kindOf(scaler string) (kind string, parameter float64, err error) {
	if scaler == Steered {
		return Steered, 0, nil
	}
	return ParseScaler(scaler)
}

// ParseScaler splits a scaler's name into its kind and its parameter, 0 for none.
// The error tells what is wrong with it.
func ParseScaler(scaler string) (kind string, parameter float64, err error) {
	kind, text, given := strings.Cut(scaler, ":")
	most := 100.0
	switch kind {
	case HPA, PHPA, Karpenter, HPAVPA, KarpenterVPA, Attune, Autopilot:
		most = 400 // of requests: pods may burst
	case Mash2Agents:
		most = 1000
	case Mash2, Mash2Any, Mash2Sized, Mash2Mixed, Mash2Joint, Clairvoyant:
	case HPAOverprovisioned:
		most = 90 // placeholders of a whole node never end
	case KEDARPS, KEDAVPA:
		most = 1e6
	case Static, Mash2RL:
		if given {
			return "", 0, fmt.Errorf("scaler %q: %s takes no parameter", scaler, kind)
		}
	default:
		return "", 0, fmt.Errorf("scaler %q is none of %s", scaler, strings.Join(Scalers(), ", "))
	}
	if !given {
		return kind, 0, nil
	}
	whole := kind != KEDARPS && kind != KEDAVPA
	parameter, err = strconv.ParseFloat(text, 64)
	switch {
	case kind == Mash2Agents && err == nil && parameter < 100:
		return "", 0, fmt.Errorf("scaler %q: pods grow from their template's limit on: the percentage must be 100 or more", scaler)
	case err != nil || !(parameter > 0 && parameter <= most):
		return "", 0, fmt.Errorf("scaler %q: the parameter must be a number from 1 to %g", scaler, most)
	case whole && (parameter != float64(int64(parameter)) || parameter < 1):
		return "", 0, fmt.Errorf("scaler %q: the percentage must be a whole number from 1 to %g", scaler, most)
	}
	return kind, parameter, nil
}

// ownPools tells whether a kind of scaler chooses among all pools of a scenario;
// the others have the first, with its autoscaler.
func ownPools(kind string) bool {
	return operated(kind) || slices.Contains([]string{Karpenter, KarpenterVPA, Attune, Autopilot}, kind)
}

// operated tells whether a kind of scaler is the operator's loop.
func operated(kind string) bool {
	return slices.Contains([]string{Mash2, Mash2Any, Mash2Sized, Mash2Mixed, Mash2Joint, Mash2Agents, Mash2RL, Clairvoyant}, kind)
}

// Recorded tells whether a kind of scaler is the operator's loop on what an operator sees: its cycles can
// be recorded, and replayed.
func Recorded(kind string) bool { return operated(kind) && kind != Clairvoyant }

// sizes and mixes tell whether a kind of scaler chooses what containers request, and a pool
// for each workload.
func sizes(kind string) bool { return kind == Mash2Sized || kind == Mash2Joint }
func mixes(kind string) bool { return kind == Mash2Mixed || kind == Mash2Joint }
