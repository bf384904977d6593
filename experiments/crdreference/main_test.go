package main

import (
	"os"
	"strings"
	"testing"
)

// docs/reference/crd.md is of the definition as it is.
func TestReferenceIsUpToDate(t *testing.T) {
	var b strings.Builder
	if err := references(&b, "../.."); err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile("../../docs/reference/crd.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != b.String() {
		t.Error("docs/reference/crd.md is not what the definition says: run make reference")
	}
	for _, field := range []string{"| `targetRef.name` | string |", "| `minReplicas` | integer, 0 to 100000 |", "| `mode` | Off, Shadow, Canary, Full |", "| `behavior.scaleDown.policies[].periodSeconds` |"} {
		if !strings.Contains(b.String(), field) {
			t.Errorf("there is no %s", field)
		}
	}
}
