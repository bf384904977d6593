package agents

import (
	"fmt"
	"strings"
	"time"
)

const (
	// FeatureWindow is how far features look back. It is the one that mash2 train
	// --environment qos makes features by.
	FeatureWindow = time.Minute
	// FeatureShare is the part of a window's readings that has to be there.
	FeatureShare = 0.75
	// freshFor is how many intervals an answer, and the last value of a metric, may be old.
	freshFor = 3
	// maxPredictInterval leaves a window at least three readings.
	maxPredictInterval = 20 * time.Second
)

// Features end with what they are of a metric's readings. A feature that has neither
// ending is the last value.
const (
	meanEnding = "_mean"
	lastEnding = "_last"
)

// metricOf a feature, and whether it is the mean over the window.
func metricOf(feature string) (metric string, mean bool) {
	if m, ok := strings.CutSuffix(feature, meanEnding); ok {
		return m, true
	}
	return strings.TrimSuffix(feature, lastEnding), false
}

// point is a metric's value at a time.
type point struct {
	at    time.Time
	value float64
}

// window has the latest readings by metric. What is older than FeatureWindow is forgotten.
type window struct {
	interval time.Duration
	points   map[string][]point
}

func newWindow(interval time.Duration) *window {
	return &window{interval: interval, points: map[string][]point{}}
}

// add readings of a time.
func (w *window) add(now time.Time, values map[string]float64) {
	for name, v := range values {
		w.points[name] = append(w.points[name], point{now, v})
	}
	for name, points := range w.points {
		begin := 0
		for begin < len(points) && now.Sub(points[begin].at) >= FeatureWindow {
			begin++
		}
		if begin == len(points) {
			delete(w.points, name)
			continue
		}
		w.points[name] = points[begin:]
	}
}

// needs is how many readings a full enough window has.
func (w *window) needs() int {
	return max(1, int(FeatureShare*float64(FeatureWindow/w.interval)+0.5))
}

// gap is why a feature has no value.
type gap struct {
	feature, why string
	// filling: it will have one when the window is full.
	filling bool
}

func (g gap) String() string { return g.feature + ": " + g.why }

// feature is a value and the time of the last reading in it. It has none, but a gap, if
// there are too few readings or the last is old.
func (w *window) feature(name string, now time.Time) (point, *gap) {
	metric, mean := metricOf(name)
	points := w.points[metric]
	if len(points) == 0 {
		return point{}, &gap{feature: name, why: "it can't be measured here"}
	}
	last := points[len(points)-1]
	if now.Sub(last.at) > freshFor*w.interval {
		return point{}, &gap{feature: name, why: "its last reading is too old"}
	}
	if !mean {
		return last, nil
	}
	if have, want := len(points), w.needs(); have < want {
		return point{}, &gap{name, fmt.Sprintf("%d of the %d readings that a mean needs are there", have, want), true}
	}
	sum := 0.0
	for _, p := range points {
		sum += p.value
	}
	return point{last.at, sum / float64(len(points))}, nil
}
