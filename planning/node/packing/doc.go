// Package packing packs counted items into bins of several kinds at least cost,
// with a proven lower bound: a vector of sizes per item, of capacities per kind.
//
// Items are counted because replicas of one workload are alike: a hundred
// thousand pods are a few hundred items, and what a bin holds is a Pattern over
// them. Choosing how often to use each pattern is a covering problem (Gilmore
// and Gomory 1961) with a tight relaxation and far too many columns, so patterns
// are generated while they help:
//
//   - folded masters, in which items of like size share a row, tell in little time
//     about where the duals are;
//   - master solves the relaxation over the patterns at hand (revised simplex);
//   - knapsack finds the pattern worth most under the master's duals, or a bound
//     on it (branch and bound);
//   - the duals, scaled down until no pattern is worth more than its bin, prove
//     a lower bound (Farley 1990);
//   - dives round the relaxation: fix, solve again, generate for what is left.
//
// Work is counted, not timed: the same problem and budget give the same packing.
package packing
