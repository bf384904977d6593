package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/record/knowledge"
)

func newKnowledge() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kb",
		Short: "Searches, adds to and exports the knowledge base",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usagef("unknown command %q: search, add or export", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKnowledgeSearch(), newKnowledgeAdd(), newKnowledgeExport())
	return cmd
}

// knowledgeFlags say which entries are wanted.
type knowledgeFlags struct {
	records, kind, about, name, from, to string
	limit                                int
}

func (o *knowledgeFlags) register(cmd *cobra.Command, limit int) {
	f := cmd.Flags()
	f.StringVar(&o.records, "records", "", "folder of the records, which the knowledge base is in")
	f.StringVar(&o.kind, "kind", "", fmt.Sprintf("only entries of this kind: %s", kinds()))
	f.StringVar(&o.about, "about", "", "only entries about this object: shop/web, web, or strategy shop/web")
	f.StringVar(&o.name, "name", "", "only entries of this sensor, rule, model, run or score")
	f.StringVar(&o.from, "from", "", "first time: RFC 3339, or 24h before now")
	f.StringVar(&o.to, "to", "", "last time: RFC 3339, or 1h before now")
	f.IntVar(&o.limit, "limit", limit, "only so many of the newest entries; 0: all")
}

func kinds() string {
	var out []string
	for _, k := range knowledge.Kinds() {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}

// momentOf is a time, or how long before now.
func momentOf(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	ago, err := time.ParseDuration(text)
	if err != nil || ago < 0 {
		return time.Time{}, Usagef("--%s must be a time such as 2026-01-02T15:04:05Z, or 24h before now, not %q", name, text)
	}
	return now.Add(-ago), nil
}

// find what the flags say.
func (o *knowledgeFlags) find(text string) ([]knowledge.Entry, error) {
	q := knowledge.Query{Kind: knowledge.Kind(o.kind), About: o.about, Name: o.name, Text: text, Limit: o.limit}
	now := time.Now()
	var err error
	if q.From, err = momentOf("from", o.from, now); err != nil {
		return nil, err
	}
	if q.To, err = momentOf("to", o.to, now); err != nil {
		return nil, err
	}
	if err := q.Validate(); err != nil {
		return nil, Usagef("--kind must be one of %s, is %q", kinds(), o.kind)
	}
	if o.limit < 0 {
		return nil, Usagef("--limit must not be negative, is %d", o.limit)
	}
	if o.records == "" {
		return nil, Usagef("--records must name the folder of the records: the operator's --records, or that of mash2 simulate --records")
	}
	return o.search(q)
}

// search the knowledge base or, where there is none, what the records tell.
func (o *knowledgeFlags) search(q knowledge.Query) ([]knowledge.Entry, error) {
	store := knowledge.Open(o.records)
	var kept []knowledge.Entry
	if store.There() {
		// One that an operator wrote has what records tell. In another one is only what people
		// added.
		whole, err := store.Claimed()
		if err != nil {
			return nil, err
		}
		if whole {
			return store.Search(q)
		}
		if kept, err = store.Search(knowledge.Query{}); err != nil {
			return nil, err
		}
		if matches, _ := filepath.Glob(filepath.Join(o.records, "*"+record.Suffix)); len(matches) == 0 {
			return knowledge.Select(kept, q)
		}
	}
	l, err := openRecords(o.records)
	if err != nil {
		return nil, err
	}
	all, err := knowledge.Of(l, time.Time{})
	if err != nil {
		return nil, err
	}
	return knowledge.Select(append(all, kept...), q)
}

func newKnowledgeSearch() *cobra.Command {
	var o knowledgeFlags
	cmd := &cobra.Command{
		Use:   "search [TEXT]",
		Short: "Searches the knowledge base: values of sensors, decisions, models, runs and scores",
		Long: `Searches the knowledge base that the operator keeps beside its records, and prints the
newest entries that fit, in order of time. TEXT is looked for in every field.

A folder of records without a knowledge base, such as that of mash2 simulate, is searched
itself. Plans of replicas and nodes are not in it: mash2 explain has them.`,
		Example: `  mash2 kb search --records D                                    # the newest 50 entries
  mash2 kb search --records D --kind decision --about shop/edge-or-cloud
  mash2 kb search --records D --kind reading --name latency --from 24h -o json
  mash2 kb search --records D "not done"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return Usagef("kb search takes one text; put it in quotes")
			}
			return nil
		},
	}
	o.register(cmd, 50)
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		found, err := o.find(strings.Join(args, ""))
		if err != nil {
			return err
		}
		text := "nothing is known of it"
		if len(found) > 0 {
			var lines []string
			for _, e := range found {
				lines = append(lines, e.String())
			}
			text = strings.Join(lines, "\n")
		}
		if found == nil {
			found = []knowledge.Entry{}
		}
		return show(struct {
			Entries []knowledge.Entry `json:"entries"`
		}{found}, text)
	}
	return cmd
}

func newKnowledgeAdd() *cobra.Command {
	var records, kind, about, name, text string
	cmd := &cobra.Command{
		Use:   "add FILE",
		Short: "Adds a run, a score or a model from a file of JSON, such as a command's -o json",
		Long: `Adds an entry to the knowledge base. FILE is one object of JSON, or - for standard input:
what mash2 train, evaluate and simulate print with -o json, a model's card, or your own.
Its numbers become metrics and its texts parameters. Those of an object in it are named
after the object, as in heldOut.mae. Of a list, objects with a name are taken.`,
		Example: `  mash2 evaluate --model forest --environment qos --input evening.csv -o json |
    mash2 kb add --records D --about model/forest --name evaluate -
  mash2 kb add --records D --kind model --about model/forest --name forest forest/card.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return Usagef("kb add takes one file, or - for standard input")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&records, "records", "", "folder of the records, which the knowledge base is in")
	f.StringVar(&kind, "kind", string(knowledge.KindRun), "run, score or model")
	f.StringVar(&about, "about", "", "what it is about: KIND/NAME or KIND/NAMESPACE/NAME, such as model/forest or workload/shop/web")
	f.StringVar(&name, "name", "", "name of the entry")
	f.StringVar(&text, "text", "", "a sentence about it")
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		e := knowledge.Entry{Kind: knowledge.Kind(kind), Time: time.Now().UTC(), Name: name, Text: text, Params: map[string]string{}, Metrics: map[string]float64{}}
		if !slices.Contains([]knowledge.Kind{knowledge.KindRun, knowledge.KindScore, knowledge.KindModel}, e.Kind) {
			return Usagef("--kind must be run, score or model, is %q", kind)
		}
		if records == "" {
			return Usagef("--records must name the folder that the knowledge base is in")
		}
		var ok bool
		if e.About, ok = aboutOf(about); !ok {
			return Usagef("--about must be KIND/NAME or KIND/NAMESPACE/NAME, such as model/forest or workload/shop/web, with one of the kinds %s; is %q", strings.Join(aboutKinds, ", "), about)
		}
		data, err := readFile(cmd, args[0])
		if err != nil {
			return err
		}
		var object map[string]any
		if err := json.Unmarshal(data, &object); err != nil {
			return Usagef("%s: must be one object of JSON: %v", args[0], err)
		}
		flatten(&e, "", object)
		if len(e.Params)+len(e.Metrics) > mostFields {
			return Usagef("%s: has %d numbers and texts; %d can be kept: leave some out", args[0], len(e.Params)+len(e.Metrics), mostFields)
		}
		if err := e.Validate(); err != nil {
			return Usagef("--%s", strings.TrimPrefix(err.Error(), knowledge.ErrEntry.Error()+": "))
		}
		if err := knowledge.Open(records).Add(e); err != nil {
			return err
		}
		return show(e, e.String())
	}
	return cmd
}

