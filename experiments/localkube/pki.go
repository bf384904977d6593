package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// certLifetime is long enough for any experiment and short enough that a
// forgotten key is worthless soon.
const certLifetime = 7 * 24 * time.Hour

// pki is the cluster's key material, as files in one directory.
//
// Two authorities, as the aggregation layer asks for: one that signs the
// server and every client, and one only for the front proxy, whose holder may
// speak for any user.
type pki struct {
	dir   string
	ca    authority
	front authority
}

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	file string // the certificate's PEM file
}

// pair is a certificate and its key, as files.
type pair struct{ cert, key string }

// newPKI makes both authorities and the service account key in dir.
func newPKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &pki{dir: dir}
	var err error
	if p.ca, err = p.newAuthority("ca", "localkube-ca"); err != nil {
		return nil, err
	}
	if p.front, err = p.newAuthority("front-proxy-ca", "localkube-front-proxy-ca"); err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	if err := writePEM(p.serviceAccountPublicKey(), "PUBLIC KEY", public); err != nil {
		return nil, err
	}
	return p, writeKey(p.serviceAccountKey(), key)
}

func (p *pki) serviceAccountKey() string       { return filepath.Join(p.dir, "sa.key") }
func (p *pki) serviceAccountPublicKey() string { return filepath.Join(p.dir, "sa.pub") }

func (p *pki) newAuthority(file, commonName string) (authority, error) {
	key, err := newKey()
	if err != nil {
		return authority{}, err
	}
	template, err := newTemplate(pkix.Name{CommonName: commonName})
	if err != nil {
		return authority{}, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, err
	}
	a := authority{cert: cert, key: key, file: filepath.Join(p.dir, file+".crt")}
	if err := writePEM(a.file, "CERTIFICATE", der); err != nil {
		return authority{}, err
	}
	return a, writeKey(filepath.Join(p.dir, file+".key"), key)
}

// client issues a client certificate; the common name is the user, the
// organizations are its groups.
func (p *pki) client(by authority, file, user string, groups ...string) (pair, error) {
	template, err := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return p.issue(by, file, template)
}

// server issues a certificate for servers on the loopback interface; names
// are further DNS names it answers to.
func (p *pki) server(file string, ips []net.IP, names ...string) (pair, error) {
	template, err := newTemplate(pkix.Name{CommonName: file})
	if err != nil {
		return pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = append([]string{"localhost"}, names...)
	template.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1)}, ips...)
	return p.issue(p.ca, file, template)
}

func (p *pki) issue(by authority, file string, template *x509.Certificate) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return pair{}, fmt.Errorf("issuing %s: %w", file, err)
	}
	out := pair{cert: filepath.Join(p.dir, file+".crt"), key: filepath.Join(p.dir, file+".key")}
	if err := writePEM(out.cert, "CERTIFICATE", der); err != nil {
		return pair{}, err
	}
	return out, writeKey(out.key, key)
}

// kubeconfig writes a kubeconfig with everything inline for a user of the
// main authority.
func (p *pki) kubeconfig(path, server, user string, groups ...string) error {
	creds, err := p.client(p.ca, filepath.Base(path), user, groups...)
	if err != nil {
		return err
	}
	read := func(path string) []byte {
		data, readErr := os.ReadFile(path)
		if err == nil {
			err = readErr
		}
		return data
	}
	const name = "localkube"
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   server,
			CertificateAuthorityData: read(p.ca.file),
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{user: {
			ClientCertificateData: read(creds.cert),
			ClientKeyData:         read(creds.key),
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	}
	if err != nil {
		return err
	}
	return clientcmd.WriteToFile(config, path)
}

func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // tolerate a clock set back while running
		NotAfter:     now.Add(certLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}, nil
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
