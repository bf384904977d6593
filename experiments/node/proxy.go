package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// proxy stands on a loopback port for a Service: requests go to its ready
// endpoints in turn. There is no kube-proxy on the node. Unlike that it balances
// requests, not connections.
type proxy struct {
	URL string

	server  *http.Server
	mu      sync.Mutex
	slices  map[string][]string // host:port of ready endpoints by EndpointSlice
	targets atomic.Pointer[[]string]
	next    atomic.Uint64
}

var errNoEndpoint = errors.New("no endpoint is ready")

// startProxy watches the Service's EndpointSlices until ctx ends.
func startProxy(ctx context.Context, client kubernetes.Interface, namespace, service string) (*proxy, error) {
	p := &proxy{slices: map[string][]string{}}
	p.targets.Store(&[]string{})
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = labels.Set{discoveryv1.LabelServiceName: service}.String()
		}))
	informer := factory.Discovery().V1().EndpointSlices().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.update(o.(*discoveryv1.EndpointSlice)) },
		UpdateFunc: func(_, o any) { p.update(o.(*discoveryv1.EndpointSlice)) },
		DeleteFunc: func(o any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
				p.set(key, nil)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watching the endpoints of %s/%s: %w", namespace, service, ctx.Err())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p.URL = "http://" + listener.Addr().String()
	p.server = &http.Server{Handler: p.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(listener) }() // until Close
	context.AfterFunc(ctx, func() { _ = p.server.Close() })
	return p, nil
}

func (p *proxy) handler() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			// Without an endpoint the address stays empty, which fails below.
			r.SetURL(&url.URL{Scheme: "http", Host: p.pick()})
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 100, DialContext: (&net.Dialer{Timeout: time.Second}).DialContext},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
}

// pick is the next endpoint, empty if there is none.
func (p *proxy) pick() string {
	targets := *p.targets.Load()
	if len(targets) == 0 {
		return ""
	}
	return targets[p.next.Add(1)%uint64(len(targets))]
}

func (p *proxy) update(s *discoveryv1.EndpointSlice) {
	p.set(s.Namespace+"/"+s.Name, endpoints(s))
}

// endpoints are the addresses of a slice's ready endpoints, with the port.
func endpoints(s *discoveryv1.EndpointSlice) []string {
	var out []string
	for _, port := range s.Ports {
		if port.Port == nil {
			continue
		}
		for _, e := range s.Endpoints {
			// Absent means ready, as the API has it.
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*port.Port))))
			}
		}
	}
	return out
}

func (p *proxy) set(key string, endpoints []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slices[key] = endpoints
	var all []string
	for _, e := range p.slices {
		all = append(all, e...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	p.targets.Store(&all)
}

// ready says whether there is somebody to ask.
func (p *proxy) ready(context.Context) error {
	if len(*p.targets.Load()) == 0 {
		return errNoEndpoint
	}
	return nil
}
