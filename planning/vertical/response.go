package vertical

import "math"

// allowance is the time in which the quota that is left of a period would be used, on
// average: half of the kernel's default cfs_period_us, seconds.
const allowance = 0.05

// Response times in the stationary state of a pod, in seconds: base is the mean of all
// requests, a share of which is throttled and takes that much longer on average. There are so
// many requests per second, each of so much work (core-seconds); the pod may use so many cores
// by its limit, on a node of so many. base is infinite where the pod can't keep up.
//
// The cores are a queue with several servers (M/M/m; the wait by the approximation of Sakasegawa
// 1977), and the limit is one that is drained at its own speed, which requests meet once the
// period's quota is used. docs/benchmarks/calibration.md has measurements beside it.
func Response(rate, work, limit, node float64) (base, share, throttled float64) {
	m := max(1, node)
	rho := rate * work / m
	if rho >= 1 {
		return math.Inf(1), 0, 0
	}
	base = work + work*math.Pow(rho, math.Sqrt(2*(m+1))-1)/(m*(1-rho))
	if limit >= m {
		return base, 0, 0
	}
	drain := work / limit
	if rho = rate * drain; rho >= 1 {
		return math.Inf(1), 0, 0
	}
	return base, rho * math.Exp(-(1-rho)*allowance/drain), drain / (1 - rho)
}
