// Package canary tries mash2 on some workloads before it acts for all of them, and says
// when there is proof enough to go on or to stop. It is pure.
//
// A trial is of a group: the workloads of a namespace whose mode is Canary. Its phases:
//
//   - Waiting: there are no two workloads alike that can be compared.
//   - Baseline: pairs are made of workloads of like size, objective and demand over time,
//     and a coin decides which one of each pair is the canary. Nobody acts yet. By how
//     much the two differ anyway is measured.
//   - Running: mash2 acts for the canaries; their controls stay with whoever scales them.
//   - Promoted: mash2 acts for all of the group.
//   - Stopped: mash2 acts for none of it, until a person starts another trial.
//
// # The test
//
// What is compared is the share of bad events of a workload's SLOs, in a block of a minute,
// counted up to [Burn] error budgets and relative to that, so that it is in [0, 1]. The
// value of a block is the mean over pairs of canary less control, less what the two
// differed by in the baseline. Errors that both have cancel out, whatever their course.
//
// Two gamblers bet on the values ([Bets]): one that canaries are worse than their controls
// by more than the margin, the other that they are worse by less. If canaries are not
// worse than the margin in any block, given what came before, the first one's wealth is a
// nonnegative supermartingale: by Ville's inequality it ever reaches 1/alpha with a
// probability of alpha at most, however often one looks. That is the sequential test by
// betting of Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
// betting", JRSS B 86 (2024), with a discrete mixture of constant bets (their section 4
// and appendix B), begun anew every hour so that what goes wrong after a good day is found as
// fast (a mixture over times of change, as in Shin, Ramdas and Rinaldo, "E-detectors",
// 2023, with weights that add up to 1).
//
// A block without readings, or with too few events, is not bet on: no data proves nothing.
// Nobody is promoted while there is too little evidence of some pair, or a canary counts
// nothing beside a control that does: a server that is down has no errors. And as what one
// block counts is limited, the mean without that limit must be within the margin, too.
//
// # Gains
//
// [Gain] tests in the same way differences that have no bound, such as what two scalers cost
// on the same day: mash2 evaluate --records promotes by it.
package canary
