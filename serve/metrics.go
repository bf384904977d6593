package serve

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mash2-io/mash2/api"
)

// Metrics turns cycles into Prometheus metrics. Gauges are rendered from the
// last record when scraped, so that a workload or pool that is gone leaves no
// series behind.
type Metrics struct {
	steps    *prometheus.HistogramVec
	cycles   *prometheus.CounterVec
	actions  *prometheus.CounterVec
	findings *prometheus.CounterVec

	mu       sync.Mutex
	last     api.Cycle
	lastOK   time.Time
	forecast map[api.Key]*pending
}

// pending are forecasts that wait for their time to come, oldest first.
type pending struct {
	points []forecastPoint
	due    float64 // the newest forecast whose time has come, cores
	known  bool
}

type forecastPoint struct {
	at    time.Time
	value float64
}

// NewMetrics registers the operator's metrics with r.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mash2_cycle_step_duration_seconds",
			Help:    "Duration of each numbered step of a cycle.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 12),
		}, []string{"step"}),
		cycles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mash2_cycles_total",
			Help: "Cycles by result: ok, or held when it ended early and changed nothing.",
		}, []string{"result"}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mash2_actions_total",
			Help: "Actions by agent, kind and result: ok, error or skipped.",
		}, []string{"agent", "kind", "result"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mash2_findings_total",
			Help: "Findings by severity and reason.",
		}, []string{"severity", "reason"}),
		forecast: map[api.Key]*pending{},
	}
	for _, c := range []prometheus.Collector{m.steps, m.cycles, m.actions, m.findings, m} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Report implements mash2.Reporter.