// mostFields of an entry that is added.
const mostFields = 1000

// aboutKinds are what people add something about. A namespace that stands where a kind
// belongs is refused.
var aboutKinds = []string{"model", "workload", "strategy", "policy", "pool"}

// aboutOf reads KIND/NAME or KIND/NAMESPACE/NAME.
func aboutOf(text string) (knowledge.About, bool) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" || name == "" {
		return knowledge.About{}, false
	}
	if !slices.Contains(aboutKinds, kind) {
		return knowledge.About{}, false
	}
	if namespace, of, both := strings.Cut(name, "/"); both {
		return knowledge.About{Kind: kind, Namespace: namespace, Name: of}, namespace != "" && of != ""
	}
	return knowledge.About{Kind: kind, Name: name}, true
}

// flatten puts the numbers and texts of an object into an entry.
func flatten(e *knowledge.Entry, prefix string, object map[string]any) {
	for _, field := range slices.Sorted(maps.Keys(object)) {
		path := prefix + field
		switch v := object[field].(type) {
		case float64:
			e.Metrics[path] = v
		case bool:
			e.Params[path] = fmt.Sprint(v)
		case string:
			e.Params[path] = v
		case map[string]any:
			flatten(e, path+".", v)
		case []any:
			for _, of := range v {
				if item, ok := of.(map[string]any); ok {
					if name, ok := item["name"].(string); ok && name != "" {
						delete(item, "name")
						flatten(e, path+"."+name+".", item)
					}
				}
			}
		}
	}
}

