package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/operator/replay"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/serve/rest"
)

// TestUIOverRecords: the page over a simulated run's records shows what is in them, and
// explains as mash2 explain does.
func TestUIOverRecords(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"simulate", "--scenario", "flash-sale", "--scaler", "mash2", "--records", dir, "-o", "json"}, &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"ui", "--records", dir}, w, io.Discard)
		_ = w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	page := visitor{t, strings.TrimSuffix(strings.TrimSpace(line), "/"), http.DefaultClient}
	get := func(path string, into any) {
		t.Helper()
		status, body := page.ask("GET", path, "", "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, body)
		}
		if err := json.Unmarshal([]byte(body), into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	var o rest.Overview
	get("overview", &o)
	if !o.Recorded || o.Workloads != 1 || o.Money == nil || o.Money.Month.Spent <= 0 || o.Money.Month.HPA <= 0 || len(o.Pools) == 0 || o.Actions {
		t.Errorf("%+v", o)
	}
	var list struct{ Workloads []rest.WorkloadView }
	get("workloads", &list)
	if len(list.Workloads) != 1 {
		t.Fatalf("%+v", list)
	}
	name := list.Workloads[0].Key.String()
	var detail rest.WorkloadDetail
	get("workloads/"+name, &detail)
	if len(detail.Past.Times) < 30 || len(detail.Changes) == 0 {
		t.Errorf("%d points, %d changes", len(detail.Past.Times), len(detail.Changes))
	}
	if len(detail.Path) == 0 {
		t.Errorf("the last cycle is not whole: %+v", detail.Plan)
	}
	var otherwise replay.Counterfactual
	get("otherwise?workload="+name+"&with=workload.maxReplicas=3", &otherwise)
	if !otherwise.Reproduced || len(otherwise.Workloads) != 1 || otherwise.Workloads[0].Otherwise.Replicas != 3 {
		t.Errorf("%+v", otherwise)
	}
	if status, body := page.ask("GET", "otherwise?with=quantil=1", "", ""); status != http.StatusBadRequest || !strings.Contains(body, "quantile") {
		t.Errorf("%d %s", status, body)
	}
	out.Reset()
	if code := run(t.Context(), []string{"explain", "--records", dir, "--workload", name, "--with", "workload.maxReplicas=3", "-o", "json"}, &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	var command struct{ Otherwise replay.Counterfactual }
	if err := json.Unmarshal(out.Bytes(), &command); err != nil || command.Otherwise.Summary != otherwise.Summary || otherwise.Summary == "" {
		t.Errorf("the page: %q, mash2 explain: %q, %v", otherwise.Summary, command.Otherwise.Summary, err)
	}
	if code := run(t.Context(), []string{"explain", "--records", dir, "--with", "quantil=1"}, io.Discard, &errs); code != cli.ExitUsage {
		t.Errorf("a field that is none: exit code %d", code)
	}
	out.Reset()
	if code := run(t.Context(), []string{"explain", "--records", dir, "--from", "2026-01-05T00:00:00Z", "-o", "json"}, &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	var account record.Account
	if err := json.Unmarshal(out.Bytes(), &account); err != nil || len(account.Workloads) != 1 || len(account.Policies) != 2 || account.Spent <= 0 {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, args := range [][]string{
		{"--from", "2026-01-05T00:00:00Z", "--at", "2026-01-05T00:00:00Z"}, {"--from", "2026-01-05T00:00:00Z", "--to", "2025-01-05T00:00:00Z"},
		{"--to", "2025-01-05T00:00:00Z"}, {"--from", "2026-01-05T00:00:00Z", "--workload", "a/b"},
	} {
		if code := run(t.Context(), append([]string{"explain", "--records", dir}, args...), io.Discard, &errs); code != cli.ExitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	var heads struct{ Cycles []rest.Head }
	get("cycles", &heads)
	for _, h := range []rest.Head{heads.Cycles[0], heads.Cycles[len(heads.Cycles)/2], heads.Cycles[len(heads.Cycles)-1]} {
		at := h.Time.UTC().Format("2006-01-02T15:04:05.999999999Z")
		var page, command record.Explanation
		get("explain?workload="+name+"&at="+at, &page)
		out.Reset()
		if code := run(t.Context(), []string{"explain", "--records", dir, "--workload", name, "--at", at, "-o", "json"}, &out, &errs); code != 0 {
			t.Fatal(errs.String())
		}
		if err := json.Unmarshal(out.Bytes(), &command); err != nil {
			t.Fatal(err)
		}
		if page.Cycle != h.Cycle || page.Cycle != command.Cycle || page.Reason != command.Reason || page.Binding != command.Binding ||
			page.Decided.Replicas != command.Decided.Replicas || len(page.Candidates) != len(command.Candidates) {
			t.Errorf("the page: %+v\nmash2 explain: %+v", page, command)
		}
		var cycle struct{ ID uint64 }
		if get("cycles/"+jsonOf(t, h.Cycle), &cycle); cycle.ID != h.Cycle {
			t.Errorf("cycle %d is answered with %d", h.Cycle, cycle.ID)
		}
	}
	stop()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d", code)
	}

	for name, args := range map[string][]string{
		"no such folder":    {"--records", dir + "/nothing"},
		"for everybody":     {"--records", dir, "--address", "0.0.0.0:0"},
		"no address":        {"--records", dir, "--address", "127.0.0.1"},
		"no ServiceAccount": {"--kubeconfig", kubeconfigWithoutToken(t), "--service-account", "viewer", "--pod", "p"},
		"no token":          {"--kubeconfig", kubeconfigWithoutToken(t), "--pod", "p"},
	} {
		t.Run(name, func(t *testing.T) {
			errs.Reset()
			if code := run(t.Context(), append([]string{"ui"}, args...), io.Discard, &errs); code != cli.ExitUsage {
				t.Errorf("exit code %d: %s", code, errs.String())
			}
		})
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// kubeconfigWithoutToken has a name and a password.
func kubeconfigWithoutToken(t *testing.T) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{Username: "u", Password: "p"}
	file.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}
