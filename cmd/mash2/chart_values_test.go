package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/sensing"
)

// The chart's values for the forecaster and for the past it is given take what
// --forecaster and --past take, nothing else, and say by default what the flags say.
func TestChartForecaster(t *testing.T) {
	read := func(name string, into any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(chartFolder, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".json") {
			err = json.Unmarshal(text, into)
		} else {
			err = yaml.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var schema struct {
		Properties struct {
			Operator struct {
				Properties struct {
					Forecaster struct{ Enum []string }
				}
			}
		}
	}
	read("values.schema.json", &schema)
	if diff := cmp.Diff(forecast.Names(), schema.Properties.Operator.Properties.Forecaster.Enum); diff != "" {
		t.Errorf("operator.forecaster (-known to the program +taken by the chart):\n%s", diff)
	}
	var values struct {
		Operator struct{ Forecaster, Past string }
	}
	read("values.yaml", &values)
	operator, _, err := program().Root().Find([]string{"operator"})
	if err != nil {
		t.Fatal(err)
	}
	def := operator.Flags().Lookup("forecaster").DefValue
	if values.Operator.Forecaster != def {
		t.Errorf("the chart's default is %q, the flag's %q", values.Operator.Forecaster, def)
	}
	if past, err := time.ParseDuration(values.Operator.Past); err != nil || past != sensing.DefaultConfig().Past {
		t.Errorf("the chart's default of the past is %q, the flag's %v", values.Operator.Past, sensing.DefaultConfig().Past)
	}
	// What is read is what a forecaster's memory holds.
	if c := sensing.DefaultConfig(); c.PastStep != forecast.FoldStep || c.Past != forecast.FoldReach {
		t.Errorf("read are %v by %v, remembered %v by %v", c.Past, c.PastStep, forecast.FoldReach, forecast.FoldStep)
	}

	template := func(forecaster string) (string, error) {
		return templated(t, "operator.past=0h,operator.forecaster="+forecaster)
	}
	out, err := template(forecast.AutoName)
	if err != nil || !strings.Contains(out, "- --forecaster=auto\n            - --past=0h\n") {
		t.Errorf("with operator.forecaster=auto: %v, and no --forecaster=auto, --past=0h in\n%s", err, out)
	}
	if out, err := template("oracle"); err == nil || !strings.Contains(out, "/operator/forecaster") {
		t.Errorf("with operator.forecaster=oracle: %v, %s; want it refused by its path", err, out)
	}
}

// chartValues are the chart's own values.
func chartValues(t *testing.T) (values map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartFolder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// A section that is set to null is refused by its name, where templates read what is in it.
func TestChartRefusesNullSections(t *testing.T) {
	values := chartValues(t)
	refused := 0
	var walk func(path string, of map[string]any)
	walk = func(path string, of map[string]any) {
		for key, v := range of {
			section, ok := v.(map[string]any)
			if !ok || len(section) == 0 {
				continue
			}
			at := path + key
			if out, err := templated(t, at+"=null"); err != nil {
				if refused++; !strings.Contains(out, at+" is null") {
					t.Errorf("%s=null: %s", at, out)
				}
			}
			walk(at+".", section)
		}
	}
	if walk("", values); refused < 20 {
		t.Errorf("%d sections are refused", refused)
	}
}

// templated is what the chart makes of values besides those that it can't do without.
func templated(t *testing.T, values string) (string, error) {
	t.Helper()
	return templatedOf(t, chartFolder, values)
}

// templatedOf is what a chart in a folder makes of them.
func templatedOf(t *testing.T, folder, values string, more ...string) (string, error) {
	t.Helper()
	program := os.Getenv(cluster.HelmEnv)
	if program == "" {
		program = filepath.Join("..", "..", ".cache", "bin", "helm")
	}
	args := append([]string{"template", release, folder, "--kube-version", "1.33.0", "--values", filepath.Join(chartFolder, "values-gke.yaml"),
		"--set", "prometheus.url=http://prometheus,provider.gke.project=p,provider.gke.location=l,provider.gke.cluster=c," + values}, more...)
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("helm is not installed: make helm")
	}
	return string(out), err
}

// Headers of requests to Prometheus may be keys: they are in a Secret, which the operator
// is told the path of, and nowhere else.
func TestChartHeaders(t *testing.T) {
	const argument = "- --prometheus-headers-file=/etc/mash2/prometheus/headers"
	for name, c := range map[string]struct {
		values  string
		secret  string // of the volume
		headers string // of the Secret that the chart makes; empty: none
	}{
		"none":             {"records.enabled=true", "", ""},
		"some":             {"prometheus.headers.X-Scope-OrgID=shop,prometheus.headers.X-Key=a: b", "mash2-prometheus-headers", "X-Key: a: b\nX-Scope-OrgID: shop"},
		"without a volume": {"prometheus.headers.X-Key=k,records.enabled=false", "mash2-prometheus-headers", "X-Key: k"},
		"a Secret of one's own": {
			"prometheus.headersSecret=ours,prometheus.headers.X-Key=k", "ours", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := templated(t, c.values)
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			headers, volume, mounted := "", "", false
			for text := range strings.SplitSeq(out, "\n---\n") {
				var o struct {
					Kind       string
					Metadata   struct{ Name string }
					StringData map[string]string
					Spec       struct {
						Template struct {
							Spec struct {
								Volumes []struct {
									Name   string
									Secret struct{ SecretName string }
								}
								Containers []struct {
									Args         []string
									VolumeMounts []struct{ Name, MountPath string }
								}
							}
						}
					}
				}
				if err := yaml.Unmarshal([]byte(text), &o); err != nil {
					t.Fatal(err)
				}
				switch o.Kind {
				case "Secret":
					if o.Metadata.Name != c.secret {
						t.Errorf("Secret %s is made", o.Metadata.Name)
					}
					headers = strings.TrimSpace(o.StringData["headers"])
				case "Deployment":
					for _, v := range o.Spec.Template.Spec.Volumes {
						if v.Name == "prometheus-headers" {
							volume = v.Secret.SecretName
						}
					}
					for _, m := range o.Spec.Template.Spec.Containers[0].VolumeMounts {
						mounted = mounted || m.Name == "prometheus-headers" && m.MountPath == "/etc/mash2/prometheus"
					}
					if strings.Contains(text, "X-Key") {
						t.Errorf("a header is in the Deployment:\n%s", text)
					}
				}
			}
			if headers != c.headers || volume != c.secret || mounted != (c.secret != "") || strings.Contains(out, argument) != (c.secret != "") {
				t.Errorf("headers %q, volume of Secret %q, mounted %v; want %q and %q in\n%s", headers, volume, mounted, c.headers, c.secret, out)
			}
		})
	}
}

// The chart serves KEDA only when it is told to, with TLS, and lets in only where KEDA runs.
func TestChartExternalScaler(t *testing.T) {
	program := os.Getenv(cluster.HelmEnv)
	if program == "" {
		program = filepath.Join("..", "..", ".cache", "bin", "helm")
	}
	template := func(set string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), program, "template", release, chartFolder, "--kube-version", "1.33.0", "--set", "prometheus.url=http://prometheus"+set).CombinedOutput()
		if errors.Is(err, os.ErrNotExist) {
			t.Skip("helm is not installed: make helm")
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if out := template(""); strings.Contains(out, "external-scaler") || strings.Contains(out, "mash2-keda") || strings.Contains(out, "port: keda") {
		t.Errorf("without externalScaler.enabled:\n%s", out)
	}
	out := template(",externalScaler.enabled=true,externalScaler.tlsSecret=keys,externalScaler.port=9555,networkPolicy.kedaNamespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=scalers")
	for _, want := range []string{
		"- --external-scaler-bind-address=:9555\n            - --external-scaler-cert-dir=/etc/mash2/external-scaler\n",
		"- {name: keda, containerPort: 9555, protocol: TCP}",
		`- {name: external-scaler, secret: {secretName: "keys"}}`,
		"- {name: external-scaler, mountPath: /etc/mash2/external-scaler, readOnly: true}",
		"  name: mash2-keda\n",
		"- {name: keda, port: 9555, targetPort: keda, protocol: TCP}",
		"- {port: keda, protocol: TCP}\n      from:\n        - namespaceSelector:\n            matchLabels:\n              kubernetes.io/metadata.name: scalers\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// The Job of a release may always resize: it gives back sizes of whatever was enabled before.
	for set, want := range map[string]bool{"": false, ",agents.enabled=true": true, ",sizing.enabled=true": true} {
		got, released, evicts := false, false, false
		for _, document := range strings.Split(template(set), "\n---") {
			resizes := strings.Contains(document, "resources: [pods/resize]")
			if strings.Contains(document, "# Source: mash2/templates/release.yaml") {
				released = released || resizes
			} else {
				got = got || resizes
			}
			evicts = evicts || strings.Contains(document, "resources: [pods/eviction]") && strings.Contains(document, "resources: [pods]\n    verbs: [get]\n")
		}
		if got != want || !released {
			t.Errorf("with %q the right to resize pods is there: %t, for the Job of a release: %t", set, got, released)
		}
		// Without a provider, too: a pod whose container is killed again and again may need another in its place.
		if evicts != want {
			t.Errorf("with %q the right to evict pods is there: %t", set, evicts)
		}
	}
	if out := template(",models.configMap=agents"); !strings.Contains(out, "- --models=/etc/mash2/models\n") ||
		!strings.Contains(out, `- {name: models, configMap: {name: "agents"}}`) || !strings.Contains(out, "- {name: models, mountPath: /etc/mash2/models, readOnly: true}") {
		t.Errorf("with models:\n%s", out)
	}
	if out := template(",strategies.webhookSecret=hooks,strategies.webhookHosts={shop/hooks.example.com},strategies.sensorHosts={a:8080}"); !strings.Contains(out, "- --webhook-key-file=/etc/mash2/webhooks/key\n") ||
		!strings.Contains(out, `- "--webhook-host=shop/hooks.example.com"`) || !strings.Contains(out, `- "--sensor-host=a:8080"`) ||
		!strings.Contains(out, `secret: {secretName: "hooks", items: [{key: key, path: key}]}`) || !strings.Contains(out, "- {name: webhooks, mountPath: /etc/mash2/webhooks, readOnly: true}") {
		t.Errorf("with webhooks:\n%s", out)
	}
	if out := template(",externalScaler.enabled=true"); strings.Contains(out, "cert-dir") || strings.Contains(out, "/etc/mash2") {
		t.Errorf("without a Secret:\n%s", out)
	}
}

// The Prometheus operator gives each target a label namespace, that of the pod which is asked.
// Metrics keep their own, by which alerts and the dashboard name a workload.
func TestChartMonitorKeepsNamespaces(t *testing.T) {
	out, err := templated(t, "metrics.serviceMonitor.enabled=true")
	if err != nil {
		t.Fatal(out)
	}
	monitors := 0
	for text := range strings.SplitSeq(out, "\n---\n") {
		var o struct {
			Kind string
			Spec struct {
				Endpoints, PodMetricsEndpoints []struct{ HonorLabels bool }
			}
		}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(o.Kind, "Monitor") {
			continue
		}
		for _, e := range append(o.Spec.Endpoints, o.Spec.PodMetricsEndpoints...) {
			monitors++
			if !e.HonorLabels {
				t.Errorf("labels of the target replace those of metrics:\n%s", text)
			}
		}
	}
	if monitors == 0 {
		t.Errorf("no monitor in\n%s", out)
	}
}

// chartDeployment is the operator's Deployment with some values. A key that is there twice is refused.
func chartDeployment(t *testing.T, values string) (d appsv1.Deployment) {
	t.Helper()
	out, err := templated(t, values)
	if err != nil {
		t.Fatal(out)
	}
	for text := range strings.SplitSeq(out, "\n---\n") {
		if !strings.Contains(text, "# Source: mash2/templates/deployment.yaml") {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	t.Fatal("the chart has no Deployment")
	return d
}

// A constraint's own labelSelector is taken; one without gets the operator's pods.
func TestChartSpread(t *testing.T) {
	const spread = "topologySpreadConstraints[0].maxSkew=1,topologySpreadConstraints[0].topologyKey=zone,topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule"
	for name, c := range map[string]struct{ values, label, want string }{
		"without a selector": {spread, "app.kubernetes.io/name", "mash2"},
		"with its own":       {spread + ",topologySpreadConstraints[0].labelSelector.matchLabels.team=ours", "team", "ours"},
	} {
		t.Run(name, func(t *testing.T) {
			d := chartDeployment(t, c.values)
			if got := d.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels[c.label]; got != c.want {
				t.Errorf("%s is %q, want %q", c.label, got, c.want)
			}
		})
	}
}

// One replica that keeps its records on a claim ends before the next one starts: a claim that
// one node mounts at a time would hold up a rollout to another node for ever.
func TestChartClaimOfOneReplica(t *testing.T) {
	for values, surge := range map[string]bool{
		"replicaCount=1,records.claim=ours":                       false,
		"replicaCount=1":                                          true,
		"replicaCount=2,records.claim=ours":                       true,
		"replicaCount=1,records.claim=ours,records.enabled=false": true,
	} {
		d := chartDeployment(t, values)
		r := d.Spec.Strategy.RollingUpdate
		if got := r == nil || r.MaxSurge.IntValue() > 0; got != surge || !surge && r.MaxUnavailable.IntValue() != 1 {
			t.Errorf("%s: strategy %+v, want a second pod meanwhile: %v", values, d.Spec.Strategy, surge)
		}
	}
}

// Who may not write roles turns them off, all of them: those of hooks are made as late as
// helm uninstall, which would fail. And no resources are no limits.
func TestChartWithoutRolesOrResources(t *testing.T) {
	text, err := templated(t, "rbac.create=false,resources=null,page.enabled=true,externalScaler.enabled=true,agents.enabled=true,metrics.service.enabled=true")
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if strings.Contains(text, "rbac.authorization.k8s.io") {
		t.Errorf("a role is made:\n%s", text)
	}
	if d := chartDeployment(t, "resources=null"); len(d.Spec.Template.Spec.Containers[0].Resources.Limits) > 0 || len(d.Spec.Template.Spec.Containers[0].Env) > 0 {
		t.Errorf("limits of nobody: %+v", d.Spec.Template.Spec.Containers[0])
	}
}
