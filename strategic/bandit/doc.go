// Package bandit is a Strategic Agent that learns which of the defined policies to choose,
// from what became of earlier choices: a contextual bandit. Each round it sees a context (the
// hour, a campaign), names a policy, and later learns that round's reward, a number from 0 to
// 1 that the owner makes of KPIs such as spend, conversion and SLO.
//
// # Algorithm
//
// Conservative linear UCB (Kazerouni, Ghavamzadeh, Abbasi-Yadkori, Van Roy: Conservative
// Contextual Linear Bandits, NeurIPS 2017; CLUCB2, where the baseline's reward is unknown too)
// with one linear model for each policy (LinUCB with disjoint models, Li et al. 2010) and the
// confidence radius of Abbasi-Yadkori et al. 2011, theorem 2:
//
//	β = Noise·√(2 ln(2/Delta) + Σ_k ln(det V_k ÷ det λI)) + √λ·Bound·√(policies·Size)
//
// While every context was along one coordinate, as indicators are, each coefficient also has
// a bound of its own, by the same theorem in one dimension and a union bound over all of
// them; the narrower of the two counts.
//
// The owner's own schedule is the baseline. The policy with the highest upper bound is named
// only if, at the lower bounds, the rewards of all rounds that left the baseline, this one
// included, together with the baseline's rewards of the others, are at least the part
// 1 − Alpha of what the baseline would have earned in all of them. Otherwise the baseline is
// named. So exploring is bounded: with probability 1 − Delta the loss against the baseline
// never exceeds the part Alpha, in every round, provided that the rewards are linear in the
// context and their noise is as stated. A context of indicators (one for each part of the
// day) makes them linear by construction.
//
// # What it may do
//
// It recommends first: while Config.Act is false the baseline is named, and what the learner
// would choose stands beside it. Then it learns from the baseline's rewards only. Policies
// that are not in Config.Policies are never named. A context or a reward that is not finite
// changes nothing: the baseline is named, and nothing is learned. A round whose reward is
// not known counts against the bound all the same (Count).
//
// Everything is pure: a State goes in, a State comes out. There is no randomness; of equal
// bounds the baseline wins, then the first.
package bandit