func newKnowledgeExport() *cobra.Command {
	var o knowledgeFlags
	var server, tokenFile, format string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Exports the knowledge base: as JSON, or to MLflow",
		Long: `Prints entries of the knowledge base in order of time, one object of JSON a line.

With --mlflow it writes them to an MLflow tracking server by its REST API: an experiment for
each object, a run for each decision, run, score and model, and a run for each day of a
strategy's sensors, whose values are metrics. What is there already is not written again.
--format mlflow prints the same runs instead.`,
		Example: `  mash2 kb export --records D > knowledge.jsonl
  mash2 kb export --records D --kind reading --mlflow http://127.0.0.1:5000`,
		Args: NoArgs,
	}
	o.register(cmd, 0)
	f := cmd.Flags()
	f.StringVar(&format, "format", "json", "json, or mlflow: the runs as MLflow's REST API takes them")
	f.StringVar(&server, "mlflow", "", "URL of an MLflow tracking server to write to; empty: print")
	f.StringVar(&tokenFile, "mlflow-token-file", "", "file with a bearer token for that server")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format != "json" && format != "mlflow" {
			return Usagef("--format must be json or mlflow, is %q", format)
		}
		m := knowledge.MLflow{URL: server, Client: &http.Client{Timeout: time.Minute}}
		if u, err := url.Parse(server); server != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return Usagef("--mlflow must be a URL such as http://127.0.0.1:5000")
		}
		if tokenFile != "" {
			token, err := os.ReadFile(tokenFile)
			if err != nil {
				return Usage(fmt.Errorf("--mlflow-token-file: %w", err))
			}
			m.Token = strings.TrimSpace(string(token))
		}
		found, err := o.find("")
		if err != nil {
			return err
		}
		if server != "" {
			progress := ProgressTo(cmd.ErrOrStderr())
			runs := knowledge.MLflowRuns(found)
			created, err := m.Push(cmd.Context(), runs, func(i int) { fmt.Fprintf(progress, "run %d of %d\r", i+1, len(runs)) })
			if err != nil {
				return fmt.Errorf("writing to MLflow: %w; run it again: what arrived is not written twice", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d entries in %d runs, of which %d are new\n", len(found), len(runs), created)
			return err
		}
		out := json.NewEncoder(cmd.OutOrStdout())
		if format == "mlflow" {
			for _, r := range knowledge.MLflowRuns(found) {
				if err := out.Encode(r); err != nil {
					return err
				}
			}
			return nil
		}
		for _, e := range found {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}
