package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/operator/replay"
)

// TestReplayGate: replay with limits refuses what is dearer and what is riskier, each by
// its name, and lets the policies pass that were in force.
func TestReplayGate(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"simulate", "--scenario", "flash-sale", "--scaler", "mash2", "--records", dir, "-o", "json"}, &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	const pools = "nodePools: [POOL], "
	for name, c := range map[string]struct {
		policies string // of COST_SAVING and PERFORMANCE alike; none if empty
		flags    []string
		code     int
		says     string
	}{
		"as it was":         {"", []string{"--max-cost-increase", "0%", "--max-short-increase", "0s"}, 0, ""},
		"dearer":            {pools + "minReplicas: 30", []string{"--max-cost-increase", "5%"}, cli.ExitFailed, "USD instead of"},
		"dearer, allowed":   {pools + "minReplicas: 30", []string{"--max-cost-increase", "900%"}, 0, ""},
		"dearer, not asked": {pools + "minReplicas: 30", []string{"--max-short-increase", "0s"}, 0, ""},
		"riskier": {
			pools + "targetUtilization: 1, quantile: 0.05", []string{"--max-cost-increase", "0%", "--max-short-increase", "10s"}, cli.ExitFailed, "worst is mash2/web, first at 2026-",
		},
		"riskier, allowed": {pools + "targetUtilization: 1, quantile: 0.05", []string{"--max-short-increase", "10h"}, 0, ""},
		"no nodes planned": {"minReplicas: 30", []string{"--max-cost-increase", "5%"}, cli.ExitFailed, "do the policies name nodePools?"},
		"no percentage":    {"", []string{"--max-cost-increase", "5"}, cli.ExitUsage, "such as 5%"},
		"no duration":      {"", []string{"--max-short-increase", "long"}, cli.ExitUsage, "such as 30m"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"replay", "--records", dir, "-o", "json"}, c.flags...)
			if c.policies != "" {
				file := filepath.Join(t.TempDir(), "policies.yaml")
				on := func(pool string) string { return "{" + strings.ReplaceAll(c.policies, "POOL", pool) + "}\n" }
				text := "policies:\n  COST_SAVING: " + on("mas-h2-staging-pool") + "  PERFORMANCE: " + on("performance-pool")
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--policies-file", file)
			}
			var out, errs bytes.Buffer
			code := run(t.Context(), args, &out, &errs)
			if code != c.code || !strings.Contains(errs.String(), c.says) {
				t.Errorf("exit code %d, want %d with %q: %s%s", code, c.code, c.says, errs.String(), out.String())
			}
			if code == cli.ExitUsage {
				return
			}
			var r replay.Result
			if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Balance.Cost.Recorded <= 0 {
				t.Errorf("%v: %s", err, out.String())
			}
		})
	}
}
