package api

import "time"

// Learning is what a strategy has learned of policies from what became of its rounds.
type Learning struct {
	// Of tells apart what is learned about: the length of a round, its context and reward.
	Of string `json:"of"`
	// Arms are what is known of each policy, in the order of the strategy's policies.
	Arms []LearnedArm `json:"arms"`
	// Learned and Discarded are how many rounds taught something, and how many did not.
	Learned   int `json:"learned"`
	Discarded int `json:"discarded,omitempty"`
	// Budget is what may still be lost against the baseline, at the worst, in rewards. Below
	// 0 nothing may.
	Budget float64 `json:"budget"`
	// Round that is going on; nil between two.
	Round *LearningRound `json:"round,omitempty"`
	// Last says what became of the last round; Failed is whether that needs somebody's care.
	Last   string `json:"last,omitempty"`
	Failed bool   `json:"failed,omitempty"`
	// Reason says in a sentence what is recommended and why, or why nothing is.
	Reason string `json:"reason"`
}

// LearnedArm is what is known of a policy. Numbers of a context are in order of name.
type LearnedArm struct {
	Policy string `json:"policy"`
	// Gram matrix of the contexts that it was in force in, row by row, and the sum of
	// reward times context over Rounds.
	Gram   []float64 `json:"gram,omitempty"`
	Sum    []float64 `json:"sum,omitempty"`
	Rounds int       `json:"rounds"`
	// Left is the sum of contexts of the rounds in which it was chosen instead of a baseline,
	// Instead of those in which another was chosen instead of it, and Kept of those in
	// which it was the baseline and stayed: the account of the loss.
	Left    []float64 `json:"left,omitempty"`
	Instead []float64 `json:"instead,omitempty"`
	Kept    []float64 `json:"kept,omitempty"`
}

// LearningRound is a round that is going on.
type LearningRound struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Seen is when it was last looked at.
	Seen time.Time `json:"seen"`
	// Context at its start, in order of name.
	Context []float64 `json:"context"`
	// Baseline is the policy in force but for the strategy, and Recommended what the
	// strategy would choose, with the reward expected of it and its bounds.
	Baseline    string  `json:"baseline"`
	Recommended string  `json:"recommended"`
	Expected    float64 `json:"expected"`
	Lower       float64 `json:"lower"`
	Upper       float64 `json:"upper"`
	// Acts is whether the strategy was allowed to act when the round began.
	Acts bool `json:"acts,omitempty"`
	// InForce is the policy that really is in force; empty while that is not known. Done is
	// whether the strategy put it there, as of Seen, and Acted for how long it did.
	InForce string        `json:"inForce,omitempty"`
	Done    bool          `json:"done,omitempty"`
	Acted   time.Duration `json:"acted,omitempty"`
	// Broken says why nothing can be learned from the round; empty if something can.
	Broken string `json:"broken,omitempty"`
}
