package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/record/knowledge"
)

// route is a path below /api/v1/ with what describes it. The description that is served is
// made of it, so that none is without one.
type route struct {
	Method, Path string
	// Summary is what it does, in a sentence.
	Summary string
	// Query parameters, by name.
	Query []parameter
	// Body is a value of the type that is sent, Answer of the one that comes; nil for none,
	// and for one that is not described.
	Body, Answer any
	// get answers a GET, act does what any other method asks for.
	get func(v Viewer, r *http.Request) (any, error)
	act func(r *http.Request, body []byte) error
}

// parameter of a query.
type parameter struct {
	Name, Summary string
	Kind          string // string, integer or date-time
	Repeated      bool
}

// Parameters that several routes have.
var (
	namespaceParameter = parameter{Name: "namespace", Kind: "string", Summary: "the namespace to show, for who may not see all"}
	atParameter        = parameter{Name: "at", Kind: "date-time", Summary: "the cycle in force then; the newest without it"}
	workloadParameter  = parameter{Name: "workload", Kind: "string", Summary: "NAMESPACE/NAME of a ManagedWorkload"}
	poolParameter      = parameter{Name: "pool", Kind: "string", Summary: "name of a node pool"}
	beforeParameter    = parameter{Name: "before", Kind: "date-time", Summary: "only what was before"}
	limitParameter     = parameter{Name: "limit", Kind: "integer", Summary: "how many of the newest, 1 to 1000; 100 without it"}
)

// Answers that are lists.
type (
	// WorkloadList is the answer to workloads.
	WorkloadList struct {
		Workloads []WorkloadView `json:"workloads"`
	}
	// ChangeList is the answer to changes.
	ChangeList struct {
		Changes []record.Change `json:"changes"`
	}
	// CycleList is the answer to cycles.
	CycleList struct {
		Cycles []Head `json:"cycles"`
	}
	// KnowledgeList is the answer to knowledge.
	KnowledgeList struct {
		Entries []knowledge.Entry `json:"entries"`
	}
)

// Bodies of what changes something.
type (
	// PolicyBody is sent to policy.
	PolicyBody struct {
		// Policy by name; empty for the schedule's.
		Policy string `json:"policy"`
	}
	// ModeBody is sent to a workload's mode.
	ModeBody struct {
		// Mode is Off, Shadow, Canary or Full.
		Mode string `json:"mode"`
	}
	// AgentsBody is sent to a workload's agents; fields that are left out stay.
	AgentsBody struct {
		Run             *bool                  `json:"run,omitempty"`
		CPU             *string                `json:"cpu,omitempty"`
		Model           *string                `json:"model,omitempty"`
		IntervalSeconds *int32                 `json:"intervalSeconds,omitempty"`
		Priorities      []v1alpha1.PodPriority `json:"priorities,omitempty"`
	}
)

