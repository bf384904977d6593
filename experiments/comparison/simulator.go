package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/score"
)

// validate writes simulator.md: how the simulation's two fidelities agree, how far
// it is from a real control plane, and how fast it is. Files that end in .json are
// what mash2 simulate printed, with --fidelity of both or with --against; another
// is what go test -bench printed. Beside each of the former may be a folder of the
// same name without the ending: its report, of whose figures some are taken over.
func validate(files []string, out string) error {
	if len(files) == 0 {
		return errors.New("no files to make a page of")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var fidelities, against, speed strings.Builder
	for _, file := range files {
		if filepath.Ext(file) != ".json" {
			rows, err := speeds(file)
			if err != nil {
				return err
			}
			speed.WriteString(rows)
			continue
		}
		s, err := read(file)
		if err != nil {
			return err
		}
		switch {
		case len(s.Fidelities) > 0:
			var all []score.Difference
			for _, a := range s.Fidelities {
				all = append(all, score.Difference(a))
			}
			fmt.Fprintf(&fidelities, "### %s\n\n%d seeds.\n\n%s", s.Scenario, s.seeds(), markdown(score.DifferenceTable(all, score.Fidelities)))
			pictures, err := take(strings.TrimSuffix(file, ".json"), out, s.Scenario)
			if err != nil {
				return err
			}
			fidelities.WriteString(pictures)
		case len(s.Against) > 0:
			fmt.Fprintf(&against, "### %s, %s\n\n%d seeds.\n\n%s", s.Scenario, s.Fidelity, s.seeds(), markdown(score.DifferenceTable(s.Against, score.RealAndSimulated)))
		default:
			return fmt.Errorf("%s: neither --fidelity of both nor --against was simulated", file)
		}
	}
	text := simulatorPage + "## The two fidelities\n\n" + agreeing + fidelities.String() + "## Against a real control plane\n\n" + reality + against.String() + "## Speed\n\n" + fast + speed.String()
	return os.WriteFile(filepath.Join(out, "simulator.md"), []byte(text), 0o644)
}

// markdown is a table without its title and note.
func markdown(t report.Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(t.Header, " | "), strings.Repeat("---|", len(t.Header)))
	for _, row := range t.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String() + "\n"
}

// take copies the figures over time of both fidelities and returns what shows them.
func take(folder, out, scenario string) (string, error) {
	var b strings.Builder
	for _, figure := range []string{"replicas", "response-time-95th-percentile", "cpu-utilisation"} {
		data, err := os.ReadFile(filepath.Join(filepath.Clean(folder), figure+"-both-fidelities.png"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		name := fmt.Sprintf("simulator-%s-%s.png", scenario, figure)
		if err := os.WriteFile(filepath.Join(out, name), data, 0o644); err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "![%s, %s](%s)\n", scenario, figure, name)
	}
	return b.String() + "\n", nil
}

// speeds is a table of the benchmarks in a file: its lines are a name, a number of
// runs, and pairs of a value and its unit.
func speeds(file string) (string, error) {
	in, err := os.Open(filepath.Clean(file))
	if err != nil {
		return "", err
	}
	defer in.Close() //nolint:errcheck // only read
	var b strings.Builder
	b.WriteString("| what | × real time | CPU, s | of which the planner |\n|---|---|---|---|\n")
	rows := 0
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		by := map[string]string{}
		for i := 2; i+1 < len(fields); i += 2 {
			by[fields[i+1]] = fields[i]
		}
		_, name, _ := strings.Cut(fields[0], "/")
		name = name[:max(0, strings.LastIndex(name, "-"))] // without the number of cores
		if by["×real-time"] == "" || by["cpu-s"] == "" || by["%planner"] == "" {
			return "", fmt.Errorf("%s: %s tells no speed", file, fields[0])
		}
		share, err := strconv.ParseFloat(by["%planner"], 64)
		if err != nil {
			return "", fmt.Errorf("%s: %s: the planner's part: %w", file, fields[0], err)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f %% |\n", strings.ReplaceAll(name, "-", " "), by["×real-time"], by["cpu-s"], share)
		rows++
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	if rows == 0 {
		return "", fmt.Errorf("%s: has no benchmarks in it", file)
	}
	return b.String() + "\n", nil
}

const simulatorPage = `# How far to trust the simulation

Made by ` + "`make validate-sim`" + `, and the table of speeds by ` + "`make bench-sim`" + ` before it. Beside
these, single parts are checked: the service model against measurements
([calibration.md](calibration.md)), the HPA's rules against the stock controller
(` + "`make validate-hpa`" + `), and ` + "`oracle`" + ` against random scalers
(` + "`go test ./experiments/sim -run Anywhere -rapid.checks 1000`" + `).

`

const agreeing = `` + "`mash2 simulate --fidelity request,fluid`" + ` runs every seed in both. *Error* is
that of the fluid fidelity's mean over seeds. Read it with the intervals: a replica that comes a cycle earlier
or later changes what follows. *Distance* is the mean absolute difference of the time series in buckets of ten
seconds. *Within* is the same difference between two seeds of one fidelity, that is the effect of chance.

They agree at 20 times the load as well as at 1×: requests, CPU and replicas within 3 %, p95 within 20 %, the same
minutes in violation, and errors at 20× within 12 points of those at 1× (` + "`" + `TestFidelitiesAgreeAtAnySize` + "`" + `, with users
and open load, with enough capacity and with too little). With enough capacity the fluid p99 is 26 to 33 % too low at
either size (heartbeat at 20×: 65 ms by request, 46 ms fluid). So use p99 under light load only to compare
scalers.

`

const reality = `` + "`mash2 simulate --against`" + ` on two recordings of ` + "`mash2 demo --scenario heartbeat --speed 1`" + `:
a real API server, scheduler, HPA controller and Prometheus for 52 minutes each, at
real time, with simulated nodes and users
([testdata](../../experiments/comparison/testdata)). *Cold* is the first pass, *warm* are the next two, and
*switch* is the last one, in which the policy changes under load. The recordings are of the operator of 21
November 2026, and the simulation is of the present one, so the errors of mash2 include what has changed
since; those of hpa do not. [Results](results.md#on-the-real-control-plane) compares the same program, real
and simulated. With two recordings an interval says little: it only shows their difference.

`

const fast = `Seconds of scenario time for each second of CPU time, on one core, including garbage collection and the whole
operator's loop every 15 s. The planner's part is forecasts, search and packing; the rest is the simulation,
sensing and execution.

`
