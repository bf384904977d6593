package rest

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3gen"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/record/knowledge"
)

var update = flag.Bool("update", false, "write openapi.json anew")

var inPath = regexp.MustCompile(`\{(\w+)\}`)

// marshaler is a type that writes itself as text.
var marshaler = reflect.TypeFor[encoding.TextMarshaler]()

// describe makes the API's description of its routes.
func describe(t *testing.T, routes []route) *openapi3.T {
	t.Helper()
	doc := &openapi3.T{
		OpenAPI: "3.0.3",
		Info: &openapi3.Info{
			Title: "mash2", Version: "v1",
			Description: "What mash2's page shows and does. Who may see and do what is for Kubernetes to say: send a bearer token. What changes something needs the header " + actHeader + ", with any value.",
		},
		Servers:    openapi3.Servers{{URL: "/api/v1"}},
		Paths:      openapi3.NewPaths(),
		Components: &openapi3.Components{Schemas: openapi3.Schemas{}, SecuritySchemes: openapi3.SecuritySchemes{"token": {Value: &openapi3.SecurityScheme{Type: "http", Scheme: "bearer"}}}},
		Security:   openapi3.SecurityRequirements{{"token": []string{}}},
	}
	g := openapi3gen.NewGenerator(
		openapi3gen.CreateComponentSchemas(openapi3gen.ExportComponentSchemasOptions{ExportComponentSchemas: true}),
		openapi3gen.CreateTypeNameGenerator(func(t reflect.Type) string {
			pkg := t.PkgPath()
			return strings.ReplaceAll(pkg[strings.LastIndex(pkg, "/")+1:]+"."+t.Name(), "rest.", "")
		}),
		openapi3gen.SchemaCustomizer(func(_ string, of reflect.Type, _ reflect.StructTag, s *openapi3.Schema) error {
			switch of.Kind() {
			case reflect.Pointer, reflect.Slice, reflect.Map:
				s.Nullable = true
			}
			// Bounds that follow from Go's types say nothing of the API.
			s.Min, s.Max = nil, nil
			elem := of
			if elem.Kind() == reflect.Pointer {
				elem = elem.Elem()
			}
			if elem.Name() == "Duration" && strings.HasSuffix(elem.PkgPath(), "meta/v1") {
				// Without properties the generator would leave it out.
				*s = openapi3.Schema{Type: &openapi3.Types{"string"}, Description: "such as 5m", Nullable: s.Nullable, Properties: openapi3.Schemas{}}
			} else if elem.Name() == "Time" {
				*s = openapi3.Schema{Type: &openapi3.Types{"string"}, Format: "date-time", Nullable: s.Nullable, Properties: openapi3.Schemas{}}
			} else if elem.Kind() == reflect.Struct && reflect.PointerTo(elem).Implements(marshaler) {
				*s = openapi3.Schema{Type: &openapi3.Types{"string"}, Nullable: s.Nullable, Properties: openapi3.Schemas{}}
			}
			return nil
		}),
	)
	schema := func(v any) *openapi3.SchemaRef {
		if v == nil {
			return openapi3.NewSchemaRef("", openapi3.NewSchema())
		}
		ref, err := g.NewSchemaRefForValue(v, doc.Components.Schemas)
		if err != nil {
			t.Fatalf("%T: %v", v, err)
		}
		return ref
	}
	answer := func(text string, v any) *openapi3.ResponseRef {
		return &openapi3.ResponseRef{Value: openapi3.NewResponse().WithDescription(text).WithJSONSchemaRef(schema(v))}
	}
	for _, r := range routes {
		op := &openapi3.Operation{Summary: r.Summary, Responses: openapi3.NewResponses(
			openapi3.WithStatus(http.StatusOK, answer("done", r.Answer)),
			openapi3.WithName("default", answer("refused, and why", Failure{}).Value),
		)}
		for _, name := range inPath.FindAllStringSubmatch(r.Path, -1) {
			op.AddParameter(openapi3.NewPathParameter(name[1]).WithSchema(openapi3.NewStringSchema()))
		}
		for _, q := range r.Query {
			s := openapi3.NewStringSchema()
			switch q.Kind {
			case "integer":
				s = openapi3.NewIntegerSchema()
			case "date-time":
				s = openapi3.NewDateTimeSchema()
			case "string":
			default:
				t.Fatalf("%s: parameter %s of kind %q", r.Path, q.Name, q.Kind)
			}
			if q.Repeated {
				s = openapi3.NewArraySchema().WithItems(s)
			}
			op.AddParameter(openapi3.NewQueryParameter(q.Name).WithDescription(q.Summary).WithSchema(s))
		}
		if r.Method != http.MethodGet {
			op.AddParameter(openapi3.NewHeaderParameter(actHeader).WithRequired(true).WithSchema(openapi3.NewStringSchema()))
		}
		if r.Body != nil {
			op.RequestBody = &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().WithRequired(true).WithJSONSchemaRef(schema(r.Body))}
		}
		if r.Summary == "" || r.Method == http.MethodGet && r.get == nil || r.Method != http.MethodGet && r.act == nil {
			t.Errorf("%s %s has no summary, or does nothing", r.Method, r.Path)
		}
		path := doc.Paths.Value("/" + r.Path)
		if path == nil {
			path = &openapi3.PathItem{}
			doc.Paths.Set("/"+r.Path, path)
		}
		path.SetOperation(r.Method, op)
	}
	return doc
}

