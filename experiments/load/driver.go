// Package load puts the load of a scenario on the pods of a real cluster whose
// containers nobody runs: virtual users send requests to a queueing model
// (package queueing) of the pods that the API server reports, in real time ÷
// speed. What comes out is what the world offers: cAdvisor's series for
// Prometheus, metrics.k8s.io, and the statistics of a load generator.
//
// The pods' life is the cluster's own. A pod serves from its Ready condition,
// as soon as that has reached the proxies (EndpointPropagation), until it is
// gone. Once it terminates, it accepts connections as long as its preStop sleep
// lasts, then finishes what it has; what is left after its grace period, or
// when the object vanishes, is reset. The durations in a pod's spec count as
// scenario time. The first container of a pod does all the work.
//
// CPU counters advance by the cores in use times seconds on the wall, so that
// rate() reads the same cores at any speed.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"

	"github.com/mash2-io/mash2/experiments/load/exposition"
	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// tick is how often the model is advanced when nothing else asks for it.
const tick = 50 * time.Millisecond

// Driver loads workloads.
type Driver struct {
	cfg   Config
	start time.Time     // on the wall, when the model's time was 0
	pass  time.Duration // length of one
	end   time.Duration // of all passes, scenario time

	metricsAddr, resourceAddr string

	cancel  context.CancelFunc
	group   *errgroup.Group
	over    chan struct{} // closed when the last pass has ended
	stopped <-chan struct{}

	mu        sync.Mutex
	begun     bool
	offset    time.Duration // the model's time when scenario time was 0
	rng       *rand.Rand
	model     *queueing.Model
	recorder  *record.Recorder
	selectors []labels.Selector // by workload
	pods      map[string]*trackedPod
	nodes     map[string]*trackedNode
	collector *Collector
	finished  bool
	err       error // the first failure
}

// Start begins to watch the cluster, to serve metrics and, unless Hold is set,
// to put on load. It returns when the watches have synchronised. The context is
// for the whole life of the driver.
func Start(ctx context.Context, cfg Config) (*Driver, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configuring load: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("configuring load: %w", err)
	}
	d, err := newDriver(cfg, time.Now())
	if err != nil {
		return nil, err
	}
	ctx, d.cancel = context.WithCancel(ctx)
	d.group, ctx = errgroup.WithContext(ctx)
	d.stopped = ctx.Done()
	if err := d.serve(ctx); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	if err := d.watch(ctx, client); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	if !cfg.Hold {
		d.Begin()
	}
	d.group.Go(func() error { return d.run(ctx) })
	return d, nil
}

// newDriver sets up everything that does no I/O.
func newDriver(cfg Config, now time.Time) (*Driver, error) {
	total := cfg.WarmupPasses + cfg.Passes
	d := &Driver{
		cfg:   cfg,
		start: now,
		pass:  cfg.Scenario.PassDuration(),
		over:  make(chan struct{}),
		rng:   rand.New(rand.NewPCG(cfg.Seed, 1<<62)),
		model: queueing.New(cfg.Seed),
		pods:  map[string]*trackedPod{},
		nodes: map[string]*trackedNode{},
	}
	d.end = time.Duration(total) * d.pass
	var names []string
	for _, w := range cfg.Workloads {
		selector, err := labels.Parse(w.Selector)
		if err != nil {
			return nil, fmt.Errorf("selector of %s: %w", w.key(), err)
		}
		d.selectors = append(d.selectors, selector)
		names = append(names, w.key())
		if err := d.model.AddStream(queueing.Stream{
			Name:    w.key(),
			Work:    cfg.Scenario.Request.CPU,
			Think:   cfg.Scenario.ThinkTime,
			Timeout: cfg.Scenario.Request.Timeout.Duration,
		}); err != nil {
			return nil, fmt.Errorf("configuring load: %w", err)
		}
	}
	d.recorder = record.New(names...)
	d.collector = NewCollector(cfg)
	return d, nil
}

// Begin lets scenario time run. Calling it again does nothing.
func (d *Driver) Begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun {
		return
	}
	d.advance(time.Now())
	d.recorder.Take(0) // what was there before is nobody's
	d.begun, d.offset = true, d.model.Now()
	ramp := d.cfg.Scenario.Ramp(d.cfg.WarmupPasses + d.cfg.Passes)
	for _, w := range d.cfg.Workloads {
		d.fail(d.model.StartUsers(w.key(), ramp))
	}
}

// fail keeps the first error and stops. The caller holds the lock.
func (d *Driver) fail(err error) {
	if err != nil && d.err == nil {
		d.err = err
		d.cancel()
	}
}

// MetricsAddr is the host:port that serves /metrics/cadvisor.
func (d *Driver) MetricsAddr() string { return d.metricsAddr }

