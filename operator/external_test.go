package operator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// sign makes a certificate of localhost, for either side, as PEM.
func (a authority) sign(t *testing.T) (cert, key []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, a.cert, &own.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// TestExternalTLS: the certificates of the folder are served, and with an authority of
// clients only theirs are let in.
func TestExternalTLS(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	for name, c := range map[string]struct {
		clients bool       // ca.crt is there
		later   bool       // and came after the start
		gone    bool       // and went again
		client  *authority // who signed the client's; nil for none
		want    bool
	}{
		"anybody":                    {want: true},
		"a client without one":       {clients: true},
		"a client of ours":           {clients: true, client: &ours, want: true},
		"a client of somebody else":  {clients: true, client: &others},
		"a certificate nobody needs": {client: &others, want: true},
		"without one, later":         {clients: true, later: true},
		"of ours, later":             {clients: true, later: true, client: &ours, want: true},
		"of somebody else, later":    {clients: true, later: true, client: &others},
		"an authority that is gone":  {clients: true, gone: true, client: &ours},
		"gone, and came later":       {clients: true, later: true, gone: true, client: &ours},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cert, key := ours.sign(t)
			write(t, filepath.Join(dir, certFile), cert)
			write(t, filepath.Join(dir, keyFile), key)
			if c.clients && !c.later {
				write(t, filepath.Join(dir, caFile), ours.pem())
			}
			added := 0
			config, err := Config{ExternalCertDir: dir}.externalTLS(func(manager.Runnable) error { added++; return nil })
			if err != nil || added != 1 {
				t.Fatalf("%v, %d added", err, added)
			}
			asks := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"h2"}}
			if c.later {
				if !handshake(t, config, asks) {
					t.Fatal("not let in while no certificate was asked for")
				}
				write(t, filepath.Join(dir, caFile), ours.pem())
			}
			if c.gone {
				if c.later && handshake(t, config, asks) {
					t.Fatal("let in without a certificate")
				}
				if err := os.Remove(filepath.Join(dir, caFile)); err != nil {
					t.Fatal(err)
				}
			}
			if c.client != nil {
				cert, key := c.client.sign(t)
				pair, err := tls.X509KeyPair(cert, key)
				if err != nil {
					t.Fatal(err)
				}
				// Whoever the server asks for.
				asks.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			}
			if got := handshake(t, config, asks); got != c.want {
				t.Errorf("let in: %v, want %v", got, c.want)
			}
		})
	}
	if _, err := (Config{ExternalCertDir: t.TempDir()}).externalTLS(nil); err == nil || !strings.Contains(err.Error(), certFile) {
		t.Errorf("an empty folder: %v", err)
	}
	if config, err := (Config{}).externalTLS(nil); err != nil || len(config.Certificates) != 1 {
		t.Errorf("without a folder: %v", err)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// handshake reports whether a client can speak with a server.
func handshake(t *testing.T, serves, asks *tls.Config) bool {
	t.Helper()
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	accepted := make(chan error, 1)
	go func() {
		conn := tls.Server(here, serves)
		accepted <- conn.HandshakeContext(t.Context())
		_ = conn.Close()
	}()
	conn := tls.Client(there, asks)
	err := conn.HandshakeContext(t.Context())
	go func() { _, _ = conn.Read(make([]byte, 1)) }() // the alert that refuses it, if there is one
	return <-accepted == nil && err == nil
}

// TestExternalConfig: what can't be meant is refused.
func TestExternalConfig(t *testing.T) {
	good := DefaultConfig()
	good.REST, good.Logger, good.Sensing.PrometheusURL = &rest.Config{}, slog.New(slog.DiscardHandler), "http://localhost:9090"
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"off":                   {func(*Config) {}, ""},
		"on":                    {func(c *Config) { c.ExternalAddress = ":9443" }, ""},
		"insecure for all":      {func(c *Config) { c.ExternalAddress, c.ExternalInsecure = ":9443", true }, "ExternalInsecure needs an ExternalAddress"},
		"insecure, for oneself": {func(c *Config) { c.ExternalAddress, c.ExternalInsecure = "127.0.0.1:9443", true }, ""},
		"insecure with keys": {func(c *Config) {
			c.ExternalAddress, c.ExternalInsecure, c.ExternalCertDir = "127.0.0.1:9443", true, "/x"
		}, "uses no ExternalCertDir"},
	} {
		cfg := good
		c.change(&cfg)
		if err := cfg.Validate(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