// TestReferenceOfAPI: what is served describes the routes there are.
func TestReferenceOfAPI(t *testing.T) {
	doc := describe(t, (&Server{}).routes())
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", " "); err != nil {
		t.Fatal(err)
	}
	out.WriteByte('\n')
	if *update {
		if err := os.WriteFile("openapi.json", out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		openAPI = out.Bytes()
	}
	if !bytes.Equal(openAPI, out.Bytes()) {
		t.Error("serve/rest/openapi.json is not what the routes are: run make reference")
	}
	loaded, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err == nil {
		err = loaded.Validate(context.Background())
	}
	if err != nil {
		t.Error(err)
	}
}

// TestAnswersAreAsDescribed: every answer of a server with something to show fits its
// description, and each GET is asked.
func TestAnswersAreAsDescribed(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	strict(doc)
	store := storeOf(3, "shop", "bank")
	store.Add(withStrategy(recordOf(4, "shop", "bank")))
	store.config.Knowledge = func(knowledge.Query) ([]knowledge.Entry, error) {
		v := 1.5
		return []knowledge.Entry{{Kind: knowledge.KindReading, Time: began, About: knowledge.About{Kind: "strategy", Namespace: "shop", Name: "a"}, Name: "x", Value: &v}}, nil
	}
	store.config.Otherwise = func(context.Context, time.Time, Otherwise) (any, error) { return record.Explanation{}, nil }
	s := &Server{Store: store, Auth: Everybody{}}
	h := s.Handler()
	asked := map[string]bool{}
	for path, query := range map[string]string{
		"overview": "", "workloads": "", "workloads/{namespace}/{name}": "shop/web-shop", "changes": "?limit=5", "cycles": "", "cycles/{id}": "3",
		"explain": "?workload=shop/web-shop", "otherwise": "?with=quantile=0.9", "nodes": "", "knowledge": "?kind=reading",
		"strategies": "", "strategies/{namespace}/{name}": "shop/crowd", "sensors": "", "actuators": "?namespace=shop",
	} {
		asked[path] = true
		url := "/api/v1/" + path
		if prefix, _, is := strings.Cut(path, "{"); is {
			url = "/api/v1/" + prefix + query
		} else {
			url += query
		}
		status, body := ask(t, h, http.MethodGet, url)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", url, status, body)
			continue
		}
		var answer any
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		op := doc.Paths.Value("/" + path)
		if op == nil || op.Get == nil {
			t.Errorf("%s is not described", path)
			continue
		}
		if err := op.Get.Responses.Value("200").Value.Content.Get("application/json").Schema.Value.VisitJSON(answer); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, r := range s.routes() {
		if r.Method == http.MethodGet && !asked[r.Path] {
			t.Errorf("%s is not asked by this test", r.Path)
		}
	}
	if status, body := ask(t, h, http.MethodGet, "/api/v1/openapi.json"); status != http.StatusOK || body != string(openAPI) {
		t.Errorf("the description: %d", status)
	}
}

// strict makes a field that is not described an error.
func strict(doc *openapi3.T) {
	seen := map[*openapi3.Schema]bool{}
	var walk func(ref *openapi3.SchemaRef)
	walk = func(ref *openapi3.SchemaRef) {
		if ref == nil || ref.Value == nil || seen[ref.Value] {
			return
		}
		s := ref.Value
		seen[s] = true
		if len(s.Properties) > 0 {
			no := false
			s.AdditionalProperties = openapi3.BoolSchema{Has: &no}
		}
		walk(s.Items)
		walk(s.AdditionalProperties.Schema)
		for _, p := range s.Properties {
			walk(p)
		}
	}
	for _, path := range doc.Paths.Map() {
		if path.Get != nil {
			walk(path.Get.Responses.Value("200").Value.Content.Get("application/json").Schema)
		}
	}
}

// withStrategy has a strategy of the first namespace that acts, and one that can't be used.
func withStrategy(r api.Record) api.Record {
	key := api.Key{Namespace: "shop", Name: "crowd"}
	at := r.Cycle.Time
	r.Snapshot.Context.Strategies = []api.Strategy{
		{Key: api.Key{Namespace: "bank", Name: "broken"}, Spec: `{"rules":[{"name":"r","when":"1 +","actions":[{"setPolicy":{"policy":"X"}}]}]}`},
		{
			Key: key, Spec: `{"sensors":[{"name":"visitors","prometheus":{"query":"sum(v)"},"when":{"interval":{"every":"5m"}}},
				{"name":"price","http":{"url":"http://x/","jsonPath":"{.p}"},"when":{"cron":{"schedule":"*/5 * * * *"}}}],
				"rules":[{"name":"crowd","when":"visitors > 100","actions":[{"setPolicy":{"policy":"PERFORMANCE"}}]}]}`,
			Readings: []api.SensorReading{{Sensor: "visitors", Value: 120, At: at}, {Sensor: "price", Missing: "it answers 404"}},
		},
	}
	r.Cycle.Policy.Strategies = []api.StrategyState{{Key: key, Rules: []api.RuleState{{Name: "crowd", On: true, Since: at, Reason: "because"}}}}
	r.Cycle.Policy.StrategyActions = []api.StrategyAction{{Strategy: key, Rule: "crowd", Kind: api.ActionSetPolicy, Policy: "PERFORMANCE", Since: at, Reason: "because", NotDone: "by hand"}}
	return r
}
