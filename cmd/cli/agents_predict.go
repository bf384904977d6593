package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/mash2-io/mash2/operator/agents"
)

// predictFlags are the settings of mash2 agents --predict.
type predictFlags struct {
	models       []string
	dir          string
	address      string
	proc         string
	netInterface string
	application  string
}

func (p *predictFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&p.models, "predict", nil, "models of --models that predict from this node's metrics, on the node; none without it")
	f.StringVar(&p.dir, "models", "", "folder of models for --predict, as that of mash2 operator --models")
	f.StringVar(&p.address, "predict-address", "127.0.0.1:8446", "address at which predictions are served, by HTTP and to everybody who can reach it")
	f.StringVar(&p.proc, "proc-root", "/proc", "proc file system, for --predict")
	f.StringVar(&p.netInterface, "network-interface", "", "interface whose bytes are the node's network, for --predict; only where this runs in the node's own network")
	f.StringVar(&p.application, "application", "", "application whose CPU and memory on this node --predict reads by cgroup, as NAME=LABELS of its pods in --namespace; its metrics begin with NAME")
}

// predictor of --predict; nil without it.
func (o *agentsFlags) predictor(log io.Writer) (*agents.Predictor, error) {
	p := o.predict
	if len(p.models) == 0 {
		return nil, nil
	}
	if o.node == "" {
		return nil, Usagef("--predict needs --node, the name of the node that this runs on")
	}
	asked, err := p.read()
	if err != nil {
		return nil, err
	}
	application, err := o.application()
	if err != nil {
		return nil, err
	}
	predictor, err := agents.NewPredictor(agents.PredictOptions{
		Node: o.node, Models: asked, Interval: time.Duration(o.interval) * time.Second,
		Proc: &agents.Proc{FS: os.DirFS(p.proc), Interface: p.netInterface}, Application: application,
		Report: func(text string) {
			if text == "" {
				text = "every prediction is there"
			}
			fmt.Fprintln(log, text)
		},
	})
	if err != nil {
		return nil, Usagef("--predict: %w", err)
	}
	return predictor, nil
}

// read the models that are asked.
func (p *predictFlags) read() (map[string]agents.QoSModel, error) {
	if p.dir == "" {
		return nil, Usagef("--predict needs --models, the folder of models")
	}
	files, err := readModelsUpTo(p.dir, maxNodeModel)
	if err != nil {
		return nil, Usagef("--models: %w", err)
	}
	models, err := files.strategyModels()
	if err != nil {
		return nil, Usagef("--models: %w", err)
	}
	asked := map[string]agents.QoSModel{}
	for _, name := range p.models {
		m := models[name]
		if m == nil {
			var there []string
			for n := range models {
				there = append(there, n)
			}
			slices.Sort(there)
			return nil, Usagef("--predict: %s has no model %q; it has %s", p.dir, name, orNone(there))
		}
		asked[name] = m
	}
	return asked, nil
}

// application of --application; nil without it. It is the only thing in a prediction that
// needs the API server: which pods there are.
func (o *agentsFlags) application() (*agents.Application, error) {
	if o.predict.application == "" {
		return nil, nil
	}
	name, selector, ok := strings.Cut(o.predict.application, "=")
	if _, err := labels.Parse(selector); err != nil || !ok || name == "" || selector == "" || name == "node" {
		return nil, Usagef("--application: want NAME=LABELS and a name other than node, is %q", o.predict.application)
	}
	cfg, err := (&connection{kubeconfig: o.kubeconfig}).rest()
	if err != nil {
		return nil, err
	}
	cfg.UserAgent, cfg.Timeout = "mash2-agents/"+version, 5*time.Second
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &agents.Application{
		Name: name, Pods: agents.RunningPods(client, o.namespace, selector, o.node),
		Cgroups: &agents.Cgroups{FS: os.DirFS(o.cgroupRoot), Root: o.kubeletCgroup, Now: time.Now},
	}, nil
}

// serve predictions until the context ends.
func (p *predictFlags) serve(ctx context.Context, predictor *agents.Predictor, log io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("--predict-address: %w", err)
	}
	fmt.Fprintf(log, "serving predictions at http://%s%sMODEL\n", listener.Addr(), agents.PredictionPath)
	// Whoever can reach the port may be anybody: a slow one holds nothing for long.
	server := &http.Server{
		Handler: predictor.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() { predictor.Run(ctx) })
	wait.Go(func() {
		<-ctx.Done()
		_ = server.Close()
	})
	err = server.Serve(listener)
	cancel()
	wait.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// answersText is for people.
func answersText(answers []agents.Answer) string {
	var lines []string
	for _, a := range answers {
		if a.Value == nil {
			lines = append(lines, fmt.Sprintf("%s: missing: %s", a.Model, a.Missing))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %g at %s", a.Model, *a.Value, a.At.UTC().Format(time.RFC3339)))
	}
	return strings.Join(lines, "\n")
}
