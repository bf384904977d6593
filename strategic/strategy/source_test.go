package strategy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

const answer = `{"price": {"perHour": "0.07", "cpu": "500m"}, "on": true, "empty": null, "list": [1, 2],
	"conditions": [{"type": "Ready", "n": 3}, {"type": "Other", "n": 4}]}`

func TestNumber(t *testing.T) {
	var object any
	if err := json.Unmarshal([]byte(answer), &object); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[v1alpha1.JSONPath]struct {
		number float64
		err    string
	}{
		"{.price.perHour}":                     {0.07, ""},
		"{.price.cpu}":                         {0.5, ""},
		"{.on}":                                {1, ""},
		"{.list[1]}":                           {2, ""},
		`{.conditions[?(@.type=="Ready")].n}`:  {3, ""},
		`{.conditions[?(@.type=="Broken")].n}`: {0, "finds 0 values"},
		"{.list[*]}":                           {0, "finds 2 values"},
		"{.list}":                              {0, "finds no number"},
		"{.price}":                             {0, "finds no number"},
		"{.empty}":                             {0, ""},
		"{.nothing}":                           {0, "nothing is not found"},
		"{.list[7]}":                           {0, "out of bounds"},
		"{..n}":                                {0, "no recursive descent"},
		"{range .list[*]}":                     {0, "no range"},
		".price":                               {0, "one expression in braces"},
		"{.a}{.b}":                             {0, "one expression in braces"},
		"":                                     {0, "1 to 256 bytes"},
		"{.a[}":                                {0, "unterminated array"},
		"{.list[0,1]}":                         {0, "no union"},
		"{.price['cpu','perHour']}":            {0, "no union"},
		"{.conditions[?(@.n[0,0])].n}":         {0, "no union"},
	} {
		got, err := Number(object, path)
		switch {
		case path == "{.empty}":
			if err == nil {
				t.Errorf("%s: %v, want an error", path, got)
			}
		case want.err == "" && (err != nil || got != want.number):
			t.Errorf("%s: %v, %v, want %v", path, got, err, want.number)
		case want.err != "" && (err == nil || !strings.Contains(err.Error(), want.err)):
			t.Errorf("%s: %v, %v, want %q", path, got, err, want.err)
		}
	}
	// As the API server's client decodes numbers.
	if got, err := Number(map[string]any{"n": int64(4)}, "{.n}"); got != 4 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// A path finds no more values than its object has.
func TestUnionsAreRefused(t *testing.T) {
	env := make([]any, 300)
	for i := range env {
		env[i] = map[string]any{"name": "a", "value": "1"}
	}
	object := map[string]any{"containers": []any{map[string]any{"env": env}}}
	each := "[" + strings.Repeat("*,", 49) + "*]"
	for _, path := range []string{"{.containers" + each + ".env" + each + "}", "{.containers[?(@.env" + each + each + ")]}"} {
		began := time.Now()
		_, err := Number(object, v1alpha1.JSONPath(path))
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "no union") || took > time.Second {
			t.Errorf("%.120v after %v, want an error at once", err, took)
		}
	}
}

// What can't be followed is told without what the object has: who reads of the sensor may not see that.
func TestErrorsHaveNothingOfTheObject(t *testing.T) {
	_, err := Number(map[string]any{"a": map[string]any{"key": "hunter2"}}, `{.a[?(@.key=="x")]}`)
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "no list") {
		t.Errorf("got %v", err)
	}
}

// No text takes long to read, whatever exponent its author wrote.
func TestNumberIsReadAtOnce(t *testing.T) {
	began := time.Now()
	got, err := Number(map[string]any{"n": "1111111111111111111e4000000"}, "{.n}")
	if took := time.Since(began); err == nil || took > time.Second {
		t.Errorf("%v, %v after %v", got, err, took)
	}
}

func FuzzNumber(f *testing.F) {
	for _, path := range []string{"{.a}", "{.list[0:1]}", `{.c[?(@.t=="R")].n}`, "{.a['b']}", "{@}", "{$.x[*].y}", "{.list[-1]}", "{'a'}"} {
		f.Add(path, answer)
	}
	f.Fuzz(func(t *testing.T, path, body string) {
		var object any
		if json.Unmarshal([]byte(body), &object) != nil {
			return
		}
		_, _ = Number(object, v1alpha1.JSONPath(path))
	})
}
