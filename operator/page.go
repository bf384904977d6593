package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/operator/replay"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/serve/rest"
	"github.com/mash2-io/mash2/serve/web"
)

// PagePort is where the chart has the page served.
const PagePort = 8444

// moneyFile in the StateDir keeps what was spent.
const moneyFile = "spent.json"

// page is the operator's page; the zero value has none.
type page struct{ store *rest.Store }

// page opens what the page is served on, and adds its server to the manager. All
// replicas serve it; only who leads has something to show.
func (c Config) page(ctx context.Context, mgr manager.Manager) (page, error) {
	if c.PageAddress == "" || c.PageAddress == "0" {
		return page{}, nil
	}
	cfg := rest.Config{
		Program: c.Version, Period: c.Core.Planning.CyclePeriod, Speed: c.Speed,
		Failed: func(err error) { c.Logger.Warn("the page's figures of money", "error", err) },
	}
	if dir := c.Records.Dir; dir != "" {
		cfg.Records = func() (*record.Log, error) { return record.Open(os.DirFS(dir)) }
		cfg.Otherwise = func(ctx context.Context, at time.Time, o rest.Otherwise) (any, error) {
			l, err := cfg.Records()
			if err != nil {
				return nil, err
			}
			return Otherwise(ctx, l, at, o)
		}
	}
	if store := c.knowledge(); store != nil {
		cfg.Knowledge = store.Search
	}
	if c.StateDir != "" {
		cfg.MoneyFile = filepath.Join(c.StateDir, moneyFile)
	}
	p := page{rest.NewStore(cfg)}
	server := &rest.Server{Store: p.store, Auth: rest.Everybody{}, Loopback: true}
	listener, err := net.Listen("tcp", c.PageAddress)
	if err != nil {
		return p, fmt.Errorf("serving the page: %w", err)
	}
	if !c.PageInsecure {
		client, err := kubernetes.NewForConfig(c.REST)
		if err != nil {
			return p, err
		}
		server.Auth, server.Loopback = rest.NewKubernetes(client, time.Now), false
		server.Actor = rest.ClusterActor{REST: c.REST, AsRequest: true, Policy: c.Policy}
		pair, err := selfSigned()
		if err != nil {
			return p, fmt.Errorf("serving the page: %w", err)
		}
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}})
	}
	c.Logger.Info("serving the page", "address", listener.Addr().String(), "insecure", c.PageInsecure)
	return p, mgr.Add(&manager.Server{
		Name: "page", Listener: listener,
		Server: &http.Server{
			Handler: web.Handler(server.Handler()), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
			WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
			// Streams end with the process.
			BaseContext: func(net.Listener) context.Context { return ctx },
		},
	})
}

// selfSigned is a certificate as for /metrics: made at each start, signed by nobody.
func selfSigned() (tls.Certificate, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// Otherwise answers the page's question about a recorded cycle.
func Otherwise(ctx context.Context, l *record.Log, at time.Time, o rest.Otherwise) (any, error) {
	f, err := replay.Otherwise(ctx, l, at, replay.Change{With: o.With, Without: o.Without, Policy: o.Policy, Workload: o.Workload})
	if errors.Is(err, replay.ErrChange) {
		err = &rest.RefusedError{Status: http.StatusBadRequest, Why: err.Error()}
	}
	return f, err
}

// recalled is how much of the records a page begins with.
const recalled = 2 * time.Hour

// tap lets the page see what the loop records, and recalls what was recorded before.
func (p page) tap(loop *mash2.Loop, c Config, past *record.Log) {
	if p.store == nil {
		return
	}
	p.store.LoadMoney()
	loop.Recorder = rest.Tap{Store: p.store, Next: loop.Recorder}
	if past == nil {
		return
	}
	go func() {
		if err := p.store.Recall(past, time.Now().Add(-recalled)); err != nil {
			c.Logger.Warn("the page begins without what was recorded", "error", err)
		}
	}()
}
