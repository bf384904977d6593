package main

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/forecast/gru"
)

func toy(seed uint64, season int) *series {
	r := rand.New(rand.NewPCG(seed, 7))
	s := &series{name: "toy", season: season, size: 0.3}
	for t := range 400 {
		s.values = append(s.values, 1+0.5*math.Sin(2*math.Pi*float64(t)/48)+0.05*r.NormFloat64())
	}
	return s
}

// TestGradient compares back propagation with central differences, for every
// weight of a small net, with and without a season, through the rollout.
func TestGradient(t *testing.T) {
	for name, seasonal := range map[string]bool{"without a season": false, "with a season": true} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 3))
			l := newLearner(5, r)
			for i := range l.net.Weights { // the read-out too, away from zero
				l.net.Weights[i] += 0.2 * r.NormFloat64()
			}
			// A longer season than a sequence, whose values are given.
			q := sequence{series: toy(1, 60), at: 100, seasonal: seasonal}
			l.forward(q)
			l.backward(q)
			const h = 1e-5
			for i := range l.net.Weights {
				w := l.net.Weights[i]
				l.net.Weights[i] = w + h
				up := l.forward(q)
				l.net.Weights[i] = w - h
				down := l.forward(q)
				l.net.Weights[i] = w
				want := (up - down) / (2 * h)
				if got := l.gradient[i]; math.Abs(got-want) > 1e-6+1e-4*math.Abs(want) {
					t.Errorf("weight %d: gradient %v, by differences %v", i, got, want)
				}
			}
		})
	}
}

// Training lowers the loss, and the same seed gives the same weights.
func TestTrainingIsDeterministic(t *testing.T) {
	train := func() (*learner, float64, float64) {
		r := rand.New(rand.NewPCG(1, 0))
		l := newLearner(6, r)
		all := []*series{toy(1, 48), toy(2, 0)}
		before := l.train(all, 10, 8, rand.New(rand.NewPCG(2, 2)))
		after := l.train(all, 150, 8, r)
		return l, before, after
	}
	a, before, after := train()
	b, _, _ := train()
	if !slices.Equal(a.net.Weights, b.net.Weights) {
		t.Error("the same seed gave other weights")
	}
	if !(after < 0.7*before) {
		t.Errorf("loss %.3f at first, %.3f after training", before, after)
	}
}

// The net that is shipped was trained on the development part of the traces and on
// nothing else, and is small.
func TestShippedNet(t *testing.T) {
	n, err := gru.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(n.Trained, developed) {
		t.Errorf("trained on %v", n.Trained)
	}
	info, err := os.Stat(filepath.Join("..", "..", "forecast", "gru", "weights.json"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 200<<10 {
		t.Errorf("%d bytes", info.Size())
	}
	read := func(part string) string {
		var all strings.Builder
		files, err := filepath.Glob(filepath.Join("..", "traces", part, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no traces in %s: %v", part, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
		return all.String()
	}
	development, held := read("development"), read("held-out")
	if strings.Contains(development, "name: world-cup\n") { // its load is its base's
		base, err := os.ReadFile(filepath.Join("..", "scenarios", "day.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		development += string(base)
	}
	for _, f := range developed {
		if !strings.Contains(development, f) || strings.Contains(held, f) {
			t.Errorf("%s is not of the development part only", f)
		}
	}
}
