// Package configmap reads the policies from their ConfigMap, strictly, and
// keeps the last good content, so that neither a slip in the ConfigMap nor a
// crash changes the policy in force.
//
// The minimal form is one key:
//
//	data:
//	  policy: COST_SAVING
//
// The full form defines or overrides policies, and may schedule them:
//
//	data:
//	  policy: ""            # empty: the schedule decides
//	  policies.yaml: |
//	    default: COST_SAVING
//	    policies:
//	      COST_SAVING: {nodePools: [cheap-pool], maxHourlyCost: 12}
//	      PERFORMANCE:
//	        nodePools: [fast-pool]
//	        minReplicas: 3
//	        disruption: # of moves between nodes: what they may cost, and when
//	          podPrice: 0.01
//	          windows: [{cron: "0 1 * * *", timeZone: Europe/London, duration: 4h}]
//	    schedule:
//	      - {cron: "0 8 * * 1-5", timeZone: Europe/London, policy: PERFORMANCE}
//	      - {cron: "0 19 * * *", timeZone: Europe/London, policy: COST_SAVING}
//	    signals: # come before the schedule
//	      - {name: spend, prometheus: {query: sum(weekly_spend_usd)}, above: 1000, until: 900, policy: COST_SAVING, minStay: 1h}
//
// A field that a policy leaves out keeps the built-in value of the policy of
// that name, or of COST_SAVING for a name of the user's own.
package configmap

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic"
)

// Keys of the ConfigMap's data.
const (
	KeyPolicy   = "policy"
	KeyPolicies = "policies.yaml"
)

// maxSize bounds policies.yaml; a ConfigMap can hold 1 MiB.
const maxSize = 256 << 10

// file is policies.yaml. What is in its map and list is decoded piece by piece,
// so that errors can name the piece.
type file struct {
	Default  string                     `json:"default"`
	Policies map[string]json.RawMessage `json:"policies"`
	Schedule []json.RawMessage          `json:"schedule"`
	Signals  []json.RawMessage          `json:"signals"`
}

// filePolicy is one policy; pointers tell what is left out.
type filePolicy struct {
	Weights           *fileWeights `json:"weights"`
	NodePools         *[]string    `json:"nodePools"`
	MachineType       *string      `json:"machineType"`
	MixPools          *bool        `json:"mixPools"`
	MinReplicas       *int32       `json:"minReplicas"`
	ScaleToZero       *bool        `json:"scaleToZero"`
	Objective         *float64     `json:"objective"`
	Burst             *bool        `json:"burst"`
	Quantile          *float64     `json:"quantile"`
	TargetUtilization *float64     `json:"targetUtilization"`
	MaxHourlyCost     *float64     `json:"maxHourlyCost"`
	MinNodesPerPool   *int32       `json:"minNodesPerPool"`
	MaxNodesPerPool   *int32       `json:"maxNodesPerPool"`

	Spot       *fileSpot       `json:"spot"`
	Disruption *fileDisruption `json:"disruption"`
	Rollback   *fileRollback   `json:"rollback"`
	Canary     *fileCanary     `json:"canary"`
}

// fileSpot says what of a workload may run on spot machines.
type fileSpot struct {
	MaxShare *float64 `json:"maxShare"`
	Floor    *int32   `json:"floor"`
}

// fileCanary says how workloads in mode Canary are tried.
type fileCanary struct {
	Share    *float64  `json:"share"`
	WorseBy  *float64  `json:"worseBy"`
	DearerBy *float64  `json:"dearerBy"`
	Alpha    *float64  `json:"alpha"`
	Band     *float64  `json:"band"`
	Baseline *duration `json:"baseline"`
	Soak     *duration `json:"soak"`
}

// fileRollback says whose SLOs take the plan back, and for how long.
type fileRollback struct {
	Hold       *duration `json:"hold"`
	Namespaces *[]string `json:"namespaces"`
}

// fileDisruption is what moving pods may cost, and when; durations are texts
// such as 30m.
type fileDisruption struct {
	PodPrice     *float64      `json:"podPrice"`
	Payback      *duration     `json:"payback"`
	MaxEvictions *int32        `json:"maxEvictions"`
	GrowTimeout  *duration     `json:"growTimeout"`
	MoveTimeout  *duration     `json:"moveTimeout"`
	RetryAfter   *duration     `json:"retryAfter"`
	Windows      *[]fileWindow `json:"windows"`
}

type fileWindow struct {
	Cron     string   `json:"cron"`
	TimeZone string   `json:"timeZone"`
	Duration duration `json:"duration"`
}

