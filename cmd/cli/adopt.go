package cli

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/adoption"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// adopter is how the commands of adoption reach the cluster.
type adopter struct {
	connection
	patience time.Duration
}

func (a *adopter) flags(cmd *cobra.Command) {
	a.connection.flags(cmd)
	cmd.PersistentFlags().DurationVar(&a.patience, "patience", time.Minute, "how long to wait until the operator, or KEDA, has seen a change")
}

func (a *adopter) open() (adoption.Adoption, error) {
	if a.patience <= 0 {
		return adoption.Adoption{}, Usagef("--patience must be above 0, is %v", a.patience)
	}
	cfg, err := a.rest()
	if err != nil {
		return adoption.Adoption{}, err
	}
	cfg.UserAgent = "mash2-cli/" + version
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return adoption.Adoption{}, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return adoption.Adoption{}, fmt.Errorf("reaching the cluster: %w", err)
	}
	return adoption.Adoption{Client: c, Patience: a.patience, Poll: 200 * time.Millisecond}, nil
}

// keys are NAMESPACE/NAME arguments.
func keys(args []string) ([]types.NamespacedName, error) {
	out := make([]types.NamespacedName, 0, len(args))
	for _, arg := range args {
		namespace, name, ok := strings.Cut(arg, "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return nil, Usagef("%q is not NAMESPACE/NAME of a ManagedWorkload", arg)
		}
		out = append(out, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return out, nil
}

func newAdopt() *cobra.Command {
	var a adopter
	var in []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Creates ManagedWorkloads in Shadow from HPAs and ScaledObjects",
		Long: "Creates a ManagedWorkload in Shadow for every HorizontalPodAutoscaler and ScaledObject, with its bounds,\n" +
			"target and behaviour. The existing autoscalers go on scaling. mash2 adopt report compares mash2's plans\n" +
			"with theirs. mash2 adopt take-over lets mash2 scale in their place.",
		Args: NoArgs,
	}
	a.flags(cmd)
	cmd.Flags().StringArrayVar(&in, "in", nil, "namespace to look in; may be repeated (default: all)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be created")
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		if cmd.Flag("namespace").Changed {
			return Usagef("--namespace is that of mash2 and limits nothing here: name the namespaces to adopt in with --in")
		}
		do, err := a.open()
		if err != nil {
			return err
		}
		found, err := do.Find(cmd.Context(), in)
		if err != nil {
			return err
		}
		result := AdoptResult{DryRun: dryRun, Workloads: []Adopted{}}
		var failed error
		for _, c := range found {
			row := Adopted{Namespace: c.Namespace, Name: c.Workload.Name, From: c.Kind + "/" + c.Name, Notes: c.Notes, Outcome: "made"}
			if row.Notes == nil {
				row.Notes = []string{}
			}
			spec := c.Workload.Spec
			row.MinReplicas, row.MaxReplicas, row.TargetPercent = ptr.Deref(spec.MinReplicas, 1), spec.MaxReplicas, spec.TargetUtilizationPercent
			row.Triggers = []string{}
			for _, t := range spec.Triggers {
				row.Triggers = append(row.Triggers, t.Name)
			}
			switch {
			case c.Refused != "":
				row.Outcome, row.Notes = "refused", append(row.Notes, c.Refused)
			case dryRun:
				managed, err := do.Managed(cmd.Context(), c)
				// Who may not look, or looks before mash2 is installed, sees what the others say.
				if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
					return err
				}
				if managed {
					row.Outcome = "managed already"
				}
			default:
				made, err := do.Create(cmd.Context(), c)
				if err != nil {
					row.Outcome, row.Notes, failed = "failed", append(row.Notes, err.Error()), errors.Join(failed, err)
				} else if !made {
					row.Outcome = "managed already"
				}
			}
			result.Workloads = append(result.Workloads, row)
		}
		if err := show(result, result.text()); err != nil {
			return err
		}
		return failed
	}
	cmd.AddCommand(newAdoptReport(&a), newAdoptTakeOver(&a), newAdoptSafetyNet(&a))
	return cmd
}

