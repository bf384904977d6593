package strategy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// maxFile bounds a file of strategies, and maxDocuments how many are in one.
const (
	maxFile      = 1 << 20
	maxDocuments = 64
)

// Parse reads a file of one or more Strategies in YAML, strictly, and checks each. An error
// names every field that can't be used by its path.
func Parse(text []byte) ([]api.Strategy, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("is %d bytes long, more than %d", len(text), maxFile)
	}
	var out []api.Strategy
	var errs []error
	d := goyaml.NewDecoder(bytes.NewReader(text))
	d.SetStrict(true) // no key twice
	for n := 0; ; n++ {
		var content any
		err := d.Decode(&content)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if content == nil {
			continue
		}
		if len(out)+len(errs) == maxDocuments {
			return nil, fmt.Errorf("has more than %d documents", maxDocuments)
		}
		s, err := parseOne(content)
		if err != nil {
			if n > 0 || len(out) > 0 {
				err = fmt.Errorf("document %d: %w", n+1, err)
			}
			errs = append(errs, err)
			continue
		}
		out = append(out, s)
	}
	if len(out)+len(errs) == 0 {
		return nil, errors.New("has no Strategy")
	}
	return out, errors.Join(errs...)
}

func parseOne(content any) (api.Strategy, error) {
	text, err := goyaml.Marshal(content)
	if err != nil {
		return api.Strategy{}, err
	}
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return api.Strategy{}, err
	}
	var o v1alpha1.Strategy
	if err := Decode(body, &o); err != nil {
		return api.Strategy{}, err
	}
	if want := v1alpha1.GroupVersion.String(); o.APIVersion != want || o.Kind != "Strategy" {
		return api.Strategy{}, fmt.Errorf("apiVersion, kind: must be %s and Strategy, are %q and %q", want, o.APIVersion, o.Kind)
	}
	if strings.TrimSpace(o.Name) == "" {
		return api.Strategy{}, errors.New("metadata.name: is required")
	}
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	s, err := Of(&o)
	if err != nil {
		return s, err
	}
	_, err = compile(s.Spec)
	return s, err
}

// Decode reads JSON strictly into a part of a Strategy. An error names the field.
func Decode(body []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(body, into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s: must be a %s, is a %s", wrong.Field, wrong.Type.Kind(), wrong.Value)
	}
	return errors.Join(append(strict, err)...)
}

// Of is a Strategy as decisions take it. The error is of one that JSON has no form for.
func Of(o *v1alpha1.Strategy) (api.Strategy, error) {
	spec, err := json.Marshal(o.Spec)
	return api.Strategy{Key: api.Key{Namespace: o.Namespace, Name: o.Name}, Generation: o.Generation, Spec: string(spec)}, err
}

// Check reports every field of a strategy that can't be used by its path. It is remembered until
// the next but one decision.
func Check(s api.Strategy) error {
	_, err := compile(s.Spec)
	return err
}

// CheckOnce is Check of a strategy that need not become one: nothing of it is remembered.
func CheckOnce(s api.Strategy) error {
	_, err := newProgram(s.Spec)
	return err
}
