package clusterapi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/clusterapi"
	"github.com/mash2-io/mash2/execution/provider"
)

// TestUnreadableAnnotationHoldsItsPool: a pool with an annotation that can't be read is held
// with the annotation's path, keeps its name, size and nodes, and all others are as they are.
func TestUnreadableAnnotationHoldsItsPool(t *testing.T) {
	const capacity = "capacity.cluster-autoscaler.kubernetes.io/"
	for annotation, text := range map[string]string{
		clusterapi.AnnotationPrice: "-1", clusterapi.AnnotationSpeed: "0", clusterapi.AnnotationMaxSize: "1e99",
		capacity + "cpu": "two", capacity + "memory": "-4Gi", capacity + "taints": "dedicated=others",
	} {
		t.Run(annotation, func(t *testing.T) {
			f, p := newFake(t, 1)
			bad, good := deployment("bad", 3), deployment("good", 3)
			of(bad, "metadata", "annotations")[annotation] = text
			f.deployments = map[string]object{"bad": bad, "good": good}
			of(f.machines["a"], "metadata", "labels")[deploymentOf] = "bad"
			pools, err := p.Pools(t.Context())
			if err == nil || len(pools) != 2 {
				t.Fatalf("%v, %v", pools, err)
			}
			want := "MachineDeployment bad: metadata.annotations[" + annotation + "]: must be"
			if hold := pools[0].Hold; !strings.HasPrefix(hold, want) || err.Error() != hold {
				t.Errorf("held for %q, error %q, want %q", hold, err, want)
			}
			if b := pools[0]; b.Name != "bad" || b.Sizes[0] != 3 || b.Price <= 0 || b.CPUSpeed <= 0 || !p.Owns("bad", "cloud://a") {
				t.Errorf("%+v", b)
			}
			if g := pools[1]; g.Name != "good" || g.Hold != "" || g.Allocatable.MilliCPU != 2000 {
				t.Errorf("%+v", g)
			}
		})
	}
}

// TestFailuresOfMachines: a Machine that is being made has not failed, whatever its condition says
// of the progress; one has that no machine is to be had for, or that Cluster API gave up.
func TestFailuresOfMachines(t *testing.T) {
	waits := func(message string) object {
		return object{"conditions": []any{object{
			"type": "InfrastructureReady", "status": "False", "reason": "NotReady", "message": message, "lastTransitionTime": "2026-03-02T10:00:00Z",
		}}}
	}
	for name, c := range map[string]struct {
		status object
		want   api.PoolErrorKind
		says   string
	}{
		"just made":               {status: object{}},
		"its object is not there": {status: waits("AWSMachine.infrastructure.cluster.x-k8s.io does not exist")},
		"it is being made":        {status: waits("AWSMachine status.initialization.provisioned is false")},
		"and so in v1beta1":       {status: waits("1 of 2 completed")},
		"no capacity": {
			status: waits("failed to run instance: InsufficientInstanceCapacity: We currently do not have sufficient capacity"), want: api.PoolStockout, says: "InsufficientInstanceCapacity",
		},
		"over quota":             {status: waits("failed to create vm: QuotaExceeded: exceeding approved Cores quota"), want: api.PoolQuota, says: "QuotaExceeded"},
		"given up, with message": {status: object{"failureReason": "CreateError", "failureMessage": "no such image"}, want: api.PoolOther, says: "no such image"},
		"without":                {status: object{"failureReason": "CreateError"}, want: api.PoolOther, says: "CreateError"},
		"in v1beta2":             {status: object{"deprecated": object{"v1beta1": object{"failureMessage": "no such image"}}}, want: api.PoolOther, says: "no such image"},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newFake(t, 1)
			f.machines["a"]["spec"], f.machines["a"]["status"] = object{}, c.status
			pools, err := p.Pools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch e := pools[0].Error; {
			case e == nil && c.want != "":
				t.Errorf("no error, want %s", c.want)
			case e != nil && (e.Kind != c.want || !strings.Contains(e.Message, c.says)):
				t.Errorf("error %+v, want %q, saying %q", *e, c.want, c.says)
			}
		})
	}
}

