package clusterapi_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/clusterapi"
)

type object = map[string]any

// fake is an API server with MachineDeployments and Machines, by name. Nothing is done
// to Machines.
type fake struct {
	deployments, machines map[string]object
	// refuse is the status by which the next scaling is refused; 0 for none.
	refuse int
	// version is the only one of the API that is served; v1beta1 if empty.
	version string
	// before, if not nil, is called when the next scaling has come and is not looked at yet.
	before func()
}

// newFake has the MachineDeployment fast of so many Machines a, b, c, …, each with its node.
func newFake(t *testing.T, replicas int) (*fake, *clusterapi.Provider) {
	t.Helper()
	f := &fake{deployments: map[string]object{"fast": deployment("fast", replicas)}, machines: map[string]object{}}
	for i := range replicas {
		name := string(rune('a' + i))
		f.machines[name] = object{
			"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
			"metadata": object{"name": name, "uid": name, "labels": object{clusterOf: "shop", deploymentOf: "fast"}, "annotations": object{}},
			"spec":     object{"providerID": "cloud://" + name},
			"status":   object{"nodeRef": object{"name": "node-" + name}},
		}
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	p, err := clusterapi.New(clusterapi.Config{REST: &rest.Config{Host: server.URL}, Namespace: "m", Cluster: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	return f, p
}

func deployment(name string, replicas int) object {
	return object{
		"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment",
		"metadata": object{
			"name": name, "resourceVersion": "1", "labels": object{clusterOf: "shop"},
			"annotations": object{"capacity.cluster-autoscaler.kubernetes.io/cpu": "2", "capacity.cluster-autoscaler.kubernetes.io/memory": "8Gi"},
		},
		"spec":   object{"replicas": replicas, "template": object{"metadata": object{}, "spec": object{}}},
		"status": object{},
	}
}

// of returns a part of an object.
func of(in object, path ...string) object {
	for _, key := range path {
		in = in[key].(object)
	}
	return in
}

// scale is a write to the scale subresource: as for every other, a resourceVersion that is
// not the object's is a conflict.
func (f *fake) scale(name string, patch object) (int, any) {
	if before := f.before; before != nil {
		f.before = nil
		before()
	}
	d := f.deployments[name]
	version := of(d, "metadata")["resourceVersion"].(string)
	if want, ok := of(patch, "metadata")["resourceVersion"]; ok && want != version {
		return http.StatusConflict, nil
	}
	n, err := strconv.Atoi(version)
	if err != nil {
		panic(err)
	}
	of(d, "metadata")["resourceVersion"] = strconv.Itoa(n + 1)
	of(d, "spec")["replicas"] = int(of(patch, "spec")["replicas"].(float64))
	return http.StatusOK, object{"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": object{"name": name}}
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	patch := object{}
	if body, _ := io.ReadAll(r.Body); r.Method == http.MethodPatch {
		if err := json.Unmarshal(body, &patch); err != nil {
			panic(err)
		}
	}
	code, out := http.StatusOK, any(nil)
	version := cmp.Or(f.version, "v1beta1")
	rest, served := strings.CutPrefix(r.URL.Path, "/apis/cluster.x-k8s.io/"+version+"/namespaces/m/")
	path := strings.Split(rest, "/")
	switch {
	case r.URL.Path == "/api":
		out = object{"kind": "APIVersions"}
	case r.URL.Path == "/apis":
		out = object{"kind": "APIGroupList", "groups": []any{object{
			"name": "cluster.x-k8s.io", "preferredVersion": object{"groupVersion": "cluster.x-k8s.io/" + version, "version": version},
		}}}
	case !served:
		code = http.StatusNotFound
	case len(path) == 3 && f.refuse != 0:
		code, f.refuse = f.refuse, 0
	case len(path) == 3:
		code, out = f.scale(path[1], patch)
	case path[0] == "machinedeployments" && len(path) == 2:
		out = f.deployments[path[1]]
	case path[0] == "machinedeployments":
		out = object{"kind": "MachineDeploymentList", "apiVersion": "cluster.x-k8s.io/v1beta1", "items": inOrder(f.deployments)}
	case len(path) == 2:
		m := f.machines[path[1]]
		for key, value := range of(patch, "metadata", "annotations") {
			if of(m, "metadata", "annotations")[key] = value; value == nil {
				delete(of(m, "metadata", "annotations"), key)
			}
		}
		out = m
	default:
		out = object{"kind": "MachineList", "apiVersion": "cluster.x-k8s.io/v1beta1", "items": inOrder(f.machines)}
	}
	if code != http.StatusOK {
		out = object{"kind": "Status", "status": "Failure", "code": code, "reason": strings.ReplaceAll(http.StatusText(code), " ", ""), "message": "refused"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(out); err != nil {
		panic(err)
	}
}

func inOrder(objects map[string]object) (out []object) {
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		out = append(out, objects[name])
	}
	return out
}

// mark marks a Machine for deletion as somebody does.
func (f *fake) mark(machine, by string) {
	of(f.machines[machine], "metadata", "annotations")[deleteMachine] = by
}

// state is how many replicas are asked for and which Machines are marked.
func (f *fake) state() string {
	out := fmt.Sprint(of(f.deployments["fast"], "spec")["replicas"])
	for _, m := range inOrder(f.machines) {
		if by, ok := of(m, "metadata", "annotations")[deleteMachine]; ok {
			out += fmt.Sprintf(" %s by %s", of(m, "metadata")["name"], by)
		}
	}
	return out
}

func removal(machine string) api.RemoveNode {
	return api.RemoveNode{Pool: "fast", Node: "node-" + machine, ProviderID: "cloud://" + machine}
}