// ResourceMetricsAddr is the host:port that serves metrics.k8s.io over TLS, with
// a self-signed certificate.
func (d *Driver) ResourceMetricsAddr() string { return d.resourceAddr }

// Wait returns when the last pass has ended. It returns an error if the driver
// stopped before.
func (d *Driver) Wait() error {
	select {
	case <-d.over:
		return nil
	case <-d.stopped:
	}
	select {
	case <-d.over:
		return nil
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	return errors.New("load was stopped before its end")
}

// Stop ends the driver and waits until it has ended. It returns the error it
// failed with, if any.
func (d *Driver) Stop() error {
	d.cancel()
	err := d.group.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.err, err)
}

// ScenarioTime is the scenario time at a time on the wall: 0 until Begin.
func (d *Driver) ScenarioTime(t time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.scenarioTime(d.modelTime(t))
}

// WallTime is the time on the wall at a scenario time; false before Begin.
func (d *Driver) WallTime(scenario time.Duration) (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.start.Add(time.Duration(float64(scenario+d.offset) / d.cfg.Speed)), d.begun
}

func (d *Driver) modelTime(wall time.Time) time.Duration {
	return time.Duration(float64(wall.Sub(d.start)) * d.cfg.Speed)
}

func (d *Driver) scenarioTime(model time.Duration) time.Duration {
	if !d.begun {
		return 0
	}
	return max(model-d.offset, 0)
}

// Switches are the scenario's policy switches in scenario time since Begin, in
// every pass or, with measuredOnly, those of the measured passes. The first of a
// pass is its initial policy, at its beginning, where that is a change.
func (d *Driver) Switches(measuredOnly bool) []scenarios.Switch {
	var out []scenarios.Switch
	policy := d.cfg.Scenario.Policy
	active := ""
	first := 0
	if measuredOnly {
		first = d.cfg.WarmupPasses
	}
	for p := first; p < d.cfg.WarmupPasses+d.cfg.Passes; p++ {
		begin := time.Duration(p) * d.pass
		for _, s := range append([]scenarios.Switch{{Policy: policy.Initial}}, policy.Switches...) {
			if s.Policy != active {
				active = s.Policy
				out = append(out, scenarios.Switch{At: scenarios.Duration{Duration: begin + s.At.Duration}, Policy: s.Policy})
			}
		}
	}
	return out
}

// run advances the model and reads the resource metrics until the context ends.
func (d *Driver) run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			d.mu.Lock()
			d.advance(now)
			d.mu.Unlock()
		}
	}
}

// advance brings the model to a time on the wall, closing the buckets passed,
// and returns the scenario time reached. The caller holds the lock.
func (d *Driver) advance(wall time.Time) time.Duration {
	now := max(d.modelTime(wall), d.model.Now())
	for d.begun && !d.finished {
		boundary := d.collector.Next()
		if d.offset+boundary > now {
			break
		}
		d.model.Advance(d.offset + boundary)
		d.fail(d.collector.Close(boundary, d.model, d.recorder.Take(boundary)))
		if boundary >= d.end {
			d.finished = true
			close(d.over)
		}
	}
	d.model.Advance(now)
	return d.scenarioTime(now)
}

// serve listens and serves both APIs until the context ends.
func (d *Driver) serve(ctx context.Context) error {
	resolution := time.Duration(float64(d.cfg.Resolution) / d.cfg.Speed)
	resource := exposition.NewResourceMetrics(d.containers, d.nodeList, resolution)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics/cadvisor", exposition.Cadvisor(d.containers))

	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	plain, err := d.listen(ctx, d.cfg.MetricsAddr, mux)
	if err != nil {
		return err
	}
	d.metricsAddr = plain.Addr().String()
	secure, err := d.listenTLS(ctx, d.cfg.ResourceMetricsAddr, resource.Handler(), cert)
	if err != nil {
		return err
	}
	d.resourceAddr = secure.Addr().String()

	d.group.Go(func() error {
		ticker := time.NewTicker(resolution)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				resource.Read(time.Now())
			}
		}
	})
	return nil
}

func (d *Driver) listen(ctx context.Context, addr string, h http.Handler) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serving metrics: %w", err)
	}
	d.serveOn(ctx, l, h)
	return l, nil
}

func (d *Driver) listenTLS(ctx context.Context, addr string, h http.Handler, cert tls.Certificate) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serving metrics.k8s.io: %w", err)
	}
	d.serveOn(ctx, tls.NewListener(l, &tls.Config{
		Certificates: []tls.Certificate{cert},
		MinVersion:   tls.VersionTLS12,
	}), h)
	return l, nil
}

func (d *Driver) serveOn(ctx context.Context, l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	d.group.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving on %s: %w", l.Addr(), err)
		}
		return nil
	})
	d.group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
}
