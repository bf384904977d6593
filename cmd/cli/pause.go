package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mash2-io/mash2/operator"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// lookTimeout bounds the look for what a pause stops. The brake is set before.
const lookTimeout = 5 * time.Second

func newPause(pause bool) *cobra.Command {
	var conn connection
	cmd := &cobra.Command{Use: "pause", Short: "Stops every write within one cycle; planning continues", Args: NoArgs}
	if !pause {
		cmd.Use, cmd.Short = "resume", "Ends a pause"
	}
	conn.flags(cmd)
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		client, err := conn.client()
		if err != nil {
			return err
		}
		set, text := configmap.Resume, "resumed"
		if pause {
			set, text = configmap.Pause, "paused: nothing is written from the next cycle on; mash2 resume takes it back"
		}
		if err := set(ctx, client, conn.namespace, conn.configMap); err != nil {
			return err
		}
		if conn.nothingThere(ctx, client) {
			if pause {
				text = fmt.Sprintf("the brake is set in namespace %s; mash2 resume --namespace %s takes it back", conn.namespace, conn.namespace)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), `warning: there is no mash2 in namespace %s: no ConfigMap %s, no Lease %s, no Deployment of the chart. A mash2 in another namespace goes on as before.
Find it: kubectl get lease -A --field-selector metadata.name=%s
Then:    mash2 %s --namespace NAMESPACE
`, conn.namespace, conn.configMap, operator.LeaseName, operator.LeaseName, cmd.Name())
		}
		return show(struct {
			Paused bool `json:"paused"`
		}{pause}, text)
	}
	return cmd
}

// nothingThere reports that nothing of mash2 is in the namespace. What can't be looked at
// may be there.
func (c *connection) nothingThere(ctx context.Context, client kubernetes.Interface) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if _, err := client.CoreV1().ConfigMaps(c.namespace).Get(ctx, c.configMap, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return false
	}
	if _, err := client.CoordinationV1().Leases(c.namespace).Get(ctx, operator.LeaseName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return false
	}
	deployments, err := client.AppsV1().Deployments(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=mash2", Limit: 1})
	return err == nil && len(deployments.Items) == 0
}