// duration is a text such as 1h30m.
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 30m or 1h30m", text)
	}
	*d = duration(v)
	return nil
}

type fileWeights struct {
	Performance *float64 `json:"performance"`
	Cost        *float64 `json:"cost"`
	Resilience  *float64 `json:"resilience"`
}

// Parse decodes and validates the content of a policy ConfigMap. An error
// names every field that can't be used by its path.
func Parse(data, annotations map[string]string) (api.PolicySpec, error) {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key != KeyPolicy && key != KeyPolicies {
			errs = append(errs, fmt.Errorf("data[%q]: unknown key; known are %s and %s", key, KeyPolicy, KeyPolicies))
		}
	}
	spec := api.PolicySpec{
		Manual:     strings.TrimSpace(data[KeyPolicy]),
		Policies:   strategic.Defaults(),
		Paused:     Paused(annotations),
		Generation: generation(data),
	}
	var err error
	if spec.RollbackEnded, err = rollbackEnded(annotations); err != nil {
		errs = append(errs, err)
	}
	if err := decode(data[KeyPolicies], &spec); err != nil {
		// Names may be unknown only because the file could not be read.
		return api.PolicySpec{}, errors.Join(append(errs, fmt.Errorf("%s: %w", KeyPolicies, err))...)
	}
	if err := errors.Join(append(errs, strategic.Validate(spec))...); err != nil {
		return api.PolicySpec{}, err
	}
	return spec, nil
}

// rollbackEnded is when a person ended a rollback, by the annotations; zero for never.
func rollbackEnded(annotations map[string]string) (time.Time, error) {
	text, ok := annotations[api.AnnotationRollbackEnded]
	if !ok {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("metadata.annotations[%s]: %q is not a time such as 2026-08-03T12:00:00Z", api.AnnotationRollbackEnded, text)
	}
	return at, nil
}

// Paused reports whether the annotations stop every write. Any value but
// "false" does: who is in a hurry must not have to know the right word.
func Paused(annotations map[string]string) bool {
	v, ok := annotations[api.AnnotationPaused]
	return ok && v != "false"
}

// decode adds the content of policies.yaml to a spec that has the built-in
// policies.
func decode(text string, spec *api.PolicySpec) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if len(text) > maxSize {
		return fmt.Errorf("is %d bytes long, more than %d", len(text), maxSize)
	}
	if n := documents(text); n > 1 {
		return fmt.Errorf("has %d YAML documents, separated by ---: only one is read, so put everything into it", n)
	}
	var plain any
	if err := goyaml.Unmarshal([]byte(text), &plain); err == nil {
		// JSON has no such numbers: left to it, the error would not say where.
		if err := finite("", plain); err != nil {
			return err
		}
	}
	body, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	var f file
	if err := unmarshal(body, "", &f); err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(f.Policies)) {
		if strings.TrimSpace(name) != name || name == "" {
			errs = append(errs, fmt.Errorf("policies: %q is not a valid policy name", name))
			continue
		}
		var p filePolicy
		if err := unmarshal(f.Policies[name], "policies."+name, &p); err != nil {
			errs = append(errs, err)
			continue
		}
		base, ok := spec.Policies[name]
		if !ok {
			base = strategic.Defaults()[api.CostSaving]
			base.Name = name
		}
		spec.Policies[name] = p.over(base)
	}
	for i, raw := range f.Schedule {
		var e api.ScheduleEntry
		if err := unmarshal(raw, fmt.Sprintf("schedule[%d]", i), &e); err != nil {
			errs = append(errs, err)
		}
		spec.Schedule = append(spec.Schedule, e)
	}
	for i, raw := range f.Signals {
		path := fmt.Sprintf("signals[%d]", i)
		var in fileSignal
		if err := unmarshal(raw, path, &in); err != nil {
			errs = append(errs, err)
			continue
		}
		signal, err := in.signal(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		spec.Signals = append(spec.Signals, signal)
	}
	spec.Default = f.Default
	return errors.Join(errs...)
}

// documents counts the YAML documents with content that come before the first one
// that can't be read.
func documents(text string) int {
	n := 0
	for d := goyaml.NewDecoder(strings.NewReader(text)); ; {
		var content any
		if err := d.Decode(&content); err != nil {
			return n
		}
		if content != nil {
			n++
		}
	}
}

// finite refuses numbers that are none, wherever they are.
func finite(path string, v any) error {
	var errs []error
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: must be a finite number, is %v", path, v)
		}
	case []any:
		for i, e := range v {
			errs = append(errs, finite(fmt.Sprintf("%s[%d]", path, i), e))
		}
	case map[any]any:
		for k, e := range v {
			errs = append(errs, finite(join(path, fmt.Sprint(k)), e))
		}
		slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return errors.Join(errs...)
}

