// Package forecasters has the field's forecasters that mash2 is measured against, and
// finds these and mash2's own by name. No operator can choose them.
package forecasters

import (
	"fmt"

	"github.com/mash2-io/mash2/forecast"
)

// Names lists the forecasters that ByName knows: mash2's own, then the others.
func Names() []string { return append(forecast.Names(), DSPName, AutopilotName) }

// ByName returns the forecaster of that name, or an error wrapping
// forecast.ErrUnknownModel.
func ByName(name string) (forecast.Forecaster, error) {
	switch name {
	case DSPName:
		return DSP{}, nil
	case AutopilotName:
		return Autopilot{}, nil
	}
	f, err := forecast.ByName(name)
	if err != nil {
		return nil, fmt.Errorf("%w %q (have %q)", forecast.ErrUnknownModel, name, Names())
	}
	return f, nil
}
