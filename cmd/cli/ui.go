package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/operator"
	"github.com/mash2-io/mash2/operator/replay"
	"github.com/mash2-io/mash2/record"
	restapi "github.com/mash2-io/mash2/serve/rest"
	"github.com/mash2-io/mash2/serve/web"
)

// uiFlags are the settings of mash2 ui.
type uiFlags struct {
	connection
	records, address, pod, serviceAccount string
	port                                  int
	// find is Program.FindForecaster.
	find func(name string) (forecast.Forecaster, error)
}

func newUI(find func(name string) (forecast.Forecaster, error)) *cobra.Command {
	o := uiFlags{find: find}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serves the operator's page on this machine, or a page over records",
		Long: `Serves the operator's page on this machine and prints its address.

With a cluster it connects to the leading replica through the API server's proxy. This needs
the right to get pods/proxy in mash2's namespace. The page shows what your kubeconfig's token
may see, and acts with your kubeconfig's rights. A kubeconfig with a client certificate has
no token: name a ServiceAccount with --service-account.

The address contains a random part, so that other users of this machine can't open it.

With --records it shows recorded cycles, without a cluster. The address then has no random
part, and every user of this machine can open it.`,
		Args: NoArgs,
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.records, "records", "", "folder of records to show instead of a cluster")
	f.StringVar(&o.address, "address", "127.0.0.1:0", "loopback address to serve on; port 0 takes a free one")
	f.StringVar(&o.pod, "pod", "", "pod of the operator (default: the leader)")
	f.IntVar(&o.port, "port", operator.PagePort, "port of the page in the pod")
	f.StringVar(&o.serviceAccount, "service-account", "", "NAMESPACE/NAME of a ServiceAccount whose token is used (default: your kubeconfig's token)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !restapi.LoopbackHost(o.address) {
			return Usagef("--address must be a loopback address such as 127.0.0.1:8444, is %q", o.address)
		}
		if o.port < 1 || o.port > 65535 {
			return Usagef("--port must be from 1 to 65535, is %d", o.port)
		}
		ctx := cmd.Context()
		var page http.Handler
		var err error
		prefix := ""
		if o.records != "" {
			page, err = o.overRecords(ctx, ProgressTo(cmd.ErrOrStderr()))
		} else if page, err = o.overCluster(ctx); err == nil {
			prefix, err = secretPath()
		}
		if err != nil {
			return err
		}
		return serveHere(ctx, o.address, prefix, page, func(address string) {
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", address)
			fmt.Fprintln(cmd.ErrOrStderr(), "open this address in a browser; Ctrl-C ends it")
		})
	}
	return cmd
}

// secretPath can't be guessed.
func secretPath() (string, error) {
	secret := make([]byte, 16)
	_, err := rand.Read(secret)
	return "/" + hex.EncodeToString(secret), err
}

// serveHere serves a page below a path until ctx ends.
func serveHere(ctx context.Context, address, prefix string, page http.Handler, ready func(string)) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return Usage(fmt.Errorf("--address: %w", err))
	}
	server := &http.Server{
		Handler: http.StripPrefix(prefix, page), ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ready("http://" + listener.Addr().String() + prefix + "/")
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}

// overRecords is the page over a folder of records.
func (o *uiFlags) overRecords(ctx context.Context, progress interface{ Write([]byte) (int, error) }) (http.Handler, error) {
	l, err := openRecords(o.records)
	if err != nil {
		return nil, err
	}
	period, err := periodOf(l)
	if err != nil {
		return nil, err
	}
	store := restapi.NewStore(restapi.Config{
		Program: l.Segments[len(l.Segments)-1].Program, Period: period, Recorded: true,
		Records:   func() (*record.Log, error) { return l, nil },
		Knowledge: (&knowledgeFlags{records: o.records}).search,
		Otherwise: func(ctx context.Context, at time.Time, c restapi.Otherwise) (any, error) {
			return operator.Otherwise(ctx, l, at, c)
		},
	})
	fmt.Fprint(progress, "reading records\r")
	if err := store.Fill(l); err != nil {
		return nil, err
	}
	// The last cycle whole, with its curves, where this program can decide it again.
	if f, err := replay.Otherwise(ctx, l, time.Time{}, replay.Change{FindForecaster: o.find}); err == nil && f.Reproduced {
		store.Complete(f.Decided.Plan)
	}
	s := &restapi.Server{Store: store, Auth: restapi.Everybody{}, Loopback: true}
	return web.Handler(s.Handler()), nil
}

// periodOf is the time between the first two cycles.
func periodOf(l *record.Log) (time.Duration, error) {
	var first time.Time
	for e, err := range l.Records(time.Time{}) {
		if err != nil {
			return 0, err
		}
		if first.IsZero() {
			first = e.Cycle.Time
			continue
		}
		return e.Cycle.Time.Sub(first), nil
	}
	return time.Minute, nil
}

