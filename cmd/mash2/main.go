// Command mash2 is the whole product in one binary: the operator, the demo and
// the small commands beside them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes of the command-line contract.
const (
	exitFailed = 1 // the command was understood and failed
	exitUsage  = 2 // bad flags, arguments or input
)

// usageError marks an error as the caller's: bad flags, arguments or input.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
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
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "mash2",
		Short:         "Plans pods and nodes together, from a business policy down",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q; see mash2 --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newOperator(), newDemo(), newSimulate(), newForecast(), newBacktest(), newPack(), newWhatif(), newPolicy(), newAdopt(), newRelease(), newPause(true), newPause(false), newVersion())
	return root
}

// noArgs refuses arguments as a usage error.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// outputFlag adds -o, and returns how to print a result with it: one JSON
// object, or lines for people.
func outputFlag(cmd *cobra.Command) func(v any, text string) error {
	var format string
	cmd.Flags().StringVarP(&format, "output", "o", "text", "text or json")
	return func(v any, text string) error {
		if err := checkOutput(cmd); err != nil {
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

// checkOutput refuses a bad -o; commands that take long ask it first.
func checkOutput(cmd *cobra.Command) error {
	if format := cmd.Flag("output").Value.String(); format != "text" && format != "json" {
		return usagef("--output must be text or json, not %q", format)
	}
	return nil
}