// AdoptResult is what mash2 adopt prints.
type AdoptResult struct {
	DryRun    bool      `json:"dryRun"`
	Workloads []Adopted `json:"workloads"`
}

// Adopted is one workload of AdoptResult.
type Adopted struct {
	Namespace     string   `json:"namespace"`
	Name          string   `json:"name"`
	From          string   `json:"from"`
	Outcome       string   `json:"outcome"` // made, managed already, refused, failed
	MinReplicas   int32    `json:"minReplicas"`
	MaxReplicas   int32    `json:"maxReplicas"`
	TargetPercent *int32   `json:"targetUtilizationPercent"`
	Triggers      []string `json:"triggers"` // their names
	Notes         []string `json:"notes"`
}

func (r AdoptResult) text() string {
	if len(r.Workloads) == 0 {
		return "there is nothing to adopt"
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKLOAD\tFROM\tOUTCOME\tMIN\tMAX\tTARGET\tNOTES")
	for _, w := range r.Workloads {
		target := "policy's"
		if w.TargetPercent != nil {
			target = fmt.Sprintf("%d %%", *w.TargetPercent)
		}
		if len(w.Triggers) > 0 {
			target = strings.TrimPrefix(target+", "+strings.Join(w.Triggers, ", "), "policy's, ")
		}
		outcome := w.Outcome
		if r.DryRun && outcome == "made" {
			outcome = "would be made"
		}
		fmt.Fprintf(t, "%s/%s\t%s\t%s\t%d\t%d\t%s\t%s\n", w.Namespace, w.Name, w.From, outcome, w.MinReplicas, w.MaxReplicas, target, strings.Join(w.Notes, "; "))
	}
	_ = t.Flush() // into memory
	return strings.TrimRight(b.String(), "\n")
}

func newAdoptReport(a *adopter) *cobra.Command {
	var during, every time.Duration
	cmd := &cobra.Command{
		Use:   "report [NAMESPACE/NAME…]",
		Short: "Compares mash2's plans in Shadow with the autoscalers that act",
	}
	cmd.Flags().DurationVar(&during, "for", 0, "how long to compare; 0: once")
	cmd.Flags().DurationVar(&every, "every", 15*time.Second, "time between two comparisons")
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		if during < 0 || every <= 0 {
			return Usagef("--for must be 0 or more and --every above 0, are %v and %v", during, every)
		}
		only, err := keys(args)
		if err != nil {
			return err
		}
		do, err := a.open()
		if err != nil {
			return err
		}
		do.Warn = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+text) }
		r, err := do.Watch(cmd.Context(), only, during, every)
		if err != nil {
			return err
		}
		return show(r, agreementText(r))
	}
	return cmd
}

func agreementText(r adoption.Report) string {
	if len(r.Workloads) == 0 {
		return "no workload was adopted"
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKLOAD\tFROM\tMODE\tREADY\tMASH2\tTHEIRS\tSAME\tMEAN DIFF\tLARGEST\tLOOKS")
	for _, w := range r.Workloads {
		fmt.Fprintf(t, "%s/%s\t%s\t%s\t%s\t", w.Namespace, w.Name, w.From, w.Mode, w.Ready)
		if a := w.Agreement; a != nil {
			fmt.Fprintf(t, "%d\t%d\t%.0f %%\t%+.1f\t%+d\t%d\n", a.Planned, a.Desired, math.Round(100*a.Same), a.Mean, a.Largest, a.Samples)
		} else {
			fmt.Fprint(t, "\t\t\t\t\t0\n")
		}
	}
	_ = t.Flush() // into memory
	return strings.TrimRight(b.String(), "\n")
}

// moved is what take-over and release print.
type moved struct {
	Workloads []string `json:"workloads"`
}

// each does something for every workload named, and goes on after a failure.
func each(args []string, do func(types.NamespacedName) error) (moved, error) {
	m := moved{Workloads: []string{}}
	if len(args) == 0 {
		return m, Usagef("name the workloads, as NAMESPACE/NAME")
	}
	of, err := keys(args)
	if err != nil {
		return m, err
	}
	var errs []error
	for _, key := range of {
		if err := do(key); err != nil {
			errs = append(errs, err)
			continue
		}
		m.Workloads = append(m.Workloads, key.String())
	}
	return m, errors.Join(errs...)
}

func showMoved(show func(any, string) error, m moved, what string, failed error) error {
	if len(m.Workloads) == 0 && failed != nil {
		return failed
	}
	return errors.Join(show(m, what+" "+strings.Join(m.Workloads, ", ")), failed)
}

func newAdoptTakeOver(a *adopter) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "take-over NAMESPACE/NAME…",
		Short: "Lets mash2 scale: saves and deletes the HPA, or pauses the ScaledObject",
	}
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		do, err := a.open()
		if err != nil {
			return err
		}
		m, failed := each(args, func(key types.NamespacedName) error { return do.TakeOver(cmd.Context(), key) })
		return showMoved(show, m, "mash2 scales", failed)
	}
	return cmd
}

