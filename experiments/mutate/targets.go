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
	// Prices is one for the fields that are prices ("m.Price"), which are changed by a
	// half besides; empty means none.
	Prices string
	// Tests is one that matches the names of those to run; empty means all.
	Tests string
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
	// What makes a packing wrong, or its bound. The rest of column generation decides how
	// soon there is a good one: which columns are looked for, when to stop, how to round,
	// the master's pivots. Any duals prove a bound, so that a change there only costs time.
	{Name: "packing", Parts: []part{
		{
			Dir: "planning/node/packing", Files: `(problem|generate|converge|price|knapsack|relax|dive|firstfit|improve|solve)\.go`,
			Functions: `Packing\..*|Problem\.(withRoom|fits|unit)|better|copies|gcd|roundUp|per|take|FirstFit|firstFit\.(pack|kind|downsize|zoneRoom)|` +
				`generator\.(cleaned|values|lower|fee|reducedCost|addPattern|price|trim|resume|fix|finish|opened|enough|proven|hopeless|repack|zoned|result)|` +
				`knapsack\.(load|search|bound|greedy|descend|pattern)|relaxation\.conclude`,
			Tests: `^Test(Pricing.*|Basis.*|Master.*|Solve|Bound.*|Downsizing.*|Tight.*|Warm.*)$`, // folded ones take seconds
		},
		// Tables bound what a bin's best pattern is worth.
		{Dir: "planning/node/packing", Files: `table\.go`, Functions: `table\.(fill|once|often|rows|top|cell|loss|copies|pattern)`},
		// What planners see of it.
		{
			Dir: "planning/node", Files: `(columns|classes|ffd|problem)\.go`,
			Functions: `Columns\..*|Packing\.bound|better|sum|classes\.members|compiled\..*|compile|Problem\.(Check|Validate)`,
			Tests:     `^Test(FFD.*|ColumnsOn.*|EveryConstraint.*|Check.*|LowerBound.*|Problems.*|NoTypes.*|ILPIs.*|Tight.*|Fluid.*)$`,
		},
	}},
	// The lower bounds on what nodes cost, by fractions and by whole machines. Simulations
	// under them take minutes and see no bound that is too low: the tests by hand do.
	{Name: "oracle", Parts: []part{
		{Dir: "experiments/verdict/bound", Prices: `m\.Price`},
		{Dir: "experiments/verdict", Files: `run\.go`, Functions: `load\.lowest`, Prices: `m\.Price`, Tests: `^Test(Lowest|Fleet)`},
		{
			Dir: "experiments/sim", Files: `(oracle|cover|machines)\.go`, Prices: `(p|pl)\.price`,
			Tests: `^Test(OracleByHand|MachinesByHand|Cover.*|CheapestIsABound|NoStopIsPaid.*|MixingPools.*)$`,
		},
	}},
	{Name: "hpa", Parts: []part{{Dir: "experiments/baseline", Files: `hpa\.go`}}},
}
