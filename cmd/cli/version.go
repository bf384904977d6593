package cli

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/planning/node"
)

// version is set by the linker.
var version = "dev"

// Version of this program.
func Version() string { return version }

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Prints the version, and the packing solvers of this build",
		Args:  NoArgs,
	}
	show := OutputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		v := struct {
			Version string   `json:"version"`
			Go      string   `json:"go"`
			Solvers []string `json:"solvers"`
		}{version, runtime.Version(), node.Solvers()}
		return show(v, fmt.Sprintf("mash2 %s (%s), solvers: %s", v.Version, v.Go, strings.Join(v.Solvers, ", ")))
	}
	return cmd
}
