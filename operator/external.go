package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/serve/external"
)

// ExternalPort is where the chart has KEDA's external scaler served.
const ExternalPort = 9443

// Files of Config.ExternalCertDir, with the names of a Secret of type kubernetes.io/tls.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
	caFile   = "ca.crt"
)

// external reports whether KEDA's external scaler is served.
func (c Config) external() bool { return c.ExternalAddress != "" && c.ExternalAddress != "0" }

// planAge is the age of a plan that KEDA isn't told any more: that of three
// confirmations which did not come.
func (c Config) planAge() time.Duration { return 3*c.StatusRefresh + 2*c.Core.Planning.CyclePeriod }

// serveExternal adds KEDA's external scaler to the manager. All replicas serve it.
func (c Config) serveExternal(mgr manager.Manager) error {
	if !c.external() {
		return nil
	}
	l, err := c.externalListener(mgr)
	if err != nil {
		return fmt.Errorf("serving KEDA: %w", err)
	}
	c.Logger.Info("serving KEDA", "address", l.Listener.Addr().String(), "tls", l.TLS != nil)
	return mgr.Add(l)
}

func (c Config) externalListener(mgr manager.Manager) (*external.Listener, error) {
	changes := &external.Changes{}
	l := &external.Listener{
		Server:   &external.Server{Reader: mgr.GetClient(), Changes: changes, MaxAge: c.planAge(), Now: time.Now},
		Before:   func(ctx context.Context) error { return changes.Watch(ctx, mgr.GetCache()) },
		Panicked: func(what string, value any, stack []byte) { c.panicked(what, api.Key{}, value, stack) },
	}
	var err error
	if !c.ExternalInsecure {
		if l.TLS, err = c.externalTLS(mgr.Add); err != nil {
			return nil, err
		}
	}
	l.Listener, err = net.Listen("tcp", c.ExternalAddress)
	return l, err
}

// externalTLS is TLS with the certificates of ExternalCertDir, which may be renewed while
// they are used. Add is given what has to run for that.
func (c Config) externalTLS(add func(manager.Runnable) error) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	if c.ExternalCertDir == "" {
		pair, err := selfSigned()
		config.Certificates = []tls.Certificate{pair}
		return config, err
	}
	watcher, err := certwatcher.New(filepath.Join(c.ExternalCertDir, certFile), filepath.Join(c.ExternalCertDir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	config.GetCertificate = watcher.GetCertificate
	ca := filepath.Join(c.ExternalCertDir, caFile)
	var asked atomic.Bool // for clients' certificates: from the first authority on, for ever
	if _, err := clientCAs(ca); err == nil {
		asked.Store(true)
	} else if !os.IsNotExist(err) {
		return nil, err
	}
	// The file may come later than the start, too.
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := clientCAs(ca)
		if os.IsNotExist(err) && !asked.Load() {
			return nil, nil // config as it is
		}
		asked.Store(true)
		if err != nil {
			return nil, err
		}
		now := config.Clone()
		now.GetConfigForClient, now.ClientAuth, now.ClientCAs = nil, tls.RequireAndVerifyClientCert, pool
		return now, nil
	}
	return config, add(watcher)
}

// clientCAs are whose certificates clients may have.
func clientCAs(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return pool, nil
}