// overCluster is the page of the replica that leads, by way of the API server. What
// changes something doesn't go there: it is done with the kubeconfig's own rights.
func (o *uiFlags) overCluster(ctx context.Context) (http.Handler, error) {
	cfg, err := o.rest()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	token, err := o.token(ctx, cfg, client)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	host, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	leader, err := o.leader(ctx, client)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			// Asked for each time: another replica may lead by now.
			pod, err := o.leader(r.In.Context(), client)
			if err != nil {
				pod = leader
			}
			path := fmt.Sprintf("/api/v1/namespaces/%s/pods/https:%s:%d/proxy", o.namespace, pod, o.port)
			target := *host
			target.Path = strings.TrimSuffix(host.Path, "/") + path + r.In.URL.Path
			target.RawQuery = r.In.URL.RawQuery
			r.Out.URL, r.Out.Host = &target, ""
			// The API server gets nothing of a browser's that could mean something to it,
			// such as whom to impersonate.
			r.Out.Header = http.Header{restapi.TokenHeader: {token}}
			for _, name := range []string{"Accept", "Accept-Encoding", "If-None-Match"} {
				if v := r.In.Header.Get(name); v != "" {
					r.Out.Header.Set(name, v)
				}
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, fmt.Sprintf("the operator's page can't be reached: %v", err), http.StatusBadGateway)
		},
	}
	act := (&restapi.Server{
		Store: restapi.NewStore(restapi.Config{}), Auth: restapi.Everybody{}, Loopback: true,
		Actor: restapi.ClusterActor{REST: cfg, Policy: types.NamespacedName{Namespace: o.namespace, Name: o.configMap}},
	}).Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !restapi.LoopbackHost(r.Host):
			http.Error(w, "this page is for this machine: open it by 127.0.0.1 or localhost", http.StatusForbidden)
		case strings.Contains(r.URL.Path, ".."):
			http.Error(w, "no such page", http.StatusNotFound)
		case r.Method == http.MethodPost, r.Method == http.MethodPut, r.Method == http.MethodDelete:
			act.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
		default:
			proxy.ServeHTTP(w, r)
		}
	}), nil
}

// leader is the pod that leads, by the Lease.
func (o *uiFlags) leader(ctx context.Context, client kubernetes.Interface) (string, error) {
	if o.pod != "" {
		return o.pod, nil
	}
	lease, err := client.CoordinationV1().Leases(o.namespace).Get(ctx, operator.LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("no operator has ever led in namespace %s: is mash2 installed there? name another with --namespace", o.namespace)
	}
	if err != nil {
		return "", fmt.Errorf("finding the replica that leads: %w; name one with --pod", err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", errors.New("no replica of the operator leads now")
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod, nil
}

// token is what the operator is shown: a ServiceAccount's, or the kubeconfig's own.
func (o *uiFlags) token(ctx context.Context, cfg *rest.Config, client kubernetes.Interface) (string, error) {
	if o.serviceAccount != "" {
		namespace, name, ok := strings.Cut(o.serviceAccount, "/")
		if !ok {
			return "", Usagef("--service-account must be NAMESPACE/NAME, not %q", o.serviceAccount)
		}
		const lasts = int64(8 * 60 * 60) // a working day
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(lasts)}}
		made, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("making a token of ServiceAccount %s: %w", o.serviceAccount, err)
		}
		return made.Status.Token, nil
	}
	token, err := bearerOf(cfg)
	if err != nil {
		return "", err
	}
	if token == "" {
		return "", Usagef("your kubeconfig has no token, and the operator can't check a client certificate: name a ServiceAccount to look as, such as --service-account %s/mash2-viewer", o.namespace)
	}
	return token, nil
}

// bearerOf is the token that requests of a kubeconfig carry, by whatever plugin it is
// made; empty for one with a client certificate.
func bearerOf(cfg *rest.Config) (string, error) {
	seen := &lastRequest{}
	through, err := rest.HTTPWrappersForConfig(cfg, seen)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequest(http.MethodGet, (&url.URL{Scheme: "https", Host: "kubernetes.invalid"}).String(), nil)
	if err != nil {
		return "", err
	}
	response, err := through.RoundTrip(r)
	if err != nil {
		return "", fmt.Errorf("reading your kubeconfig's credentials: %w", err)
	}
	_ = response.Body.Close() // there is none
	token, _ := strings.CutPrefix(seen.authorization, "Bearer ")
	if token == seen.authorization {
		return "", nil // no bearer's: a name and a password
	}
	return token, nil
}

// lastRequest answers requests itself and keeps the last one's credentials.
type lastRequest struct{ authorization string }

func (l *lastRequest) RoundTrip(r *http.Request) (*http.Response, error) {
	l.authorization = r.Header.Get("Authorization")
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}
