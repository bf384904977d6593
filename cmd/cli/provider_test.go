package cli

import (
	"strings"
	"testing"
)

func TestProviderFlagsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		flags providerFlags
		want  string
	}{
		"an unknown provider":           {providerFlags{name: "aws"}, `--provider must be gke, clusterapi, kind or none, not "aws"`},
		"GKE without a project":         {providerFlags{name: "gke", gkeLocation: "l", gkeCluster: "c"}, "--provider gke needs --gke-project"},
		"Cluster API without cluster":   {providerFlags{name: "clusterapi", clusterAPINamespace: "n"}, "--provider clusterapi needs --clusterapi-cluster"},
		"reading nothing":               {providerFlags{name: "none", readOnly: true}, "--provider-read-only needs a --provider"},
		"half of a simulator":           {providerFlags{name: "gke", gkeProject: "p", gkeLocation: "l", gkeCluster: "c", gkeEndpoint: "x"}, "must be given together"},
		"a kubeconfig that isn't there": {providerFlags{name: "clusterapi", clusterAPINamespace: "n", clusterAPICluster: "c", clusterAPIKubeconfig: "/nonexistent"}, "--clusterapi-kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.flags.validate()
			if err == nil {
				_, err = c.flags.management()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
