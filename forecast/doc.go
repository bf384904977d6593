// Package forecast predicts demand: a distribution per step and one for the
// peak of the horizon, learnt from the history alone. Nothing here knows a
// period beforehand; season.Find finds it.
//
// A Forecaster splits its work in two. Update does what is expensive (finding
// the season, choosing parameters, measuring skill by a rolling backtest inside
// the history) and returns it as a State, a small value that can be rebuilt
// from the history at any time. It does so only when a refit is due; due times
// of different series drift apart, so that a thousand of them are not refitted
// in one cycle. Forecast reads the State and the newest history, and is cheap.
//
// Every model is a function "what do I say at sample o about o+1, o+2, …" that
// reads samples up to o only (smoothing, seasonal profile, level and all).
// Quantiles come from the residuals of that same
// function at past origins, kept as whole paths: step quantiles are quantiles
// over the paths at one step, peak quantiles those of the paths' maxima. So
// quantiles never cross, and the peak is never below any step.
//
// Two forecasters choose for themselves. Quick, the zero Auto, takes the last
// value, the level or the season, and is what a cycle of the operator can afford
// for thousands of series. Auto with its Portfolio also weighs a mixture of all
// models, whose weights come from aggregation of experts (combine.go) over past
// origins, with parameters from before them. Each model of the portfolio is one
// file and says where it is from.
//
// Whatever a forecaster says of its skill, Monitored checks what came of its words
// and takes the trust to act from one that was wrong.
//
// The package is pure: no clock, no randomness, no I/O, inputs untouched.
package forecast
