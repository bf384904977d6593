package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/sensing/promql"
	"github.com/mash2-io/mash2/strategic/configmap"
	"github.com/mash2-io/mash2/strategic/strategy"
)

func newStrategy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "strategy",
		Short: "Checks your strategies, and tries them on recorded inputs",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usagef("unknown command %q: check FILE or run --file FILE --inputs INPUTS.jsonl", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStrategyCheck(), newStrategyRun())
	return cmd
}

// strategies reads a file of Strategies; "-" is standard input.
func strategies(cmd *cobra.Command, name string) ([]api.Strategy, error) {
	text, err := readFile(cmd, name)
	if err != nil {
		return nil, err
	}
	list, err := strategy.Parse(text)
	if err != nil {
		return nil, Usage(fmt.Errorf("%s: %w", name, err))
	}
	return list, nil
}

func newStrategyCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Checks a file of Strategies; exits with 2 and the field's path if one is invalid",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return Usagef("strategy check takes one file, or - for standard input")
			}
			return nil
		},
	}
	var policies string
	cmd.Flags().StringVar(&policies, "policies-file", "", "policies.yaml that must define each policy which a strategy names; without it nothing is known of policies")
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := strategies(cmd, args[0])
		if err != nil {
			return err
		}
		var defined map[string]api.Policy
		if policies != "" {
			text, err := os.ReadFile(policies)
			if err != nil {
				return Usage(fmt.Errorf("--policies-file: %w", err))
			}
			spec, err := configmap.Parse(map[string]string{"policies.yaml": string(text)}, nil)
			if err != nil {
				return Usage(fmt.Errorf("--policies-file: %w", err))
			}
			defined = spec.Policies
		}
		names := make([]string, len(list))
		for i, s := range list {
			if err := asked(s, defined); err != nil {
				return Usage(fmt.Errorf("%s: %s: %w", args[0], s.Key, err))
			}
			names[i] = s.Key.String()
		}
		return show(struct {
			Strategies []string `json:"strategies"`
		}{names}, fmt.Sprintf("%s: can be used: %s", args[0], strings.Join(names, ", ")))
	}
	return cmd
}

// asked says what is wrong with what a strategy asks of others: a query that is none or that
// the operator would refuse, and, where policies are known, one that is not defined.
func asked(s api.Strategy, policies map[string]api.Policy) error {
	var spec v1alpha1.StrategySpec
	if err := json.Unmarshal([]byte(s.Spec), &spec); err != nil {
		return err
	}
	for i, sensor := range spec.Sensors {
		if sensor.Prometheus == nil {
			continue
		}
		if _, err := promql.Confine(sensor.Prometheus.Query, "namespace", s.Key.Namespace, ""); err != nil {
			return fmt.Errorf("spec.sensors[%d].prometheus.query: %w", i, err)
		}
	}
	if policies == nil {
		return nil
	}
	known := func(path, name string) error {
		if _, ok := policies[name]; !ok {
			return fmt.Errorf("%s: there is no policy %q: want one of %s", path, name, strings.Join(slices.Sorted(maps.Keys(policies)), ", "))
		}
		return nil
	}
	for i, rule := range spec.Rules {
		for j, action := range rule.Actions {
			if action.SetPolicy != nil {
				if err := known(fmt.Sprintf("spec.rules[%d].actions[%d].setPolicy.policy", i, j), action.SetPolicy.Policy); err != nil {
					return err
				}
			}
		}
	}
	if spec.Learn != nil {
		for i, name := range spec.Learn.Policies {
			if err := known(fmt.Sprintf("spec.learn.policies[%d]", i), name); err != nil {
				return err
			}
		}
	}
	return nil
}

func newStrategyRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Shows what strategies would have done on recorded inputs, and why",
		Long: `Shows what strategies would have done on recorded inputs, and why. It needs no cluster
and changes nothing. The same inputs give the same bytes.

Each line of the inputs is a JSON object, in order of time:

  {"time":"2026-03-02T10:00:00Z","policy":"COST_SAVING","sensors":{"latency":0.12,"spend":null}}

A sensor takes its value from the first line at which its schedule (when) is due, and keeps
it until the next one. null means that the sensor could not be read.
policy is the one that was in force: a strategy that learns learns of it.`,
		Args: NoArgs,
	}
	var file, inputs, models string
	cmd.Flags().StringVar(&file, "file", "", "file of Strategies; - for standard input")
	cmd.Flags().StringVar(&inputs, "inputs", "", "file of recorded inputs, a JSON object a line")
	cmd.Flags().StringVar(&models, "models", "", "folder of models that choices ask, as the operator's --models")
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		if file == "" || inputs == "" {
			return Usagef("strategy run needs --file and --inputs")
		}
		list, err := strategies(cmd, file)
		if err != nil {
			return err
		}
		text, err := readFile(cmd, inputs)
		if err != nil {
			return err
		}
		steps, err := strategy.Steps(bytes.NewReader(text))
		if err != nil {
			return Usage(fmt.Errorf("%s: %w", inputs, err))
		}
		if err := strategy.Unknown(list, steps); err != nil {
			return Usage(fmt.Errorf("%s: %w", inputs, err))
		}
		files, err := readModels(models)
		if err != nil {
			return Usagef("--models: %w", err)
		}
		asked, err := files.strategyModels()
		if err != nil {
			return Usagef("--models: %w", err)
		}
		results := strategy.Run(list, steps, asked)
		return show(struct {
			Steps []strategy.Result `json:"steps"`
		}{results}, runText(results))
	}
	return cmd
}

// runText is each moment at which something else was wanted or to be said than before.
func runText(results []strategy.Result) string {
	var b strings.Builder
	before := ""
	for i, r := range results {
		var lines []string
		for _, a := range r.Actions {
			line := fmt.Sprintf("  %s, %s: %s", a.Strategy, a.Rule, a.What())
			if a.NotDone != "" {
				line += "; not done: " + a.NotDone
			}
			lines = append(lines, line)
		}
		now := strings.Join(append(slices.Clone(lines), r.Findings...), "\n")
		if i > 0 && now == before {
			continue
		}
		before = now
		fmt.Fprintf(&b, "%s\n", r.Time.Format(time.RFC3339))
		if len(lines) == 0 {
			fmt.Fprintln(&b, "  nothing")
		}
		for j, line := range lines {
			fmt.Fprintf(&b, "%s\n    because %s\n", line, r.Actions[j].Reason)
		}
		for _, f := range r.Findings {
			fmt.Fprintf(&b, "  %s\n", f)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func readFile(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		var b bytes.Buffer
		if _, err := b.ReadFrom(cmd.InOrStdin()); err != nil {
			return nil, err
		}
		return b.Bytes(), nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, Usage(err)
	}
	return text, nil
}
