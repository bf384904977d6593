// Package rl is reinforcement learning with small networks: DQN (Mnih et al. 2015, with
// double and dueling variants), PPO (Schulman et al. 2017), DDPG (Lillicrap et al. 2016)
// and TD3 (Fujimoto et al. 2018), on the standard library and gonum's BLAS.
//
// A [Learner] interacts with environments ([Env]) and improves a [Policy], which is what
// decides afterwards: it maps an observation to the best action it knows. A policy is a
// [Network] and the [Space] of its actions, and goes to bytes and back with [Encode] and
// [Decode].
//
// All randomness comes from the seed in a learner's configuration: the same seed, build
// and processor architecture give the same bytes. There is no clock and no I/O.
//
// # Time limits
//
// An episode that is terminated has no future: its last target is the reward alone. One
// that is truncated was only stopped being looked at: its last target has the value of
// the last observation in it, in every algorithm here (Pardo et al. 2018).
package rl
