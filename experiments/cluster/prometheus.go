package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

// ScrapeJob is one job of Prometheus' scrape_configs with static targets.
type ScrapeJob struct {
	// Name is the value of the label job.
	Name string
	// Targets are host:port each.
	Targets []string
	// MetricsPath is where the targets serve their metrics. Empty: /metrics.
	MetricsPath string
	// Interval is how often they are scraped. 0: the Options' interval.
	Interval time.Duration
	// HonorLabels keeps the labels job and instance that the targets
	// themselves send, as is usual for cAdvisor's series.
	HonorLabels bool
	// Labels are added to every series.
	Labels map[string]string
	// Client, if not nil, is the identity to scrape with, over TLS; whose
	// certificate the targets have is not verified.
	Client *ScrapeClient
}

// ScrapeClient is a client certificate, as PEM files.
type ScrapeClient struct{ CertFile, KeyFile string }

// PrometheusOptions says how to run Prometheus.
type PrometheusOptions struct {
	// Jobs is what is scraped.
	Jobs []ScrapeJob
	// ScrapeInterval is the jobs' default interval, in wall-clock time.
	// 0: 15 s.
	ScrapeInterval time.Duration
	// LookbackDelta is for how long a query takes the last sample for the
	// current one. 0: Prometheus' default, 5 min.
	LookbackDelta time.Duration
	// Rules are paths of rule files.
	Rules []string
	// History is read once, before the start, as a past in OpenMetrics'
	// text format: samples with timestamps, in order, "# EOF" at the end. It may
	// be several such texts one after another, which is faster for a long past.
	// It becomes blocks by "promtool tsdb create-blocks-from openmetrics".
	// Nil: Prometheus starts empty.
	History io.Reader
	// Dir is the directory of the data and the log. Empty: a temporary one,
	// removed by Stop.
	Dir string
	// Binary is the program. Empty: prometheus in PATH (Debian's package
	// has it). promtool is looked for beside it, then in PATH.
	Binary string
}

// Prometheus is a Prometheus server that this process started. Its methods
// may be called from several goroutines.
type Prometheus struct {
	// URL is its address; it stays the same over Restart.
	URL string
	// Dir is its directory, with prometheus.log in it.
	Dir string

	binary    string
	args      []string
	temporary bool

	mu      sync.Mutex
	process *process // nil when not running
}

