package forecast

import (
	"math"
)

// analogs is the method of analogues (Lorenz 1969), also known as nearest
// neighbours: where in the past did the newest stretch look as it does now, and
// what came then? It needs no period, so a season whose phase jumps, or one of
// several shapes in no fixed order, is followed after a stretch.
type analogs struct{}

func (analogs) name() string { return AnalogName }

const (
	// analogSpan is how many samples of the past are searched.
	analogSpan = 1500
	// analogCount is how many neighbours are taken; the nearest counts most.
	analogCount = 10
	// analogWindow is the length of what is compared where the history is too
	// short to choose it.
	analogWindow = 6
)

func (analogs) learn(h history, horizon int) []float64 {
	if len(h.y) < 40 {
		return nil
	}
	best, bestErr := []float64(nil), math.Inf(1)
	origins := laterOrigins(len(h.y), horizon)
	for _, window := range []int{5, 10, 20} {
		for _, levelled := range []float64{0, 1} {
			p := []float64{float64(window), levelled}
			if e := pathError(analogs{}.predictor(h, horizon, p), h.raw, origins, horizon); e < bestErr {
				best, bestErr = p, e
			}
		}
	}
	return best
}

func (analogs) predictor(h history, _ int, params []float64) predictor {
	return &analogState{plainAnalogues{h.raw}, h, int(params[0]), params[1] == 1}
}

type analogState struct {
	plainAnalogues
	h        history
	window   int
	levelled bool // neighbours are moved to the present level
}

// neighbour is a past sample and how far what led to it is from what led here.
type neighbour struct {
	at       int
	distance float64
	shift    float64
}

// nearest finds neighbours of o, none within a stretch of another.
func (p *analogState) nearest(o, count, lead int) []neighbour {
	y, w := p.h.y, p.window
	if o+1 < 2*w {
		return nil
	}
	now := y[o+1-w : o+1]
	mean := 0.0
	for _, v := range now {
		mean += v / float64(w)
	}
	sum := 0.0 // of then
	for _, v := range y[o-w : o] {
		sum += v
	}
	out := make([]neighbour, 0, count+1)
	for at := o - 1; at >= max(w-1, o-analogSpan); at-- {
		then := y[at+1-w : at+1]
		if at < o-1 {
			sum += then[0] - y[at+1]
		}
		if at+max(1, lead/4) > o {
			continue // what came after it is not known yet
		}
		shift := 0.0
		if p.levelled {
			shift = mean - sum/float64(w)
		}
		limit := math.Inf(1)
		if len(out) == count {
			limit = out[count-1].distance
		}
		d := 0.0
		for i := w - 1; i >= 0 && d < limit; i-- {
			e := now[i] - then[i] - shift
			d += e * e
		}
		if d >= limit {
			continue
		}
		out = insert(out, neighbour{at, d, shift}, count, max(2, w/4))
	}
	return out
}

// insert keeps the nearest ones, in order; of close ones only the nearest.
func insert(out []neighbour, n neighbour, count, apart int) []neighbour {
	for i, x := range out {
		if x.at-n.at < apart && n.at-x.at < apart {
			if x.distance <= n.distance {
				return out
			}
			out = append(out[:i], out[i+1:]...)
			break
		}
	}
	i := len(out)
	for i > 0 && out[i-1].distance > n.distance {
		i--
	}
	out = append(out, neighbour{})
	copy(out[i+1:], out[i:])
	out[i] = n
	return out[:min(len(out), count)]
}

// paths of the neighbours after o, path after path, and their weights. Where a
// path reaches what is not known yet it goes on as it began: what follows o is
// what it says itself.
func (p *analogState) paths(o, horizon int) (paths, weights []float64) {
	near := p.nearest(o, analogCount, horizon)
	paths, weights = make([]float64, len(near)*horizon), make([]float64, len(near))
	for i, n := range near {
		weights[i] = 1 / (1 + float64(i))
		path := paths[i*horizon : (i+1)*horizon]
		for k := range path {
			if t := n.at + 1 + k; t <= o {
				path[k] = p.h.y[t] + n.shift
			} else {
				path[k] = path[t-o-1]
			}
		}
	}
	return paths, weights
}

func (p *analogState) point(o int, dst []float64) {
	paths, weights := p.paths(o, len(dst))
	p.mean(o, paths, weights, dst)
}

func (p *analogState) mean(o int, paths, weights, dst []float64) {
	total := 0.0
	clear(dst)
	for i, w := range weights {
		total += w
		for k := range dst {
			dst[k] += w * paths[i*len(dst)+k]
		}
	}
	for k := range dst {
		if total == 0 {
			dst[k] = p.h.y[o]
		} else {
			dst[k] /= total
		}
	}
	p.h.bounded(o, dst)
}

// ensemble writes the mean path, and returns how far each neighbour's own is
// from it: these are the residuals.
func (p *analogState) ensemble(o int, mean []float64) (residuals, weights []float64) {
	paths, weights := p.paths(o, len(mean))
	p.mean(o, paths, weights, mean)
	for i := range weights {
		for k, m := range mean {
			paths[i*len(mean)+k] -= m
		}
	}
	return paths, weights
}

// AnalogFit holds the parameters of the method of analogues.
type AnalogFit struct {
	Params []float64 `json:"params"`
	// Up and Down widen, or narrow, what neighbours say above and below their
	// mean, so that stated coverage is what was seen.
	Up   float64 `json:"up"`
	Down float64 `json:"down"`
}

// predictorOf makes the predictor over y.
func (f AnalogFit) predictorOf(y []float64) *calibratedAnalogs {
	p := analogs{}.predictor(history{}.filled(y), 0, f.Params).(*analogState)
	return &calibratedAnalogs{p, f.Up, f.Down}
}

// tail is the part of y that a forecast at its end reads.
func (AnalogFit) tail(y []float64) []float64 { return y[max(0, len(y)-analogSpan-64):] }

type calibratedAnalogs struct {
	*analogState
	up, down float64
}

func (p *calibratedAnalogs) spread() (up, down float64) { return p.up, p.down }
