package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// connection is how a command reaches the cluster and its policy ConfigMap.
type connection struct {
	kubeconfig string
	namespace  string
	configMap  string
}

func (c *connection) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file; default: $KUBECONFIG, then the cluster mash2 runs in, then ~/.kube/config")
	f.StringVar(&c.namespace, "namespace", "mash2-system", "namespace of mash2 and of its policy ConfigMap")
	f.StringVar(&c.configMap, "policy-configmap", "mash2-policy", "name of the policy ConfigMap")
}

// Requests a second, and at once, that a command may send: client-go's own bound of 5 makes a release of
// some hundred workloads longer than helm waits for it. The API server has its own bounds.
const requestsPerSecond, requestsAtOnce = 200, 400

func (c *connection) rest() (*rest.Config, error) {
	cfg, err := c.found()
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = requestsPerSecond, requestsAtOnce
	return cfg, nil
}

// found is how the cluster is reached.
func (c *connection) found() (*rest.Config, error) {
	if c.kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if cfg, err := rest.InClusterConfig(); err == nil {
			return cfg, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, Usagef("no cluster to talk to: %w; pass --kubeconfig", err)
	}
	return cfg, nil
}

func (c *connection) client() (kubernetes.Interface, error) {
	cfg, err := c.rest()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}

func (c *connection) policy(ctx context.Context, client kubernetes.Interface) (*corev1.ConfigMap, error) {
	cm, err := client.CoreV1().ConfigMaps(c.namespace).Get(ctx, c.configMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no ConfigMap %s in namespace %s: create it, or name another with --policy-configmap and --namespace", c.configMap, c.namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	return cm, nil
}

// merge patches the ConfigMap; a nil value removes a key.
func (c *connection) merge(ctx context.Context, client kubernetes.Interface, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ConfigMaps(c.namespace).Patch(ctx, c.configMap, types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: "mash2-cli"})
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", c.namespace, c.configMap, err)
	}
	return nil
}

func newPolicy() *cobra.Command {
	var conn connection
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Shows or sets the active policy",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usagef("unknown command %q: get or set NAME", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	conn.flags(cmd)
	cmd.AddCommand(newPolicyGet(&conn), newPolicySet(&conn))
	return cmd
}

func newPolicyGet(conn *connection) *cobra.Command {
	cmd := &cobra.Command{Use: "get", Short: "Prints the active policy, and all policies of the ConfigMap", Args: NoArgs}
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := conn.client()
		if err != nil {
			return err
		}
		cm, err := conn.policy(cmd.Context(), client)
		if err != nil {
			return err
		}
		spec, err := configmap.Parse(cm.Data, cm.Annotations)
		if err != nil {
			return Usagef("ConfigMap %s/%s: %w (the operator goes on with the last good one)", conn.namespace, conn.configMap, err)
		}
		braked, err := configmap.Braked(cmd.Context(), client, conn.namespace, conn.configMap)
		if err != nil {
			return err
		}
		v := struct {
			Active   string   `json:"active"`
			Policies []string `json:"policies"`
			Paused   bool     `json:"paused"`
			// Signals that only the operator reads: where one is on, and nothing is set by
			// hand, it decides instead.
			Signals []string `json:"signals,omitempty"`
		}{activeNow(spec), slices.Sorted(maps.Keys(spec.Policies)), spec.Paused || braked, signalNames(spec)}
		text := fmt.Sprintf("active: %s\npolicies: %s", v.Active, strings.Join(v.Policies, ", "))
		if len(v.Signals) > 0 && spec.Manual == "" {
			text += fmt.Sprintf("\nsignals: %s; one that is on decides instead, see mash2 ui or the Policy column of kubectl get mw -o wide", strings.Join(v.Signals, ", "))
		}
		if v.Paused {
			text += "\npaused: nothing is written until mash2 resume"
		}
		return show(v, text)
	}
	return cmd
}

func newPolicySet(conn *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Sets the policy by hand, which overrides the schedule",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
				return Usagef("policy set takes the name of one policy")
			}
			return nil
		},
	}
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, name := cmd.Context(), args[0]
		client, err := conn.client()
		if err != nil {
			return err
		}
		cm, err := conn.policy(ctx, client)
		if err != nil {
			return err
		}
		// Check the content as it would be, so that a wrong name is refused
		// here and not by the operator.
		data := maps.Clone(cm.Data)
		if data == nil {
			data = map[string]string{}
		}
		data[configmap.KeyPolicy] = name
		if _, err := configmap.Parse(data, cm.Annotations); err != nil {
			return Usagef("policy %s is refused: %w", name, err)
		}
		if err := conn.merge(ctx, client, map[string]any{"data": map[string]any{configmap.KeyPolicy: name}}); err != nil {
			return err
		}
		return show(struct {
			Active string `json:"active"`
		}{name}, "policy set to "+name)
	}
	return cmd
}

func signalNames(spec api.PolicySpec) []string {
	var out []string
	for _, s := range spec.Signals {
		out = append(out, s.Name)
	}
	return out
}

// activeNow is the policy that spec puts in force at this moment, signals aside.
func activeNow(spec api.PolicySpec) string {
	return strategic.Decide(spec, api.Snapshot{Time: time.Now()}).Name
}
