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
	// analogWindow is the length of the stretch, of which analogSpan samples
	// of the past are searched.
	analogSpan = 2000
	// analogCount is how many neighbours are averaged.
	analogCount = 5
)

func (analogs) learn(h history, horizon int) []float64 {
	if len(h.y) < 40 {
		return nil
	}
	best, bestErr := []float64(nil), math.Inf(1)
	origins := laterOrigins(len(h.y), horizon)
	for _, window := range []int{6, 12, 24} {
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
	var out []neighbour
	for at := o - 1; at >= max(w-1, o-analogSpan); at-- {
		then := y[at+1-w : at+1]
		if at+max(1, lead/4) > o {
			continue // what came after it is not known yet
		}
		shift := 0.0
		if p.levelled {
			for _, v := range then {
				shift -= v / float64(w)
			}
			shift += mean
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

func (p *analogState) point(o int, dst []float64) {
	near := p.nearest(o, analogCount, len(dst))
	last := p.h.y[o]
	for k := range dst {
		sum, weight := 0.0, 0.0
		for i, n := range near {
			if t := n.at + 1 + k; t <= o {
				w := 1 / (1 + float64(i))
				sum += w * (p.h.y[t] + n.shift)
				weight += w
			}
		}
		if weight > 0 {
			last = sum / weight
		}
		dst[k] = last
	}
	p.h.bounded(o, dst)
}
