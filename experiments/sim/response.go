package sim

// PodResponse is the mean response time, in seconds, of a pod in the stationary state of
// the simulator's service model: at a rate of requests per second, of so much work each
// (reference seconds), with so many cores by its limit, on a node of so many cores of a
// speed. It is infinite where the pod can't keep up.
func PodResponse(rate, work, limit, cores, speed float64) float64 {
	return class{speed: speed, cores: cores, capacity: limit}.answer(rate, work).mean()
}
