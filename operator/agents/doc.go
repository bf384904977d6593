// Package agents runs the fast loop in a cluster: each interval it reads what pods use,
// lets their agents decide (package vertical) and resizes the pods in place.
//
// It has its own observer and actuator and writes nothing but the resize subresource of
// pods. A pod takes part if a resize can't restart it and leaves its quality of service
// class as it is: see [Takes]. Others are left alone, and said.
//
// MARLISE's control API is [Loop.Handler].
package agents
