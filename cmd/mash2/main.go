// Command mash2 is for people: the operator and all that handles it, and the
// laboratory: demo, simulations, forecasts, packings, learned policies.
package main

import (
	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/forecasters"
)

func main() { program().Main() }

func program() cli.Program {
	return cli.Program{FindForecaster: forecasters.ByName, Commands: []*cobra.Command{
		newDemo(), newSimulate(), newForecast(), newBacktest(), newPack(), newWhatif(), newTrain(), newEvaluate(),
	}}
}
