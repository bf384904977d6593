package main

import (
	"context"
	"strings"
	"testing"
)

// A wrong -o is refused before a control plane is started.
func TestDemoRefusesAnUnknownOutput(t *testing.T) {
	// Whatever would start ends at once.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, more := range []string{"--keep", "--tutorial"} {
		var stdout, stderr strings.Builder
		code := run(ctx, []string{"demo", "-o", "x", "--report", t.TempDir(), more}, &stdout, &stderr)
		if code != 2 || !strings.Contains(stderr.String(), "--output must be text or json") {
			t.Errorf("%s: exit %d: %s", more, code, stderr.String())
		}
	}
}