// routes are all of them but the stream and the description itself.
func (s *Server) routes() []route {
	out := []route{
		{
			Path: "overview", Summary: "The present at a glance.", Query: []parameter{namespaceParameter}, Answer: Overview{},
			get: func(v Viewer, _ *http.Request) (any, error) {
				o := s.Store.overview(v)
				o.Actions = s.Actor != nil
				return o, nil
			},
		},
		{
			Path: "workloads", Summary: "Every workload in a line.", Query: []parameter{namespaceParameter}, Answer: WorkloadList{},
			get: func(v Viewer, _ *http.Request) (any, error) { return WorkloadList{s.Store.workloadList(v)}, nil },
		},
		{
			Path: "workloads/{namespace}/{name}", Summary: "A workload with its past, its forecast and its path.", Answer: WorkloadDetail{},
			get: func(v Viewer, r *http.Request) (any, error) {
				d, ok := s.Store.workload(v, keyOf(r))
				if !ok {
					return nil, errNotThere
				}
				return d, nil
			},
		},
		{
			Path: "changes", Summary: "What changed, the newest first. Above the limit are only changes of the last cycle, which is whole: go on before its time.", Answer: ChangeList{},
			Query: []parameter{namespaceParameter, workloadParameter, beforeParameter, limitParameter},
			get: func(v Viewer, r *http.Request) (any, error) {
				before, limit, err := window(r.URL.Query())
				if err != nil {
					return nil, err
				}
				return ChangeList{s.Store.changeList(v, Filter{Workload: r.URL.Query().Get("workload"), Before: before, Limit: limit})}, nil
			},
		},
		{
			Path: "cycles", Summary: "Cycles in a line each, for who may see all namespaces.", Query: []parameter{beforeParameter, limitParameter}, Answer: CycleList{},
			get: func(v Viewer, r *http.Request) (any, error) {
				if !v.All {
					return nil, errNotThere
				}
				before, limit, err := window(r.URL.Query())
				if err != nil {
					return nil, err
				}
				return CycleList{s.Store.headList(before, limit)}, nil
			},
		},
		{
			Path: "cycles/{id}", Summary: "A whole cycle by its number.", Answer: api.Cycle{},
			get: func(v Viewer, r *http.Request) (any, error) {
				id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
				if err != nil {
					return nil, badf("cycles/%s: a cycle has a number", r.PathValue("id"))
				}
				e, err := s.Store.cycle(id)
				if err != nil {
					return nil, err
				}
				return v.shownCycle(e.Cycle), nil
			},
		},
		{
			Path: "explain", Summary: "Why a workload, or a pool, is planned as it is.", Answer: record.Explanation{},
			Query: []parameter{namespaceParameter, atParameter, workloadParameter, poolParameter},
			get: func(v Viewer, r *http.Request) (any, error) {
				q := r.URL.Query()
				at, err := timeOf(q, "at")
				if err != nil {
					return nil, err
				}
				return s.Store.explain(v, record.Question{At: at, Workload: q.Get("workload"), Pool: q.Get("pool")})
			},
		},
		{
			Path: "otherwise", Summary: "A recorded cycle decided again with a change.",
			Query: []parameter{
				atParameter, workloadParameter, {Name: "policy", Kind: "string", Summary: "name of a policy to plan by"},
				{Name: "with", Kind: "string", Repeated: true, Summary: "FIELD=VALUE to plan with"},
				{Name: "without", Kind: "string", Repeated: true, Summary: "a limit to plan without"},
			},
			get: s.otherwise,
		},
		{
			Path: "nodes", Summary: "Which pods are on which node, for who may list nodes.", Query: []parameter{poolParameter}, Answer: Packing{},
			get: func(v Viewer, r *http.Request) (any, error) {
				if !v.Nodes {
					return nil, errNotThere
				}
				return s.Store.packing(r.URL.Query().Get("pool")), nil
			},
		},
		{
			Path: "knowledge", Summary: "Entries of the knowledge base, the newest that fit, in order of time.", Answer: KnowledgeList{},
			Query: []parameter{
				namespaceParameter, {Name: "kind", Kind: "string", Summary: "model, run, score, reading or decision"},
				{Name: "about", Kind: "string", Summary: "an object: web, shop/web, or strategy shop/web"},
				{Name: "name", Kind: "string", Summary: "name of a sensor, rule, model, run or score"},
				{Name: "text", Kind: "string", Summary: "looked for in every field"},
				{Name: "from", Kind: "date-time", Summary: "first time"}, {Name: "to", Kind: "date-time", Summary: "last time"}, limitParameter,
			},
			get: s.knowledge,
		},
		{
			Method: http.MethodPost, Path: "policy", Summary: "Sets the policy by hand.", Body: PolicyBody{}, act: s.setPolicy,
		},
		{
			Method: http.MethodPost, Path: "pause", Summary: "Stops every write.",
			act: func(r *http.Request, _ []byte) error { return s.Actor.Pause(r.Context(), r, true) },
		},
		{
			Method: http.MethodPost, Path: "resume", Summary: "Lets mash2 write again.",
			act: func(r *http.Request, _ []byte) error { return s.Actor.Pause(r.Context(), r, false) },
		},
		{
			Method: http.MethodPost, Path: "rollback/end", Summary: "Lets mash2 go on after a rollback.",
			act: func(r *http.Request, _ []byte) error { return s.Actor.EndRollback(r.Context(), r) },
		},
		{
			Method: http.MethodPost, Path: "workloads/{namespace}/{name}/mode", Summary: "Sets the mode of a ManagedWorkload.", Body: ModeBody{}, act: s.setMode,
		},
		{
			Method: http.MethodPost, Path: "workloads/{namespace}/{name}/agents", Summary: "Changes the agents of a workload's pods.", Body: AgentsBody{}, act: s.setAgents,
		},
		{
			Method: http.MethodPost, Path: "workloads/{namespace}/{name}/canary/restart", Summary: "Lets the trial of a workload's namespace begin anew.",
			act: func(r *http.Request, _ []byte) error { return s.Actor.RestartCanary(r.Context(), r, keyOf(r)) },
		},
	}
	out = append(out, s.strategyRoutes()...)
	for i := range out {
		if out[i].Method == "" {
			out[i].Method = http.MethodGet
		}
		if out[i].Method != http.MethodGet {
			out[i].Answer = Done{}
		}
	}
	return out
}

func (s *Server) otherwise(v Viewer, r *http.Request) (any, error) {
	q := r.URL.Query()
	at, err := timeOf(q, "at")
	switch {
	case err != nil:
		return nil, err
	case !v.All || s.Store.config.Otherwise == nil:
		return nil, errNotThere
	}
	done, err := s.Store.alone(r.Context())
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), 45*time.Second)
	defer cancel()
	return s.Store.config.Otherwise(ctx, at, Otherwise{Workload: q.Get("workload"), With: q["with"], Without: q["without"], Policy: q.Get("policy")})
}

func (s *Server) knowledge(v Viewer, r *http.Request) (any, error) {
	p := r.URL.Query()
	_, limit, err := window(p)
	if err != nil {
		return nil, err
	}
	q := knowledge.Query{Kind: knowledge.Kind(p.Get("kind")), About: p.Get("about"), Name: p.Get("name"), Text: p.Get("text"), Limit: limit}
	if q.From, err = timeOf(p, "from"); err != nil {
		return nil, err
	}
	if q.To, err = timeOf(p, "to"); err != nil {
		return nil, err
	}
	if err := q.Validate(); err != nil {
		return nil, badf("kind: must be one of %v, not %q", knowledge.Kinds(), q.Kind)
	}
	if s.Store.config.Knowledge == nil {
		return nil, errNotThere
	}
	// What is of no namespace is of all.
	only := p.Get("namespace")
	q.Sees = func(namespace string) bool {
		if namespace == "" {
			return v.All && only == ""
		}
		return v.sees(namespace) && (only == "" || only == namespace)
	}
	found, err := s.Store.config.Knowledge(q)
	if found == nil {
		found = []knowledge.Entry{}
	}
	return KnowledgeList{found}, err
}
