package trainticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/experiments/trainticket/drpc"
	"github.com/mash2-io/mash2/planning/rl"
)

// The algorithms: DRPC where a rule's decisions are corrected, DRPC from nothing, as in the
// paper, the table of the rival CoScal, and the predictor of requests that all of these see.
const (
	Residual  = "residual-drpc"
	Scratch   = "drpc"
	CoScal    = "coscal"
	Predictor = "gru"
)

// Algorithms by name.
func Algorithms() []string { return []string{Residual, Scratch, CoScal, Predictor} }

// Options of a training.
type Options struct {
	Environment, Algorithm string
	// Steps are decisions for the whole application; an episode has 241.
	Steps int
	Seed  uint64
	// From is the folder of a model that is to learn on, or the one that comes with the
	// program; empty to begin anew.
	From string
	// Out is the folder for the model.
	Out     string
	Version string

	lessons syllabus // tests have shorter ones
}

// Result of a training.
type Result struct {
	Environment string  `json:"environment"`
	Algorithm   string  `json:"algorithm"`
	Episodes    int     `json:"episodes"`
	Steps       int     `json:"steps"`
	Seconds     float64 `json:"seconds"`
	// TeacherSeconds of them were the teacher's; StepsPerSecond are decisions for all forty
	// services together, learning included.
	TeacherSeconds float64 `json:"teacherSeconds"`
	StepsPerSecond float64 `json:"stepsPerSecond"`
	// Curve has the mean reward of ten episodes each.
	Curve []Point `json:"curve"`
	// Imitation is the mean squared error of the students to the teacher's actions.
	Imitation float64 `json:"imitation"`
	// Prediction is the mean squared error of the predictor, in the last epoch of its training.
	Prediction float64 `json:"prediction,omitempty"`
	// Card is the file that says what was trained, or that holds it where there is no other.
	Card string `json:"card"`
}

// Text says it in a line.
func (r Result) Text() string {
	switch r.Algorithm {
	case CoScal:
		return fmt.Sprintf("%d episodes in %.0f s; table: %s", r.Episodes, r.Seconds, r.Card)
	case Predictor:
		return fmt.Sprintf("%d episodes in %.0f s; mean squared error %.4f at the end; net: %s", r.Episodes, r.Seconds, r.Prediction, r.Card)
	}
	return fmt.Sprintf("%d episodes in %.0f s, the teacher's %.0f s of it; mean reward %.3f at the end; card: %s",
		r.Episodes, r.Seconds, r.TeacherSeconds, r.LastReward(), r.Card)
}

// LastReward is the mean of the last episodes; 0 where there is no curve.
func (r Result) LastReward() float64 {
	if len(r.Curve) == 0 {
		return 0
	}
	return r.Curve[len(r.Curve)-1].Reward
}

// Point of the teacher's curve.
type Point struct {
	Episode int     `json:"episode"`
	Reward  float64 `json:"reward"`
}

// decisions of an episode.
const decisions = int(2*passLength/every) + 1

// MaxSteps bounds what can be asked for.
const MaxSteps = 10_000_000

