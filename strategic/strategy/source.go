package strategy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// maxPath is the most bytes of a JSONPath.
const maxPath = 256

var resourceName = regexp.MustCompile(`^[a-z][-a-z0-9]*$`)

func (c *checker) object(path string, o v1alpha1.ObjectSource) {
	switch {
	case !resourceName.MatchString(o.Resource):
		c.bad(path+".resource", "must be a resource in its plural, such as configmaps, is %q", o.Resource)
	case o.Resource == "secrets":
		c.bad(path+".resource", "no numbers of secrets: use a ConfigMap")
	}
	if o.Name == "" || strings.ContainsAny(o.Name, "/%") {
		c.bad(path+".name", "must be the name of an object, is %q", o.Name)
	}
	c.jsonPath(path+".jsonPath", o.JSONPath)
}

func (c *checker) jsonPath(path string, text v1alpha1.JSONPath) {
	if _, err := parsePath(text); err != nil {
		c.bad(path, "%v", err)
	}
}

// parsePath refuses what would walk an answer again and again.
func parsePath(text v1alpha1.JSONPath) (*jsonpath.JSONPath, error) {
	switch {
	case text == "" || len(text) > maxPath:
		return nil, fmt.Errorf("must have 1 to %d bytes, has %d", maxPath, len(text))
	case !strings.HasPrefix(string(text), "{") || !strings.HasSuffix(string(text), "}") || strings.Count(string(text), "{") != 1:
		return nil, fmt.Errorf("must be one expression in braces, such as {.status.replicas}, is %q", text)
	case strings.Contains(string(text), "..") || strings.HasPrefix(string(text), "{range") || strings.HasPrefix(string(text), "{end"):
		return nil, errors.New("must have no recursive descent (..) and no range")
	}
	tree, err := jsonpath.Parse("jsonPath", string(text))
	if err != nil {
		return nil, err
	}
	if unites(tree.Root) {
		return nil, errors.New("must have no union ([0,1]): it finds several values and must find one")
	}
	p := jsonpath.New("jsonPath")
	return p, p.Parse(string(text))
}

// unites reports whether there is a union in a path. Each of a few, one behind the other, finds its
// object's values many times over: more than there is memory for.
func unites(n jsonpath.Node) bool {
	switch n := n.(type) {
	case *jsonpath.UnionNode:
		return true
	case *jsonpath.ListNode:
		return slices.ContainsFunc(n.Nodes, unites)
	case *jsonpath.FilterNode:
		return unites(n.Left) || unites(n.Right)
	}
	return false
}

// Number is what a path finds in an object as encoding/json decodes one: a number, also as
// text such as "0.07" or "500m", or a truth as 1 or 0. It is an error if it finds nothing,
// several things, or anything else.
func Number(object any, text v1alpha1.JSONPath) (float64, error) {
	p, err := parsePath(text)
	if err != nil {
		return 0, err
	}
	found, err := p.FindResults(object)
	if err != nil && strings.Contains(err.Error(), "cannot be filtered") {
		// Its text has all that was to be filtered, which who reads it may not see.
		err = errors.New("what is to be filtered is no list")
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", text, err)
	}
	if len(found) != 1 || len(found[0]) != 1 {
		n := 0
		for _, f := range found {
			n += len(f)
		}
		return 0, fmt.Errorf("%s finds %d values and must find one", text, n)
	}
	value := found[0][0].Interface()
	switch v := value.(type) {
	case float64:
		return v, nil
	case int64:
		return float64(v), nil
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case string:
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return f, nil
		}
		if q, err := v1alpha1.ParseQuantity(v); err == nil {
			return q.AsApproximateFloat64(), nil
		}
	}
	return 0, fmt.Errorf("%s finds no number", text)
}
