// Package cli has what the programs of mash2 share: the commands by which the
// operator is run and handled, and how every command reads flags, prints and ends.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	_ "time/tzdata" // images have no time zones of their own

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/forecast"
)

// Exit codes of the command-line contract.
const (
	ExitFailed = 1 // the command was understood and failed
	ExitUsage  = 2 // bad flags, arguments or input
)

// usageError marks an error as the caller's: bad flags, arguments or input.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as the caller's: the program ends with ExitUsage.
func Usage(err error) error { return usageError{err} }

// Usagef is an error of the caller's: bad flags, arguments or input.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Program is a mash2 with the commands by which the operator is run and handled.
type Program struct {
	// FindForecaster, if not nil, finds the forecasters that records of simulated runs
	// may name besides the operator's.
	FindForecaster func(name string) (forecast.Forecaster, error)
	// Commands that this program has besides.
	Commands []*cobra.Command
	// WrapActuator is for tests that stand between the operator's loop and the
	// world, to be killed at a chosen action; nil for none.
	WrapActuator func(mash2.Actuator) mash2.Actuator
}

// Main runs the process's command line and ends the process.
func (p Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run executes one command line and returns its exit code.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := p.Root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "mash2: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		return ExitUsage
	}
	return ExitFailed
}

// Root is the command that all others are below.
func (p Program) Root() *cobra.Command {
	root := &cobra.Command{
		Use:           "mash2",
		Short:         "Plans pods and nodes together, from a business policy down",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usagef("unknown command %q; see mash2 --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	if name := pluginName(os.Args[0]); name != "" {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	root.AddCommand(newOperator(p.WrapActuator), newPolicy(), newStrategy(), newReplay(p.FindForecaster), newExplain(p.FindForecaster), newUI(p.FindForecaster), newKnowledge(), newAdopt(), newAgents(), newRelease(), newPause(true), newPause(false), newVersion())
	root.AddCommand(p.Commands...)
	return root
}

// pluginName is what people type where the program runs as a plugin of kubectl, which
// finds kubectl-mash2 on the PATH; empty elsewhere.
func pluginName(program string) string {
	if plugin, ok := strings.CutPrefix(filepath.Base(program), "kubectl-"); ok {
		return "kubectl " + strings.TrimSuffix(plugin, ".exe")
	}
	return ""
}

// NoArgs refuses arguments as a usage error.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// OutputFlag adds -o, and returns how to print a result with it: one JSON
// object, or lines for people.
func OutputFlag(cmd *cobra.Command) func(v any, text string) error {
	var format string
	cmd.Flags().StringVarP(&format, "output", "o", "text", "text or json")
	return func(v any, text string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		switch format {
		case "text":
			_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		default:
			return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
		}
	}
}

// CheckOutput refuses a bad -o; commands that take long ask it first.
func CheckOutput(cmd *cobra.Command) error {
	if format := cmd.Flag("output").Value.String(); format != "text" && format != "json" {
		return Usagef("--output must be text or json, not %q", format)
	}
	return nil
}

// ProgressTo is where progress goes: only to a terminal.
func ProgressTo(w io.Writer) io.Writer {
	if file, ok := w.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return w
		}
	}
	return io.Discard
}