// unmarshal decodes strictly; errors start with the path of the field.
func unmarshal(body []byte, path string, into any) error {
	strict, err := kjson.UnmarshalStrict(body, into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s: must be %s, is %s", cmp.Or(join(path, wrong.Field), "content"), kind(wrong.Type), article(wrong.Value))
	}
	if err != nil {
		return err
	}
	for _, e := range strict {
		if field := kjson.FieldError(nil); errors.As(e, &field) {
			field.SetFieldPath(join(path, field.FieldPath()))
		}
	}
	return errors.Join(strict...)
}

func join(path, field string) string {
	if path == "" || field == "" {
		return path + field
	}
	return path + "." + field
}

// kind is what a user would call a type.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Float64:
		return "a number"
	case reflect.Int32:
		return "a whole number of at most 32 bits"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a mapping of fields"
	}
	return "a " + t.String()
}

// article puts one before what JSON calls a value.
func article(value string) string {
	switch value {
	case "string":
		return "a text"
	case "array":
		return "a list"
	case "object":
		return "a mapping"
	case "bool":
		return "true or false"
	}
	return strings.TrimPrefix(value, "number ")
}

func (p filePolicy) over(base api.Policy) api.Policy {
	if w := p.Weights; w != nil {
		set(&base.Weights.Performance, w.Performance)
		set(&base.Weights.Cost, w.Cost)
		set(&base.Weights.Resilience, w.Resilience)
	}
	set(&base.NodePools, p.NodePools)
	set(&base.MachineType, p.MachineType)
	set(&base.MixPools, p.MixPools)
	set(&base.MinReplicas, p.MinReplicas)
	set(&base.ScaleToZero, p.ScaleToZero)
	if p.Quantile != nil || p.TargetUtilization != nil {
		// Who says what margin there is to be means that one.
		base.Objective, base.Burst = 0, false
	}
	set(&base.Objective, p.Objective)
	set(&base.Burst, p.Burst)
	set(&base.Quantile, p.Quantile)
	set(&base.TargetUtilization, p.TargetUtilization)
	set(&base.MaxHourlyCost, p.MaxHourlyCost)
	set(&base.MinNodesPerPool, p.MinNodesPerPool)
	set(&base.MaxNodesPerPool, p.MaxNodesPerPool)
	if f := p.Spot; f != nil {
		// Without a word on it as many as the policy's minimum stay off spot machines.
		spot := api.Spot{Floor: base.MinReplicas}
		set(&spot.MaxShare, f.MaxShare)
		set(&spot.Floor, f.Floor)
		if base.Spot = &spot; spot.MaxShare == 0 && f.MaxShare != nil {
			base.Spot = nil
		}
	}
	if d := p.Disruption; d != nil {
		base.Disruption = d.over(base.Disruption)
	}
	if r := p.Rollback; r != nil {
		set((*duration)(&base.Rollback.Hold), r.Hold)
		set(&base.Rollback.Namespaces, r.Namespaces)
	}
	if c := p.Canary; c != nil {
		set(&base.Canary.Share, c.Share)
		set(&base.Canary.WorseBy, c.WorseBy)
		set(&base.Canary.DearerBy, c.DearerBy)
		set(&base.Canary.Alpha, c.Alpha)
		set(&base.Canary.Band, c.Band)
		set((*duration)(&base.Canary.Baseline), c.Baseline)
		set((*duration)(&base.Canary.Soak), c.Soak)
	}
	return base
}

func (d fileDisruption) over(base api.Disruption) api.Disruption {
	set(&base.PodPrice, d.PodPrice)
	set(&base.Payback, (*time.Duration)(d.Payback))
	set(&base.MaxEvictions, d.MaxEvictions)
	set(&base.GrowTimeout, (*time.Duration)(d.GrowTimeout))
	set(&base.MoveTimeout, (*time.Duration)(d.MoveTimeout))
	set(&base.RetryAfter, (*time.Duration)(d.RetryAfter))
	if d.Windows != nil {
		base.Windows = make([]api.Window, len(*d.Windows))
		for i, w := range *d.Windows {
			base.Windows[i] = api.Window{Cron: w.Cron, TimeZone: w.TimeZone, Duration: time.Duration(w.Duration)}
		}
	}
	return base
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

func generation(data map[string]string) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		h.Write(fmt.Appendf(nil, "%q=%q\n", key, data[key])) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