func (m *Metrics) Report(_ context.Context, c api.Cycle) {
	for _, s := range c.Steps {
		m.steps.WithLabelValues(s.Step).Observe(s.Duration.Seconds())
	}
	for _, o := range c.Outcomes {
		result := "ok"
		switch {
		case o.Error != "":
			result = "error"
		case o.Skipped != "":
			result = "skipped"
		}
		m.actions.WithLabelValues(string(o.Agent), o.Kind, result).Inc()
	}
	for _, f := range c.Findings {
		m.findings.WithLabelValues(string(f.Severity), f.Reason).Inc()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Error != "" {
		m.cycles.WithLabelValues("held").Inc()
		return // the gauges keep the last complete picture
	}
	m.cycles.WithLabelValues("ok").Inc()
	m.last, m.lastOK = c, c.Time
	m.remember(c)
}

// remember keeps each workload's forecast for the times that are to come and
// moves on to the one whose time has come.
func (m *Metrics) remember(c api.Cycle) {
	present := make(map[api.Key]bool, len(c.Plan.Workloads))
	for _, w := range c.Plan.Workloads {
		present[w.Key] = true
		p := m.forecast[w.Key]
		if p == nil {
			p = &pending{}
			m.forecast[w.Key] = p
		}
		for len(p.points) > 0 && !p.points[0].at.After(c.Time) {
			p.due, p.known = p.points[0].value, true
			p.points = p.points[1:]
		}
		// Of each forecast only its last step is kept: the one made with the
		// full horizon's lead.
		if f := w.Forecast; f != nil && len(f.Mean) > 0 {
			at := f.Start.Add(time.Duration(len(f.Mean)-1) * f.Step)
			if n := len(p.points); n == 0 || at.After(p.points[n-1].at) {
				p.points = append(p.points, forecastPoint{at, f.Mean[len(f.Mean)-1] / 1000})
			}
		}
	}
	for k := range m.forecast {
		if !present[k] {
			delete(m.forecast, k)
		}
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	descLast     = desc("mash2_last_complete_cycle_timestamp_seconds", "Time of the last cycle that ran to its end.")
	descPolicy   = desc("mash2_policy_active", "1 for the active policy.", "policy", "source")
	descPaused   = desc("mash2_paused", "1 while every write is stopped.")
	descUtility  = desc("mash2_plan_utility", "Utility of the plan, and its dimensionless terms.", "term")
	descReplicas = desc("mash2_workload_replicas", "Replicas: current, ready, planned, the reactive floor, and those nodes are kept for.", "namespace", "workload", "state")
	descDemand   = desc("mash2_workload_demand_cores", "CPU demand now, in cores of the reference machine.", "namespace", "workload")
	descTrigger  = desc("mash2_workload_trigger_replicas", "Replicas that a trigger asks for now; absent while it is missing.", "namespace", "workload", "trigger")
	descMissing  = desc("mash2_workload_trigger_missing", "1 while a trigger can't be read, so that replicas don't go down.", "namespace", "workload", "trigger")
	descForecast = desc("mash2_workload_forecast_cores", "What was forecast for now one horizon ago (mean), reference cores.", "namespace", "workload")
	descPeak     = desc("mash2_workload_forecast_peak_cores", "Planned peak of the coming horizon at the policy's quantile, reference cores.", "namespace", "workload")
	descSkill    = desc("mash2_workload_forecast_skill_ratio", "Skill of the forecast against the last value: 1 - loss / its loss. Below 0 the last value is better. Also of a forecast that is not used.", "namespace", "workload", "model")
	descSeasonal = desc("mash2_workload_forecast_seasonal_skill_ratio", "Skill of the forecast against the value of a season before: 1 - error / its error. Also of a forecast that is not used.", "namespace", "workload", "model")
	descCoverage = desc("mash2_workload_forecast_coverage_ratio", "Share of what came that was within the 90 % interval of its forecast, 0-1. Also of a forecast that is not used.", "namespace", "workload", "model")
	descTrust    = desc("mash2_workload_forecast_trusted", "1 while the forecast may raise replicas (up), and while it may lower them as well (full).", "namespace", "workload", "trust")
	descLicence  = desc("mash2_workload_forecast_licensed", "Deprecated: mash2_workload_forecast_trusted under its old name.", "namespace", "workload", "licence")
	descHeld     = desc("mash2_workload_held", "1 for a workload that is not acted on.", "namespace", "workload")
	descBack     = desc("mash2_plan_rolled_back", "1 while the whole plan is taken back because an SLO burnt.")
	descSLO      = desc("mash2_workload_slo", "1 for the verdict on an SLO: Good, Burning or Inconclusive.", "namespace", "workload", "slo", "verdict")
	descBurn     = desc("mash2_workload_slo_burn_rate", "Share of bad events over that which the SLO allows, of the newest reading.", "namespace", "workload", "slo")
	descCanary   = desc("mash2_workload_canary", "1 for the phase of the trial that a workload is in, and its role there.", "namespace", "workload", "phase", "role")
	descEvidence = desc("mash2_canary_evidence", "Evidence, 1 to begin with, that a namespace's canaries are worse than they may be, and that they are fine.", "namespace", "of")
	descStale    = desc("mash2_workload_demand_stale", "1 while the demand of a workload that is planned is too old or too full of gaps to scale down on.", "namespace", "workload")
	descNodes    = desc("mash2_pool_nodes", "Nodes of a pool: target, ready, planned.", "pool", "machine_type", "state")
	descGap      = desc("mash2_packing_gap_ratio", "By how much the packing of all pods from scratch is at most dearer than the cheapest there is, over its cost.", "solver")
	descPlanCost = desc("mash2_plan_cost_usd_per_hour", "Price of the planned nodes, and the bound that no packing is cheaper than.", "state")
	descCost     = desc("mash2_pool_cost_usd_per_hour", "Price of a pool's nodes: of its target size, and as planned.", "pool", "machine_type", "state")
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLast, descPolicy, descPaused, descUtility, descReplicas, descDemand, descTrigger, descMissing,
		descForecast, descPeak, descSkill, descSeasonal, descCoverage, descTrust, descLicence, descHeld, descBack, descSLO, descBurn, descCanary, descEvidence, descStale, descNodes, descCost, descGap, descPlanCost} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lastOK.IsZero() {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		if !math.IsNaN(v) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
		}
	}
	c := m.last
	gauge(descLast, float64(m.lastOK.UnixNano())/1e9)
	gauge(descPolicy, 1, c.Policy.Name, string(c.Policy.Source))
	gauge(descPaused, truth(c.Paused))
	gauge(descBack, truth(c.Plan.Rollback != nil))
	gauge(descUtility, c.Plan.Utility.Performance, "performance")
	gauge(descUtility, c.Plan.Utility.Cost, "cost")
	gauge(descUtility, c.Plan.Utility.Resilience, "resilience")
	gauge(descUtility, c.Plan.Utility.Total, "total")
	for _, w := range c.Workloads {
		gauge(descReplicas, float64(w.Replicas), w.Key.Namespace, w.Key.Name, "current")
		gauge(descReplicas, float64(w.ReadyReplicas), w.Key.Namespace, w.Key.Name, "ready")
		// Of one that is off or held, as it is scaled to zero, nothing is planned by demand.
		gauge(descStale, truth(w.DemandStale && w.Mode != api.ModeOff && w.HoldReason == ""), w.Key.Namespace, w.Key.Name)
		if w.Demand >= 0 {
			gauge(descDemand, w.Demand/1000, w.Key.Namespace, w.Key.Name)
		}
		if p := m.forecast[w.Key]; p != nil && p.known {
			gauge(descForecast, p.due, w.Key.Namespace, w.Key.Name)
		}
	}
	tried := map[string]bool{}
	for _, w := range c.Plan.Workloads {
		if p := w.Canary; p != nil {
			gauge(descCanary, 1, w.Key.Namespace, w.Key.Name, string(p.Phase), string(p.Role))
			if !tried[w.Key.Namespace] {
				gauge(descEvidence, p.Worse, w.Key.Namespace, "worse")
				gauge(descEvidence, p.Fine, w.Key.Namespace, "fine")
			}
			tried[w.Key.Namespace] = true
		}
		gauge(descReplicas, float64(w.Replicas), w.Key.Namespace, w.Key.Name, "planned")
		gauge(descReplicas, float64(w.Floor), w.Key.Namespace, w.Key.Name, "floor")
		gauge(descReplicas, float64(w.NodeReplicas), w.Key.Namespace, w.Key.Name, "nodes")
		gauge(descHeld, truth(w.Held), w.Key.Namespace, w.Key.Name)
		for _, s := range w.Triggers {
			gauge(descMissing, truth(s.Missing != ""), w.Key.Namespace, w.Key.Name, s.Name)
			if s.Missing == "" {
				gauge(descTrigger, float64(s.Replicas), w.Key.Namespace, w.Key.Name, s.Name)
			}
		}
		for _, s := range w.SLOs {
			gauge(descSLO, 1, w.Key.Namespace, w.Key.Name, s.Name, string(s.Verdict))
			if s.BurnRate >= 0 {
				gauge(descBurn, s.BurnRate, w.Key.Namespace, w.Key.Name, s.Name)
			}
		}
		if w.PeakDemand >= 0 {
			gauge(descPeak, w.PeakDemand/1000, w.Key.Namespace, w.Key.Name)
		}
		if k := w.Skill; k != nil {
			if k.LastValue != nil {
				gauge(descSkill, *k.LastValue, w.Key.Namespace, w.Key.Name, k.Model)
			}
			if k.Seasonal != nil {
				gauge(descSeasonal, *k.Seasonal, w.Key.Namespace, w.Key.Name, k.Model)
			}
			if k.Coverage != nil {
				gauge(descCoverage, *k.Coverage, w.Key.Namespace, w.Key.Name, k.Model)
			}
			for _, t := range []api.Trust{api.TrustUp, api.TrustFull} {
				may := truth(k.Trust == t || k.Trust == api.TrustFull)
				gauge(descTrust, may, w.Key.Namespace, w.Key.Name, string(t))
				gauge(descLicence, may, w.Key.Namespace, w.Key.Name, string(t))
			}
		}
	}
	machine := make(map[string]string, len(c.Pools))
	for _, p := range c.Pools {
		machine[p.Name] = p.MachineType
		gauge(descNodes, float64(p.TargetNodes), p.Name, p.MachineType, "target")
		gauge(descNodes, float64(p.ReadyNodes), p.Name, p.MachineType, "ready")
		gauge(descCost, p.HourlyCost, p.Name, p.MachineType, "target")
	}
	if n := c.Plan.Nodes; len(n.Pools) > 0 {
		gauge(descGap, n.Gap, n.Solver)
		gauge(descPlanCost, n.HourlyCost, "planned")
		gauge(descPlanCost, n.LowerBound, "bound")
	}
	for _, p := range c.Plan.Nodes.Pools {
		gauge(descNodes, float64(p.Nodes), p.Pool, machine[p.Pool], "planned")
		gauge(descCost, p.HourlyCost, p.Pool, machine[p.Pool], "planned")
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
