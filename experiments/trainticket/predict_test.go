package trainticket

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mash2-io/mash2/experiments/trainticket/drpc"
	"github.com/mash2-io/mash2/forecast/gru"
)

// missed is the mean squared error of what was said of lives, so many decisions ahead.
func missed(lives [][]drpc.Local, says func(life, at int) float64) float64 {
	var sum, count float64
	for i, life := range lives {
		for at := range life {
			said := says(i, at)
			if at+ahead < len(life) {
				e := life[at+ahead].Requests - said
				sum, count = sum+e*e, count+1
			}
		}
	}
	return sum / count
}

// TestPredictor: in episodes that it was not trained in, the net's squared error is less than
// half of that of Holt's linear trend, and of the last value.
func TestPredictor(t *testing.T) {
	lives, err := lived(t.Context(), 5, 70, AsTrained)
	if err != nil {
		t.Fatal(err)
	}
	var n gru.Net
	if err := json.Unmarshal(shippedPredictor, &n); err != nil {
		t.Fatal(err)
	}
	p := predictorOf(n, len(lives))
	net := missed(lives, func(life, at int) float64 { return p.see(life, lives[life][at]) })
	last := missed(lives, func(life, at int) float64 { return lives[life][at].Requests })
	level, slope := make([]float64, len(lives)), make([]float64, len(lives))
	holt := missed(lives, func(life, at int) float64 {
		const alpha, beta = 0.7, 0.4
		before := level[life]
		level[life] = alpha*lives[life][at].Requests + (1-alpha)*(before+slope[life])
		slope[life] = beta*(level[life]-before) + (1-beta)*slope[life]
		return math.Max(level[life]+ahead*slope[life], 0)
	})
	t.Logf("mean squared error %.4f, Holt's linear trend %.4f, the last value %.4f", net, holt, last)
	if !(net < holt/2 && net < last/2) {
		t.Errorf("mean squared error %.4f, Holt's linear trend %.4f, the last value %.4f", net, holt, last)
	}
}

// TestTrainPredictor: training lowers the error, is the same for the same seed, and what it
// leaves can be read again.
func TestTrainPredictor(t *testing.T) {
	lives, err := lived(t.Context(), 2, 80, AsTrained)
	if err != nil {
		t.Fatal(err)
	}
	c := predictorTraining{epochs: 1, batch: 20, rate: 4e-3}
	one, before := fitPredictor(c, lives, 1, io.Discard)
	again, _ := fitPredictor(c, lives, 1, io.Discard)
	c.epochs = 4
	_, after := fitPredictor(c, lives, 1, io.Discard)
	if !slices.Equal(one.Weights, again.Weights) || !(after < before) {
		t.Errorf("the same seed gives another net, or an error of %g after one epoch and of %g after four", before, after)
	}
	dir := t.TempDir()
	r, err := trainPredictor(t.Context(), Options{Environment: Environment, Algorithm: Predictor, Steps: decisions, Seed: 1, Out: dir}, c, io.Discard)
	if err != nil || !(r.Prediction > 0) || r.Episodes != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, predictorFile))
	if err != nil {
		t.Fatal(err)
	}
	var n gru.Net
	if err := json.Unmarshal(text, &n); err != nil || n.Inputs != predictorInputs || len(n.Weights) != gru.Size(n.Inputs, n.Hidden) {
		t.Errorf("%d inputs, %d weights: %v", n.Inputs, len(n.Weights), err)
	}
}
