package gkesim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/container/apiv1/containerpb"
	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"

	"github.com/mash2-io/mash2/experiments/baseline/autoscaler"
)

// Server is one simulated cluster. Its methods may be called concurrently.
type Server struct {
	containerpb.UnimplementedClusterManagerServer

	cfg    Config
	kube   kubernetes.Interface
	agenda *agenda

	rpc  net.Listener
	rest net.Listener

	// mu guards what follows. It is not held during calls to the API server.
	mu         sync.Mutex
	rng        *rand.Rand
	pools      []*pool
	clusterOp  *operation // the one that occupies the whole cluster, or nil
	operations []*operation
	zoneOps    []*zoneOperation
	faults     []*fault
	ledger     []*Lifetime
	names      map[string]bool // of instances, used ones too
	addresses  uint32          // handed out so far
	ids        uint64          // handed out so far
	scaler     autoscaler.Autoscaler
	begun      time.Time

	stop func()
}

// pool is the state of a Pool.
type pool struct {
	Pool
	machine     Machine
	autoscaling *containerpb.NodePoolAutoscaling
	groups      []*group   // one per zone
	op          *operation // the one that occupies the pool, or nil
}

// New returns a server of the cluster that cfg describes, in front of the API
// server that kube talks to. It listens, but does not serve before Start.
func New(cfg Config, kube kubernetes.Interface) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("gkesim: %w", err)
	}
	s := &Server{
		cfg:    cfg,
		kube:   kube,
		agenda: newAgenda(),
		rng:    rand.New(rand.NewPCG(cfg.Seed, 0)),
		names:  map[string]bool{},
		begun:  cfg.Clock.Now(),
		stop:   func() {},
	}
	s.scaler = autoscaler.Autoscaler{Rules: cfg.Autoscaler.Faster(cfg.Speed), Src: s.rng}
	for _, p := range cfg.Pools {
		state := &pool{Pool: p, machine: Machines[p.MachineType], autoscaling: &containerpb.NodePoolAutoscaling{}}
		if p.Autoscaling {
			state.autoscaling = &containerpb.NodePoolAutoscaling{
				Enabled:        true,
				MinNodeCount:   p.MinPerZone,
				MaxNodeCount:   p.MaxPerZone,
				LocationPolicy: containerpb.NodePoolAutoscaling_BALANCED,
			}
		}
		for _, zone := range p.Zones {
			state.groups = append(state.groups, s.newGroup(state, zone))
		}
		s.pools = append(s.pools, state)
	}
	var err error
	if s.rpc, err = net.Listen("tcp", cfg.ListenAddress); err != nil {
		return nil, fmt.Errorf("gkesim: %w", err)
	}
	if s.rest, err = net.Listen("tcp", cfg.ComputeListenAddress); err != nil {
		return nil, errors.Join(fmt.Errorf("gkesim: %w", err), s.rpc.Close())
	}
	return s, nil
}

// newGroup names a group as GKE does; the name depends on the cluster, pool,
// zone and seed only, so that a restarted server finds its nodes again.
func (s *Server) newGroup(p *pool, zone string) *group {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%s/%s/%s/%d", s.cfg.Project, s.cfg.Cluster, p.Name, zone, s.cfg.Seed)
	base := fmt.Sprintf("gke-%s-%s-%08x", shorten(s.cfg.Cluster), shorten(p.Name), h.Sum32())
	return &group{pool: p, zone: zone, base: base, name: base + "-grp"}
}

// shorten cuts a name so that instance names stay valid host names.
func shorten(name string) string {
	const limit = 20
	if len(name) <= limit {
		return name
	}
	return strings.TrimRight(name[:limit], "-")
}

// Endpoint is the address of the ClusterManager gRPC service.
func (s *Server) Endpoint() string { return s.rpc.Addr().String() }

