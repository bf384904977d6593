package forecast

import "math"

// ets is exponential smoothing with a damped trend and up to two seasons, the
// error additive: Hyndman et al. (2008), the two seasons as in Taylor (2003)
// with his correction by the last error. Whether there is a trend, and how fast
// everything is forgotten, is chosen by the one-step squared error with Akaike's
// correction; values are taken as they are or as logarithms, whichever has the
// less error in values.
type ets struct{}

func (ets) name() string { return "ets" }

// Places of the parameters.
const (
	etsAlpha = iota
	etsGamma1
	etsGamma2
	etsBeta
	etsDamping
	etsAR
	etsSeason1
	etsSeason2
	etsLog
	etsParams
)

func (ets) learn(h history, _ int) []float64 {
	if len(h.y) < 12 {
		return nil
	}
	// Parameters of the newest part serve: what is older is forgotten anyway.
	const most = 2500
	if len(h.y) > most && h.long() <= most/3 {
		h.raw, h.y = h.raw[len(h.raw)-most:], h.y[len(h.y)-most:] // no path is made from these
	}
	base := make([]float64, etsParams)
	if len(h.periods) > 0 {
		base[etsSeason1] = float64(h.season())
		if h.long() > h.season() {
			base[etsSeason2] = float64(h.long())
		}
	}
	lo := []float64{0.001, 0, 0, 0, 0.8, 0}
	hi := []float64{0.9, 0.6, 0.6, 0.3, 0.98, 0.95}
	var best []float64
	bestErr := math.Inf(1)
	for _, log := range []float64{0, 1} {
		if log == 1 && !strictlyPositive(h.y) {
			continue
		}
		for _, trend := range []bool{false, true} {
			p := append([]float64(nil), base...)
			p[etsLog] = log
			start := []float64{0.1, 0.1, 0.1, 0, 0.9, 0.3}
			top := append([]float64(nil), hi...)
			if trend {
				start[etsBeta] = 0.01
			} else {
				top[etsBeta] = 0
			}
			if base[etsSeason1] == 0 {
				top[etsGamma1], start[etsGamma1] = 0, 0
				start[etsAlpha], start[etsAR], top[etsAR] = 0.3, 0, 0
			}
			if base[etsSeason2] == 0 {
				top[etsGamma2], start[etsGamma2] = 0, 0
			}
			loss := func(x []float64) float64 {
				copy(p, x)
				return newETSState(h, p).error()
			}
			x := search(start, lo, top, 60, loss)
			e := loss(x)
			if trend { // two parameters more
				e *= math.Exp(2 * 2 / float64(len(h.y)))
			}
			if e < bestErr {
				best, bestErr = append([]float64(nil), p...), e
			}
		}
	}
	return best
}

func strictlyPositive(y []float64) bool {
	for _, v := range y {
		if !(v > 1e-9) {
			return false
		}
	}
	return true
}

func (ets) predictor(h history, _ int, params []float64) predictor {
	if h.mark != nil {
		return resumeETS(h, params)
	}
	return newETSState(h, params)
}

// etsState is the filtered state at every sample from first on.
type etsState struct {
	plainAnalogues
	h                                 history
	p                                 []float64
	first                             int
	level, trend, season1, season2, e []float64 // seasons at the sample they were last updated
	warm                              int       // what is before it began with is not known earlier
	sse                               float64
	count                             int
}

func emptyETSState(h history, p []float64, first int) *etsState {
	n := len(h.y) - first
	block := make([]float64, 5*n)
	return &etsState{
		plainAnalogues: plainAnalogues{h.raw}, h: h, p: p, first: first,
		level: block[:n], trend: block[n : 2*n], season1: block[2*n : 3*n], season2: block[3*n : 4*n], e: block[4*n:],
	}
}

func newETSState(h history, p []float64) *etsState {
	s := emptyETSState(h, p, 0)
	n := len(h.y)
	m1, m2 := int(p[etsSeason1]), int(p[etsSeason2])
	warm := max(m1, m2, 1)
	if 2*warm > n {
		warm = max(1, min(m1, n/2))
		m2 = 0
	}
	y := s.values()
	s.warm = warm
	mean := 0.0
	for _, v := range y[:warm] {
		mean += v / float64(warm)
	}
	// The first cycle of the longest season is what the seasons begin with.
	for t := range warm {
		s.level[t] = mean
		if m1 > 0 {
			sum, count := 0.0, 0
			for u := t % m1; u < warm; u += m1 {
				sum += y[u] - mean
				count++
			}
			s.season1[t] = sum / float64(count)
		}
		if m2 > 0 {
			s.season2[t] = (y[t] - mean - s.season1[t]) / 2
		}
	}
	s.follow(y, m1, m2)
	return s
}

