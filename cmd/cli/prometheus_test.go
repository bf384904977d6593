package cli

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Prometheus behind TLS of an authority of one's own, a tenant header and a
// token that changes while the operator runs.
func TestPrometheusTransport(t *testing.T) {
	dir := t.TempDir()
	var got http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused handshakes
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := write("token", []byte("first\n"))
	ca := write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))

	ask := func(p PrometheusFlags) error {
		t.Helper()
		transport, err := p.Transport()
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: transport}).Get(server.URL)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	if err := ask(PrometheusFlags{}); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("without the authority: %v, want the certificate refused", err)
	}
	p := PrometheusFlags{TokenFile: token, CAFile: ca, Headers: []string{"X-Scope-OrgID: shop", "X-Two: a: b"}}
	for _, want := range []string{"first", "second"} {
		write("token", []byte(want+"\n"))
		if err := ask(p); err != nil {
			t.Fatal(err)
		}
		if a := got.Get("Authorization"); a != "Bearer "+want {
			t.Errorf("Authorization is %q, want Bearer %s", a, want)
		}
	}
	if got.Get("X-Scope-OrgID") != "shop" || got.Get("X-Two") != "a: b" {
		t.Errorf("headers are %v", got)
	}
	p.HeadersFile = write("headers", nil)
	for _, want := range []string{"shop", "other"} {
		write("headers", []byte("X-Scope-OrgID: "+want+"\r\n\nx-three:c\n"))
		if err := ask(p); err != nil {
			t.Fatal(err)
		}
		if got.Get("X-Scope-OrgID") != want || got.Get("X-Two") != "a: b" || got.Get("X-Three") != "c" {
			t.Errorf("with a file of headers: %v", got)
		}
	}
	write("headers", []byte("X-Key secret"))
	if err := ask(p); err == nil || !strings.Contains(err.Error(), "headers:1: must be 'Name: value'") || strings.Contains(err.Error(), "secret") {
		t.Errorf("with a line that is no header: %v", err)
	}
	p.HeadersFile = ""
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	if err := ask(p); err == nil || !strings.Contains(err.Error(), "reading the bearer token") {
		t.Errorf("without a token: %v", err)
	}
}

func TestPrometheusFlagsAreRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(filepath.Dir(empty), "headers")
	basic := filepath.Join(filepath.Dir(empty), "basic")
	for path, text := range map[string]string{wrong: "X-A: b\nsecret", basic: "Authorization: Basic eA=="} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&PrometheusFlags{URL: "http://x", HeadersFile: basic}).Validate(); err != nil {
		t.Errorf("a password in a file: %v", err)
	}
	for name, c := range map[string]struct {
		flags PrometheusFlags
		want  string
	}{
		"no address":                  {PrometheusFlags{}, "--prometheus-url is required"},
		"a header without a value":    {PrometheusFlags{URL: "http://x", Headers: []string{"tenant"}}, "--prometheus-header must be 'Name: value'"},
		"a header within a header":    {PrometheusFlags{URL: "http://x", Headers: []string{"a: b\r\nc: d"}}, "--prometheus-header must be"},
		"a header with a space in it": {PrometheusFlags{URL: "http://x", Headers: []string{"a b: c"}}, "--prometheus-header must be"},
		"a password on the line":      {PrometheusFlags{URL: "http://x", Headers: []string{"authorization: Basic eA=="}}, "--prometheus-bearer-token-file"},
		"a file that has no headers":  {PrometheusFlags{URL: "http://x", HeadersFile: wrong}, "headers:2: must be 'Name: value'"},
		"a file that is gone":         {PrometheusFlags{URL: "http://x", HeadersFile: wrong + "x"}, "--prometheus-headers-file"},
		"two credentials":             {PrometheusFlags{URL: "http://x", HeadersFile: basic, TokenFile: "token"}, "has Authorization"},
		"an authority that isn't":     {PrometheusFlags{URL: "http://x", CAFile: empty}, "has no certificate"},
		"an authority that is gone":   {PrometheusFlags{URL: "http://x", CAFile: empty + "x"}, "--prometheus-ca-file"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.flags.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