func newAdoptSafetyNet(a *adopter) *cobra.Command {
	var after time.Duration
	cmd := &cobra.Command{
		Use:   "safety-net NAMESPACE/NAME…",
		Short: "Creates an HPA that scales up, and never down, when no operator runs",
		Long: "Creates a HorizontalPodAutoscaler with the bounds of the ManagedWorkload, which owns it. It raises replicas\n" +
			"when there have been too few for all of --after, which happens only without a running operator. It never\n" +
			"lowers them. Its CPU target is ten points above the workload's. mash2 release removes it.",
	}
	cmd.Flags().DurationVar(&after, "after", 10*time.Minute, "how long there must have been too few replicas; at most an hour")
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		if after < time.Second || after > time.Hour {
			return Usagef("--after must be from 1s to 1h, is %v", after)
		}
		do, err := a.open()
		if err != nil {
			return err
		}
		m, failed := each(args, func(key types.NamespacedName) error { return do.SafetyNet(cmd.Context(), key, after) })
		return showMoved(show, m, "there is a safety net for", failed)
	}
	return cmd
}

func newRelease() *cobra.Command {
	var a adopter
	var gone, all bool
	cmd := &cobra.Command{
		Use:   "release NAMESPACE/NAME…",
		Short: "Gives workloads back to the autoscalers that they were taken over from",
		Long: "Sets workloads to Shadow and waits until the operator has seen that. Then removes mash2's marks from their\n" +
			"targets and pods, removes replicas that a move between pools has added, gives running pods that mash2 made\n" +
			"smaller what their author wrote, and restores the autoscaler that a take-over removed. With the last workload\n" +
			"it also removes mash2's cordons and returns parked nodes. helm uninstall runs it with --all.",
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&gone, "operator-gone", false, "go on if no operator answers within --patience")
	cmd.Flags().BoolVar(&all, "all", false, "release every ManagedWorkload, and all nodes even if there is none")
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		if all && len(args) > 0 {
			return Usagef("give either --all or names")
		}
		if all && cmd.Flag("namespace").Changed {
			return Usagef("--namespace is that of mash2 and limits nothing here: --all releases the ManagedWorkloads of all namespaces; name those of one as NAMESPACE/NAME")
		}
		do, err := a.open()
		if err != nil {
			return err
		}
		do.Warn = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+text) }
		hint := func(err error) error {
			if errors.Is(err, adoption.ErrNotSeen) {
				err = fmt.Errorf("%w; if there is no operator any more, pass --operator-gone", err)
			}
			return err
		}
		if all {
			m := moved{Workloads: []string{}}
			released, err := do.ReleaseAll(cmd.Context(), gone)
			for _, key := range released {
				m.Workloads = append(m.Workloads, key.String())
			}
			return showMoved(show, m, "released", hint(err))
		}
		m, failed := each(args, func(key types.NamespacedName) error { return hint(do.Release(cmd.Context(), key, gone)) })
		return showMoved(show, m, "released", failed)
	}
	return cmd
}
