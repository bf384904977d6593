package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/sensing"
)

// PrometheusFlags say where Prometheus is and how it is reached.
type PrometheusFlags struct {
	URL, TokenFile, CAFile string
	Headers                []string // "Name: value"
	HeadersFile            string   // such lines, read anew for each request
	Matchers, Recorded     string   // in the operator's own queries
}

func (p *PrometheusFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.URL, "prometheus-url", "", "base URL of Prometheus (required)")
	f.StringVar(&p.TokenFile, "prometheus-bearer-token-file", "", "file with a bearer token for Prometheus, read anew for each request")
	f.StringVar(&p.CAFile, "prometheus-ca-file", "", "file with the certificates of the authority that signed Prometheus' own; those of the system if empty")
	f.StringArrayVar(&p.Headers, "prometheus-header", nil, "header of each request to Prometheus, such as 'X-Scope-OrgID: team'; may be repeated")
	f.StringVar(&p.HeadersFile, "prometheus-headers-file", "", "file with a header of each request to Prometheus on each line, as of --prometheus-header, read anew for each request: for values that do not belong on a command line")
	f.StringVar(&p.Matchers, "prometheus-matchers", "", `label matchers for a Prometheus of several clusters, such as 'cluster="prod"'`)
	f.StringVar(&p.Recorded, "recorded-usage", sensing.DefaultConfig().RecordedUsage, "series that the chart's recording rules make, from which history is read where it is there; none if empty")
}

// Validate reports the first flag that can't be used.
func (p *PrometheusFlags) Validate() error {
	if p.URL == "" {
		return Usagef("--prometheus-url is required: the base URL of the Prometheus that scrapes cAdvisor")
	}
	if _, err := p.header(); err != nil {
		return err
	}
	if p.HeadersFile != "" {
		h, err := readHeaders(p.HeadersFile)
		if err != nil {
			return Usagef("--prometheus-headers-file: %v", err)
		}
		if p.TokenFile != "" && h.Get("Authorization") != "" {
			return Usagef("--prometheus-headers-file: %s has Authorization, and --prometheus-bearer-token-file is another one", p.HeadersFile)
		}
	}
	if _, err := p.authority(); err != nil {
		return err
	}
	return nil
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// headerOf takes a line "Name: value" apart.
func headerOf(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	return name, value, ok && headerName.MatchString(name) && !strings.ContainsAny(value, "\r\n\x00")
}

// header is what --prometheus-header says.
func (p *PrometheusFlags) header() (http.Header, error) {
	h := http.Header{}
	for _, line := range p.Headers {
		name, value, ok := headerOf(line)
		switch {
		case !ok:
			return nil, Usagef("--prometheus-header must be 'Name: value', not %q", line)
		case strings.EqualFold(name, "Authorization"):
			return nil, Usagef("--prometheus-header: a credential does not belong on a command line; use --prometheus-bearer-token-file or --prometheus-headers-file")
		}
		h.Add(name, value)
	}
	return h, nil
}

// readHeaders reads a file of lines "Name: value". No error tells a value: they are
// secret.
func readHeaders(path string) (http.Header, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	for n, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := headerOf(line)
		if !ok {
			return nil, fmt.Errorf("%s:%d: must be 'Name: value'", path, n+1)
		}
		h.Add(name, value)
	}
	return h, nil
}

// authority is what --prometheus-ca-file has; nil for the system's.
func (p *PrometheusFlags) authority() (*x509.CertPool, error) {
	if p.CAFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(p.CAFile)
	if err != nil {
		return nil, Usagef("--prometheus-ca-file: %v", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, Usagef("--prometheus-ca-file: %s has no certificate", p.CAFile)
	}
	return pool, nil
}

// Transport reaches Prometheus as the flags say.
func (p *PrometheusFlags) Transport() (http.RoundTripper, error) {
	header, err := p.header()
	if err != nil {
		return nil, err
	}
	pool, err := p.authority()
	if err != nil {
		return nil, err
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return withHeader{header: header, headersFile: p.HeadersFile, tokenFile: p.TokenFile, next: base}, nil
}

// withHeader adds headers, and those of a file and a bearer token that are read anew for
// every request, as projected service account tokens and mounted Secrets change.
type withHeader struct {
	header                 http.Header
	headersFile, tokenFile string // none if empty
	next                   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range t.header {
		r.Header[name] = values
	}
	if t.headersFile != "" {
		more, err := readHeaders(t.headersFile)
		if err != nil {
			return nil, fmt.Errorf("reading the headers: %w", err)
		}
		for name, values := range more {
			r.Header[name] = values
		}
	}
	if t.tokenFile != "" {
		token, err := os.ReadFile(t.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the bearer token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	return t.next.RoundTrip(r)
}
