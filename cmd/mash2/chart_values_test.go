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

	program := os.Getenv(cluster.HelmEnv)
	if program == "" {
		program = filepath.Join("..", "..", ".cache", "bin", "helm")
	}
	template := func(forecaster string) (string, error) {
		out, err := exec.CommandContext(t.Context(), program, "template", release, chartFolder, "--kube-version", "1.33.0", "--values", filepath.Join(chartFolder, "values-gke.yaml"),
			"--set", "prometheus.url=http://prometheus,provider.gke.project=p,provider.gke.location=l,provider.gke.cluster=c,operator.past=0h,operator.forecaster="+forecaster).CombinedOutput()
		return string(out), err
	}
	out, err := template(forecast.AutoName)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("helm is not installed: make helm")
	}
	if err != nil || !strings.Contains(out, "- --forecaster=auto\n            - --past=0h\n") {
		t.Errorf("with operator.forecaster=auto: %v, and no --forecaster=auto, --past=0h in\n%s", err, out)
	}
	if out, err := template("oracle"); err == nil || !strings.Contains(out, "/operator/forecaster") {
		t.Errorf("with operator.forecaster=oracle: %v, %s; want it refused by its path", err, out)
	}
}