// StartPrometheus starts Prometheus on a free loopback port and returns when
// it is ready. Its first scrape comes five seconds later: that is how often
// Prometheus looks at new targets, whatever the interval. The server dies with
// this process. The context is for starting only; Stop ends the server.
func StartPrometheus(ctx context.Context, o PrometheusOptions) (*Prometheus, error) {
	p, err := newPrometheus(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("starting Prometheus: %w", err)
	}
	if err := p.Restart(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func newPrometheus(ctx context.Context, o PrometheusOptions) (*Prometheus, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	binary := o.Binary
	if binary == "" {
		binary = "prometheus"
	}
	if binary, err = exec.LookPath(binary); err != nil {
		return nil, err
	}
	p := &Prometheus{binary: binary, temporary: o.Dir == ""}
	if p.temporary {
		p.Dir, err = os.MkdirTemp("", "prometheus-")
	} else {
		p.Dir, err = filepath.Abs(o.Dir)
	}
	if err != nil {
		return nil, err
	}
	if err := p.prepare(ctx, o, config); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// prepare fills the directory and chooses the address.
func (p *Prometheus) prepare(ctx context.Context, o PrometheusOptions, config []byte) error {
	data := filepath.Join(p.Dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	configFile := filepath.Join(p.Dir, "prometheus.yaml")
	if err := os.WriteFile(configFile, config, 0o644); err != nil {
		return err
	}
	if o.History != nil {
		if err := backfill(ctx, p.binary, data, o.History); err != nil {
			return fmt.Errorf("backfilling history: %w", err)
		}
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	p.URL = "http://" + address
	p.args = []string{
		"--config.file=" + configFile,
		"--storage.tsdb.path=" + data,
		"--storage.tsdb.retention.time=10y", // the history may be older than the default, 15 days
		"--web.listen-address=" + address,
	}
	if o.LookbackDelta > 0 {
		p.args = append(p.args, "--query.lookback-delta="+model.Duration(o.LookbackDelta).String())
	}
	return nil
}

// config returns Prometheus' configuration file.
func (o PrometheusOptions) config() ([]byte, error) {
	interval := o.ScrapeInterval
	if interval == 0 {
		interval = 15 * time.Second
	}
	if interval < time.Millisecond {
		return nil, fmt.Errorf("scrape interval %v is below a millisecond", interval)
	}
	jobs := []map[string]any{}
	for _, job := range o.Jobs {
		if job.Name == "" || len(job.Targets) == 0 {
			return nil, fmt.Errorf("scrape job %q needs a name and targets", job.Name)
		}
		every := job.Interval
		if every == 0 {
			every = interval
		}
		if every < time.Millisecond {
			return nil, fmt.Errorf("scrape job %s: interval %v is below a millisecond", job.Name, every)
		}
		path := job.MetricsPath
		if path == "" {
			path = "/metrics"
		}
		static := map[string]any{"targets": job.Targets}
		if len(job.Labels) > 0 {
			static["labels"] = job.Labels
		}
		jobs = append(jobs, map[string]any{
			"job_name":        job.Name,
			"metrics_path":    path,
			"honor_labels":    job.HonorLabels,
			"scrape_interval": model.Duration(every).String(),
			// Prometheus refuses a timeout above the interval.
			"scrape_timeout": model.Duration(min(every, 10*time.Second)).String(),
			"static_configs": []map[string]any{static},
		})
		if job.Client != nil {
			last := jobs[len(jobs)-1]
			last["scheme"] = "https"
			last["tls_config"] = map[string]any{
				"cert_file": job.Client.CertFile, "key_file": job.Client.KeyFile, "insecure_skip_verify": true,
			}
		}
	}
	return yaml.Marshal(map[string]any{
		"rule_files": o.Rules,
		"global": map[string]any{
			"scrape_interval": model.Duration(interval).String(),
			"scrape_timeout":  model.Duration(min(interval, 10*time.Second)).String(),
		},
		"scrape_configs": jobs,
	})
}

// backfill writes history as blocks into the data directory, part by part: for
// each block of two hours promtool reads the whole of what it is given.
func backfill(ctx context.Context, prometheus, data string, history io.Reader) error {
	promtool := filepath.Join(filepath.Dir(prometheus), "promtool")
	if _, err := os.Stat(promtool); err != nil {
		if promtool, err = exec.LookPath("promtool"); err != nil {
			return err
		}
	}
	input, err := os.CreateTemp("", "history-*.om")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(input.Name()) }()
	defer input.Close()
	for lines := bufio.NewReaderSize(history, 1<<20); ; {
		more, err := copyPart(input, lines)
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
		output, err := exec.CommandContext(ctx, promtool,
			"tsdb", "create-blocks-from", "openmetrics", "--quiet", input.Name(), data).CombinedOutput()
		if err != nil {
			return fmt.Errorf("promtool: %w: %s", err, strings.TrimSpace(string(output)))
		}
	}
}

// copyPart fills the file with the lines up to "# EOF"; false when there are no
// more.
func copyPart(file *os.File, lines *bufio.Reader) (more bool, err error) {
	if err := file.Truncate(0); err != nil {
		return false, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	out := bufio.NewWriterSize(file, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if _, err := out.Write(line); err != nil {
			return false, err
		}
		more = more || len(line) > 0
		// What ends otherwise is for promtool to refuse.
		if err != nil || strings.TrimSpace(string(line)) == "# EOF" {
			return more, out.Flush()
		}
	}
}

// Restart starts the server again after Kill, on the same address and with
// the same data, and returns when it is ready.
func (p *Prometheus) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		return errors.New("Prometheus is running")
	}
	log, err := os.OpenFile(filepath.Join(p.Dir, "prometheus.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.binary, p.args...)
	cmd.Dir = p.Dir
	cmd.Stdout, cmd.Stderr = log, log
	process, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("starting Prometheus: %w", err)
	}
	p.process = process
	return p.waitReady(ctx)
}

func (p *Prometheus) waitReady(ctx context.Context) error {
	const timeout = time.Minute
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/-/ready", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.process.done:
			p.process = nil
			return fmt.Errorf("Prometheus died; see the end of its log:\n%s", lastLines(filepath.Join(p.Dir, "prometheus.log"), 10))
		case <-ctx.Done():
			return fmt.Errorf("Prometheus is not ready: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kill kills the server (SIGKILL) as an outage would; its data stays, and
// Restart starts it again. It does nothing if the server isn't running.
func (p *Prometheus) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end(syscall.SIGKILL)
}

// Stop ends the server and removes a temporary directory. Calling it again is
// harmless.
func (p *Prometheus) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.end(syscall.SIGTERM)
	if p.temporary {
		err = errors.Join(err, os.RemoveAll(p.Dir))
	}
	return err
}

func (p *Prometheus) end(signal syscall.Signal) error {
	if p.process == nil {
		return nil
	}
	process := p.process
	p.process = nil
	if err := process.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-process.done:
	case <-time.After(10 * time.Second):
		_ = process.cmd.Process.Kill()
		<-process.done
	}
	return nil
}

// process is a child that dies with this process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
}

// startProcess starts cmd in a goroutine that keeps its thread for as long as
// the child lives: the kernel sends the parent-death signal when the thread
// that started the child ends, not only when the process does.
func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

// freeAddress returns a loopback address nobody listens on, below the ports
// that outgoing connections get, and beside those localkube uses.
func freeAddress() (string, error) {
	const first, last, attempts = 10000, 20000, 100
	for range attempts {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))
		if listener, err := net.Listen("tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", fmt.Errorf("no free port between %d and %d on 127.0.0.1", first, last)
}

// lastLines returns the last lines of a file, or why it can't be read.
func lastLines(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
