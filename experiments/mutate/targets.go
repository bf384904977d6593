package main

// target is a part of the program whose tests are put to the proof.
type target struct {
	Name string
	// Strict targets may have no survivor.
	Strict bool
	Parts  []part
}

// part is the functions of one package that get mutants.
type part struct {
	Dir string // from the module's root; its own tests are run
	// Files and Functions ("Guard.Range") are regular expressions that must match
	// in full; empty means all.
	Files, Functions string
}

var targets = []target{
	{Name: "trust", Strict: true, Parts: []part{
		{Dir: "planning", Functions: `trust|managed\.looksAhead`},
		{Dir: "api", Functions: `Coverage\..*`},
	}},
	{Name: "monitored", Parts: []part{{Dir: "forecast", Files: `(monitored|precedented|trust)\.go`}}},
	{Name: "guard", Strict: true, Parts: []part{{Dir: "planning", Files: `guard\.go`}}},
	{Name: "utility", Parts: []part{{Dir: "planning/choice"}}},
	{Name: "sequence", Strict: true, Parts: []part{{Dir: "execution", Files: `(sequence|guards|pools|workloads|costs|budgets)\.go`}}},
	{Name: "division", Parts: []part{{Dir: "execution", Files: `(gather|spot|division)\.go`}}},
	{Name: "preflight", Parts: []part{{Dir: "execution", Files: `(preflight|missing|price)\.go`}}},
	{Name: "plausibility", Strict: true, Parts: []part{{Dir: "demand", Files: `(plausibility|burn|fold|usage)\.go`}}},
	{Name: "newest", Parts: []part{{Dir: "sensing", Files: `newest\.go`}}},
	{Name: "watches", Strict: true, Parts: []part{{Dir: "sensing", Files: `(current|watermark)\.go`}}},
	{Name: "hpa", Parts: []part{{Dir: "experiments/baseline", Files: `hpa\.go`}}},
}