// TestHeldMachineDeployments: what is nobody's to resize now says so by itself.
func TestHeldMachineDeployments(t *testing.T) {
	paused := []any{object{"type": "Paused", "status": "True", "reason": "Paused", "message": "Cluster spec.paused is set to true", "lastTransitionTime": "2026-03-02T10:00:00Z"}}
	topology := func(owned string) func(object) {
		return func(d object) {
			of(d, "metadata", "labels")["topology.cluster.x-k8s.io/owned"] = ""
			of(d, "metadata")["managedFields"] = []any{object{
				"manager": "capi-topology", "operation": "Apply", "apiVersion": "cluster.x-k8s.io/v1beta1", "fieldsType": "FieldsV1",
				"fieldsV1": object{"f:spec": object{owned: object{}}},
			}, object{
				"manager": "mash2", "operation": "Update", "apiVersion": "cluster.x-k8s.io/v1beta1", "fieldsType": "FieldsV1", "subresource": "scale",
				"fieldsV1": object{"f:spec": object{"f:replicas": object{}}},
			}}
		}
	}
	for name, c := range map[string]struct {
		change func(object)
		want   string
	}{
		"nothing":                               {change: func(object) {}},
		"a paused Cluster":                      {change: func(d object) { of(d, "status")["conditions"] = paused }, want: "or its Cluster is paused"},
		"and so in v1beta1":                     {change: func(d object) { of(d, "status")["v1beta2"] = object{"conditions": paused} }, want: "or its Cluster is paused"},
		"a topology that states replicas":       {change: topology("f:replicas"), want: "machineDeployments[].replicas"},
		"one that leaves them to somebody else": {change: topology("f:template")},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newFake(t, 1)
			c.change(f.deployments["fast"])
			pools, err := p.Pools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := pools[0].Hold; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("held by %q, want %q", got, c.want)
			}
		})
	}
}

// TestWhatNodesWillBe: the zone and kind of nodes to come, of which a MachineDeployment tells.
func TestWhatNodesWillBe(t *testing.T) {
	const labels = "capacity.cluster-autoscaler.kubernetes.io/labels"
	for name, c := range map[string]struct {
		annotations, template, spec object
		zone                        string
		spot                        bool
		rate                        float64
	}{
		"nothing is told":                         {},
		"a failure domain":                        {spec: object{"failureDomain": "1"}, zone: "1"},
		"as nodes are labelled":                   {spec: object{"failureDomain": "1"}, annotations: object{labels: api.LabelZone + "=eastus-1"}, zone: "eastus-1"},
		"spot by the annotation":                  {annotations: object{api.LabelSpot: "true", api.LabelInterruptions: "0.1"}, spot: true, rate: 0.1},
		"by the annotation of labels":             {annotations: object{labels: "karpenter.sh/capacity-type=spot"}, spot: true, rate: api.DefaultInterruptions},
		"by the template's label":                 {template: object{api.LabelSpot: "true"}, spot: true, rate: api.DefaultInterruptions},
		"but the annotation says it is none":      {template: object{api.LabelSpot: "true"}, annotations: object{api.LabelSpot: "false"}},
		"the template's other labels don't count": {template: object{"karpenter.sh/capacity-type": "spot"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newFake(t, 0)
			d := f.deployments["fast"]
			for key, value := range c.annotations {
				of(d, "metadata", "annotations")[key] = value
			}
			of(d, "spec", "template", "metadata")["labels"] = c.template
			of(d, "spec", "template")["spec"] = c.spec
			pools, err := p.Pools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := pools[0]; got.Zones[0] != c.zone || got.Spot != c.spot || got.Interruptions != c.rate {
				t.Errorf("zone %q, spot %v, %g interruptions an hour", got.Zones[0], got.Spot, got.Interruptions)
			}
		})
	}
}

// A management cluster whose upgrade ends a version of the API is read by the next one, without a
// restart of the operator.
func TestVersionThatIsServedNoMore(t *testing.T) {
	f, p := newFake(t, 2)
	if pools, err := p.Pools(t.Context()); err != nil || len(pools) != 1 {
		t.Fatalf("%v, %v", pools, err)
	}
	f.version = "v1beta2"
	if _, err := p.Pools(t.Context()); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("the first answer of another version: %v", err)
	}
	if pools, err := p.Pools(t.Context()); err != nil || len(pools) != 1 {
		t.Errorf("and after it: %v, %v", pools, err)
	}
}