// values are those it follows, as they are or as logarithms.
func (s *etsState) values() []float64 {
	y := s.h.y[s.first:]
	if s.p[etsLog] != 1 {
		return y
	}
	logs := make([]float64, len(y))
	for i, v := range y {
		logs[i] = math.Log(max(v, 1e-9))
	}
	return logs
}

// follow runs through what comes after the first warm values.
func (s *etsState) follow(y []float64, m1, m2 int) {
	p, n := s.p, len(y)
	level, trend, last := s.level[s.warm-1], s.trend[s.warm-1], s.e[s.warm-1]
	for t := s.warm; t < n; t++ {
		a, b := 0.0, 0.0
		if m1 > 0 {
			a = s.season1[t-m1]
		}
		if m2 > 0 {
			b = s.season2[t-m2]
		}
		expected := level + p[etsDamping]*trend + a + b
		e := y[t] - expected
		if t >= 2*s.warm || t >= n/2 {
			u := e - p[etsAR]*last
			if p[etsLog] == 1 {
				u = s.h.y[s.first+t] - math.Exp(expected+p[etsAR]*last)
			}
			s.sse += u * u
			s.count++
		}
		last = e
		trend *= p[etsDamping]
		level += trend + p[etsAlpha]*e
		trend += p[etsBeta] * e
		s.level[t], s.trend[t], s.e[t] = level, trend, e
		s.season1[t], s.season2[t] = a+p[etsGamma1]*e, b+p[etsGamma2]*e
	}
}

// mostMarked is the longest cycle that a mark holds: of a longer one it would be most
// of a state.
const mostMarked = 2048

// marked is level, trend, error and the newest cycles of the seasons at sample o; nil
// where these are too long, or not known yet.
func (s *etsState) marked(o int) []float64 {
	m1, m2 := int(s.p[etsSeason1]), int(s.p[etsSeason2])
	i := o - s.first
	if m1+m2 > mostMarked || i < s.warm || i+1 < max(m1, m2) {
		return nil
	}
	mark := append(make([]float64, 0, 3+m1+m2), s.level[i], s.trend[i], s.e[i])
	mark = append(mark, s.season1[i+1-m1:i+1]...)
	return append(mark, s.season2[i+1-m2:i+1]...)
}

func resumeETS(h history, p []float64) *etsState {
	m1, m2 := int(p[etsSeason1]), int(p[etsSeason2])
	s := emptyETSState(h, p, h.since-max(m1, m2, 1))
	s.warm = h.since - s.first
	s.level[s.warm-1], s.trend[s.warm-1], s.e[s.warm-1] = h.mark[0], h.mark[1], h.mark[2]
	copy(s.season1[s.warm-m1:], h.mark[3:3+m1])
	copy(s.season2[s.warm-m2:], h.mark[3+m1:])
	s.follow(s.values(), m1, m2)
	return s
}

func (s *etsState) error() float64 {
	if s.count == 0 || math.IsNaN(s.sse) {
		return math.Inf(1)
	}
	return s.sse / float64(s.count)
}

func (s *etsState) point(o int, dst []float64) {
	i := o - s.first
	if i < s.warm-1 {
		for k := range dst {
			dst[k] = s.h.y[o]
		}
		return
	}
	m1, m2 := int(s.p[etsSeason1]), int(s.p[etsSeason2])
	v, d, ar := s.level[i], s.trend[i], s.e[i]
	for k := range dst {
		d *= s.p[etsDamping]
		v += d
		ar *= s.p[etsAR]
		x := v + ar
		if m1 > 0 {
			x += seasonAt(s.season1, i, k, m1)
		}
		if m2 > 0 {
			x += seasonAt(s.season2, i, k, m2)
		}
		if s.p[etsLog] == 1 {
			x = math.Exp(min(x, 300))
		}
		dst[k] = x
	}
	s.h.bounded(o, dst)
}

// seasonAt reads a season of length m, known up to o, at o+1+k.
func seasonAt(season []float64, o, k, m int) float64 {
	t := o + 1 + k - m
	for t > o {
		t -= m
	}
	if t < 0 {
		return 0
	}
	return season[t]
}