// Train runs DRPC's two stages: the teacher explores and learns, and the students learn from
// it. Errors wrap training.ErrInput where what was asked for can't be done.
func Train(ctx context.Context, o Options, progress io.Writer) (Result, error) {
	if o.Algorithm == "" {
		o.Algorithm = Residual
	}
	if o.lessons == (syllabus{}) {
		o.lessons = syllabusOf(o.Steps / decisions)
	}
	if !slices.Contains(Algorithms(), o.Algorithm) {
		return Result{}, training.Inputf("--algorithm: unknown algorithm %q: want one of %s", o.Algorithm, strings.Join(Algorithms(), ", "))
	}
	if o.Steps < decisions || o.Steps > MaxSteps {
		return Result{}, training.Inputf("--steps must be from %d, an episode, to %d, is %d", decisions, MaxSteps, o.Steps)
	}
	if o.Out == "" {
		return Result{}, training.Inputf("--out must name a folder")
	}
	from := fromNothing
	if o.Algorithm == Residual {
		from = fromRule
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return Result{}, training.Inputf("--out: %w", err)
	}
	if o.Algorithm == CoScal {
		return trainCoScal(ctx, o, progress)
	}
	if o.Algorithm == Predictor {
		return trainPredictor(ctx, o, defaultPredictorTraining(), progress)
	}
	var students []rl.Policy
	var before *rl.Policy
	if o.From != "" {
		m, err := open(o.From)
		if err != nil {
			return Result{}, training.Inputf("--from: %w", err)
		}
		if m.Card.Algorithm != o.Algorithm {
			return Result{}, training.Inputf("--from: %s was trained by %s, not by %s", o.From, m.Card.Algorithm, o.Algorithm)
		}
		students, before = m.Students, &m.Teacher
	}
	t, err := newTeacher(o.Seed, from, before)
	if err != nil {
		return Result{}, err
	}
	begun := time.Now()
	out := Result{Environment: o.Environment, Algorithm: o.Algorithm, Episodes: o.Steps / decisions}
	out.Steps = out.Episodes * decisions
	changed := changedOf(o.Environment)
	if out.Curve, err = t.teach(ctx, out.Episodes, episodeSeed(o.Seed, 0), changed, progress); err != nil {
		return out, err
	}
	out.TeacherSeconds = time.Since(begun).Seconds()
	out.StepsPerSecond = float64(out.Steps) / out.TeacherSeconds
	if students, out.Imitation, err = imitate(ctx, o.lessons, t, students, episodeSeed(o.Seed, 1), changed, progress); err != nil {
		return out, err
	}
	out.Seconds = time.Since(begun).Seconds()
	out.Card, err = save(o.Out, model{
		Card: Card{
			Environment: o.Environment, Algorithm: o.Algorithm, Seed: o.Seed, From: o.From, Episodes: out.Episodes, Seconds: out.Seconds, Curve: out.Curve,
			Imitation: out.Imitation, Version: o.Version, Limits: limits,
		},
		Teacher: t.td3.Policy(), Students: students,
	})
	return out, err
}

// trainCoScal writes the rival's table.
func trainCoScal(ctx context.Context, o Options, progress io.Writer) (Result, error) {
	begun := time.Now()
	out := Result{Environment: o.Environment, Algorithm: o.Algorithm, Episodes: o.Steps / decisions}
	out.Steps = out.Episodes * decisions
	q, err := teachCoScal(ctx, out.Episodes, episodeSeed(o.Seed, 0), progress)
	if err != nil {
		return out, err
	}
	out.Seconds = time.Since(begun).Seconds()
	out.StepsPerSecond = float64(out.Steps) / out.Seconds
	text, err := json.Marshal(q)
	if err != nil {
		return out, err
	}
	out.Card = filepath.Join(o.Out, CoScalFile)
	return out, training.WriteFile(out.Card, append(text, '\n'))
}

// limits are what a model is not for.
var limits = []string{
	"It was trained in the simulator on one application, with loads of 200 to 800 requests a second.",
	"Students know their own service by its place in that application: they are of no use in another.",
	"Its rewards are of times of visits that a tracing would have to tell in a real cluster.",
}

// episodeSeed of a training's part: far from the seeds that somebody evaluates with.
func episodeSeed(seed uint64, part uint64) uint64 { return 1<<40 + seed<<20 + part<<16 }

// start that a card says.
func (c Card) start() start {
	if c.Algorithm == Scratch {
		return fromNothing
	}
	return fromRule
}

// errNotOurs is for models of something else.
var errNotOurs = errors.New("is no model of " + Environment)

// check a model against the application.
func (m model) check() error {
	s, err := application()
	if err != nil {
		return err
	}
	if len(m.Students) != len(s.Services) {
		return fmt.Errorf("it has %d students for %d services", len(m.Students), len(s.Services))
	}
	for _, p := range m.Students {
		if _, err := drpc.NewStudent(p); err != nil {
			return err
		}
	}
	if in := m.Teacher.Network.Architecture.Inputs; in != teacherInputs {
		return fmt.Errorf("its teacher sees %d numbers of a service, not %d", in, teacherInputs)
	}
	return nil
}
