package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// examplesOfHelp says for the examples in the help of each command what takes the place of
// the reader's own files, or why no test runs them.
var examplesOfHelp = map[string]struct {
	with []string
	not  string
}{
	"agents":   {not: "need a cluster or a node: the pages' are run there"},
	"backtest": {with: []string{"requests.csv.gz", "docs/examples/waves.csv", "1h", "10m", "24", "3"}},
	"evaluate": {with: []string{"--episodes 100", "--episodes 2", "--episodes 20", "--episodes 1", "--episodes 10", "--episodes 2", "cartpole-dqn", "d", "cartpole-ppo", "p", "agents-ddpg", "rule:fixed", "--workload shop/web --model agents/candidate-4", "--workload mash2/web --block 10m"}},
	"explain":  {with: []string{"shop/web", "mash2/web", "2026-08-03T12:00:00Z", "2026-01-05T00:04:00Z", "12:00", "00:02", "12:10", "00:04", "general", "mas-h2-staging-pool"}},
	"forecast": {with: []string{"requests.csv.gz", "docs/examples/waves.csv", "24h", "1h"}},
	"add":      {},
	"export":   {},
	"search":   {},
	"train":    {with: []string{"100000", "1000", "15000", "1000"}},
	"whatif":   {with: []string{"cpu.csv.gz", "docs/examples/waves.csv", "24h", "5m", "shop/web", "mash2/web", "--namespace shop", "--namespace mash2"}},
}

// examplesIn are the commands in a text of help, and the lines that they go on in.
func examplesIn(text string) []string {
	var out []string
	more := false
	for line := range strings.SplitSeq(text, "\n") {
		command := strings.TrimSpace(line)
		if line != command && strings.HasPrefix(command, "mash2 ") && !strings.HasPrefix(command, "mash2  ") || more {
			out = append(out, command)
			more = strings.HasSuffix(command, `\`) || strings.HasSuffix(command, "|")
		}
	}
	return out
}

// TestExamplesOfHelp: the examples in the help of each command do what they say.
func TestExamplesOfHelp(t *testing.T) {
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, target := range map[string]string{"docs": docs, "mash2": executable} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, prepare := range []string{
		"mash2 simulate --scenario heartbeat --warm-passes 3 --scaler mash2 --records D",
		"mash2 train --environment cartpole --algorithm dqn --steps 1000 --out d",
		"mash2 train --environment cartpole --algorithm ppo --steps 1000 --out p",
	} {
		if code, _, stderr := (example{command: prepare}).run(t); code != 0 {
			t.Fatalf("%s: %s", prepare, stderr)
		}
	}
	// What asks others, or reads measurements that are not in the repository.
	elsewhere := []string{"--prometheus ", "--from-prometheus", "--mlflow", "--environment qos", "train --environment margins", "scaling-ops", "model/forest"}
	ran, left := 0, 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if examples := examplesIn(c.Long + "\n" + c.Example); len(examples) > 0 {
			how, known := examplesOfHelp[c.Name()]
			if !known {
				t.Errorf("nothing runs the examples of %s, and nothing says why", c.CommandPath())
			}
			for _, e := range (block{lines: examples}).commands() {
				if how.not != "" || slices.ContainsFunc(elsewhere, func(s string) bool { return strings.Contains(e.command, s) }) {
					left++
					continue
				}
				e.command = strings.NewReplacer(how.with...).Replace(e.command)
				code, stdout, stderr := e.run(t)
				if code != 0 || stdout == "" && !strings.Contains(e.command, " > ") {
					t.Errorf("%s: exit code %d: %s%s", e.command, code, stdout, stderr)
				}
				ran++
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(program().Root())
	t.Logf("%d examples were run, %d need something else", ran, left)
	if ran < 20 {
		t.Errorf("only %d examples were run", ran)
	}
}
