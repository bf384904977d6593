package main

import (
	"strings"
	"testing"
)

// What nobody can mean is refused before a cluster is asked: an empty name is a variable of a script that
// is not set, and would take a person's choice of policy back.
func TestArgumentsThatNobodyMeans(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"policy set|", "takes the name of one policy"},
		{"policy set| ", "takes the name of one policy"},
		{"ui --port -1", "--port must be from 1 to 65535, is -1"},
		{"ui --port 65536", "--port must be from 1 to 65535, is 65536"},
	} {
		line, more, isMore := strings.Cut(c.args, "|")
		args := strings.Fields(line)
		if isMore {
			args = append(args, more)
		}
		var stdout, stderr strings.Builder
		if code := run(t.Context(), args, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%q: exit %d: %s", args, code, stderr.String())
		}
	}
}