// ComputeEndpoint is the base URL of the Compute Engine REST API.
func (s *Server) ComputeEndpoint() string { return "http://" + s.rest.Addr().String() }

// Start creates the DaemonSets and the first nodes, then serves until ctx ends
// or Close is called. Nodes of an earlier server of the same configuration are
// taken over.
func (s *Server) Start(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	stopServing := s.serve(ctx)
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			stopServing()
			running.Wait()
		})
	}
	s.mu.Lock()
	s.stop = stop
	s.mu.Unlock()
	context.AfterFunc(ctx, stop)
	return nil
}

// Close stops serving. Nodes stay as they are.
func (s *Server) Close() error {
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	stop()
	// Listeners that were never served are still open.
	return errors.Join(closed(s.rpc.Close()), closed(s.rest.Close()))
}

func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// prepare puts what exists from the start into the API server.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.createDaemonSets(ctx); err != nil {
		return fmt.Errorf("gkesim: %w", err)
	}
	if err := s.adoptNodes(ctx); err != nil {
		return fmt.Errorf("gkesim: %w", err)
	}
	now := s.cfg.Clock.Now()
	for _, p := range s.pools {
		for _, g := range p.groups {
			if g.target() > 0 {
				continue
			}
			for range p.Size {
				s.mu.Lock()
				inst := s.newInstance(g)
				s.mu.Unlock()
				if err := s.createNode(ctx, inst); err != nil {
					return fmt.Errorf("gkesim: %w", err)
				}
				s.mu.Lock()
				s.recordRequest(inst, now)
				s.recordBoot(inst, now)
				s.mu.Unlock()
			}
		}
	}
	s.after(s.cfg.Autoscaler.ScanInterval, s.scan)
	return nil
}

// run does what is due when it is due.
func (s *Server) run(ctx context.Context) {
	for ctx.Err() == nil {
		now := s.cfg.Clock.Now()
		s.agenda.runDue(ctx, now)
		var due <-chan time.Time
		stopTimer := func() bool { return false }
		if at, ok := s.agenda.next(); ok {
			timer := s.cfg.Clock.NewTimer(at.Sub(s.cfg.Clock.Now()))
			due, stopTimer = timer.C(), timer.Stop
		}
		select {
		case <-ctx.Done():
		case <-due:
		case <-s.agenda.changed:
		}
		stopTimer()
	}
}

// serve starts both APIs and returns a function that ends them.
func (s *Server) serve(ctx context.Context) (stop func()) {
	rpc := grpc.NewServer(grpc.UnaryInterceptor(s.interceptRPC))
	containerpb.RegisterClusterManagerServer(rpc, s)
	rest := &http.Server{
		Handler:           s.computeHandler(),
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	var serving sync.WaitGroup
	// Serve returns when the server is stopped; there is nobody to tell.
	serving.Go(func() { _ = rpc.Serve(s.rpc) })
	serving.Go(func() { _ = rest.Serve(s.rest) })
	return func() {
		rpc.Stop()
		_ = rest.Close()
		serving.Wait()
	}
}

// after plans do for d of scenario time from now.
func (s *Server) after(d time.Duration, do func(context.Context)) {
	s.agenda.add(s.cfg.Clock.Now().Add(s.real(d)), do)
}

// real is the duration on the clock of d in the scenario.
func (s *Server) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.cfg.Speed)
}

// sample draws from the log-normal distribution with the given median and
// BootSigma. s.mu is held.
func (s *Server) sample(median time.Duration) time.Duration {
	return time.Duration(float64(median) * math.Exp(s.cfg.BootSigma*s.rng.NormFloat64()))
}

// nextID hands out the numeric ids of Compute Engine. s.mu is held.
func (s *Server) nextID() uint64 {
	s.ids++
	return 1_000_000_000_000_000_000 + s.ids
}

func (s *Server) findPool(name string) *pool {
	i := slices.IndexFunc(s.pools, func(p *pool) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return s.pools[i]
}
