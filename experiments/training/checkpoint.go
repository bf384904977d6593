package training

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/planning/rl"
)

// CheckpointFile is in a model's folder while it is trained, and gone afterwards.
const CheckpointFile = "checkpoint"

const (
	checkpointMagic   = "mash2-training"
	checkpointVersion = 1
	// checkpointShare of the time is what checkpoints may take.
	checkpointShare = 0.02
)

// checkpoint is a training after an evaluation. A file of it is: magic, version, what follows
// in gob's format, and SHA-256 of all before it.
type checkpoint struct {
	Environment, Algorithm string
	Steps                  int
	Seed                   uint64
	// Done of these steps, with what Result has so far.
	Done    int
	Curve   []Point
	Seconds float64
	// Best is the kept policy as a model, BestAt where it is from.
	Best   []byte
	BestAt Point
	// Peers is the policy that others follow in the episodes under way, as a model; nil
	// where there are none.
	Peers   []byte
	Learner []byte
}

// keeper writes checkpoints, as often as is cheap.
type keeper struct {
	path string
	next time.Time
}

// keep writes a checkpoint unless the last one is too recent for what writing costs.
func (k *keeper) keep(make func() (checkpoint, error)) error {
	began := time.Now()
	if began.Before(k.next) {
		return nil
	}
	c, err := make()
	if err != nil {
		return err
	}
	out := bytes.NewBufferString(checkpointMagic)
	out.WriteByte(checkpointVersion)
	if err := gob.NewEncoder(out).Encode(c); err != nil {
		return err
	}
	sum := sha256.Sum256(out.Bytes())
	if err := WriteFile(k.path, append(out.Bytes(), sum[:]...)); err != nil {
		return fmt.Errorf("keeping a checkpoint: %w", err)
	}
	now := time.Now()
	k.next = now.Add(time.Duration(float64(now.Sub(began)) / checkpointShare))
	return nil
}

// readCheckpoint of a training that was not finished; ok is false where there is none.
// Errors wrap ErrInput for a file that is damaged or of another training.
func readCheckpoint(o Options) (c checkpoint, ok bool, err error) {
	path := filepath.Join(o.Out, CheckpointFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	again := fmt.Sprintf("--restart begins anew, or remove %s", path)
	head := append([]byte(checkpointMagic), checkpointVersion)
	if !bytes.HasPrefix(data, head) {
		return c, false, Inputf("%s is no checkpoint that this program reads: %s", path, again)
	}
	body, sum := data[:max(len(head), len(data)-sha256.Size)], data[max(len(head), len(data)-sha256.Size):]
	if want := sha256.Sum256(body); !bytes.Equal(sum, want[:]) {
		return c, false, Inputf("%s is damaged: its checksum does not fit: %s", path, again)
	}
	if err := gob.NewDecoder(bytes.NewReader(body[len(head):])).Decode(&c); err != nil {
		return c, false, Inputf("%s: %w: %s", path, err, again)
	}
	if c.Environment != o.Environment || c.Algorithm != o.Algorithm || c.Steps != o.Steps || c.Seed != o.Seed {
		return c, false, Inputf("%s is of another training (--environment %s --algorithm %s --steps %d --seed %d), which these flags continue; %s",
			path, c.Environment, c.Algorithm, c.Steps, c.Seed, again)
	}
	return c, true, nil
}

// asModel is a policy as bytes; nil for none.
func asModel(o Options, p rl.Policy) ([]byte, error) {
	if p.Network == nil {
		return nil, nil
	}
	return rl.Encode(rl.Model{Environment: o.Environment, Algorithm: o.Algorithm, Policy: p})
}

func fromModel(data []byte) (rl.Policy, error) {
	if len(data) == 0 {
		return rl.Policy{}, nil
	}
	m, err := rl.Decode(data)
	return m.Policy, err
}

// course is a training under way.
type course struct {
	Options
	task    gym.Task
	learner rl.Learner
	// done, with the best of its evaluations.
	done   Result
	best   Point
	policy rl.Policy
	peers  rl.Policy // what others follow from the next episodes on
}

// checkpoint of it now, with what others follow in the episodes under way.
func (t *course) checkpoint(peers rl.Policy) (c checkpoint, err error) {
	c = checkpoint{
		Environment: t.Environment, Algorithm: t.Algorithm, Steps: t.Steps, Seed: t.Seed,
		Done: t.done.Steps, Curve: t.done.Curve, Seconds: t.done.Seconds, BestAt: t.best,
	}
	var failed error
	c.Best, err = asModel(t.Options, t.policy)
	c.Peers, failed = asModel(t.Options, peers)
	err = errors.Join(err, failed)
	c.Learner, failed = t.learner.State()
	return c, errors.Join(err, failed)
}

// restore goes on from a checkpoint.
func (t *course) restore(c checkpoint) error {
	t.done.Steps, t.done.Curve, t.done.Seconds, t.best = c.Done, c.Curve, c.Seconds, c.BestAt
	var err error
	t.policy, err = fromModel(c.Best)
	peers, failed := fromModel(c.Peers)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	// The episodes under way began with the peers of then.
	if t.task.Peers != nil && peers.Network != nil {
		t.task.Peers.Set(peers)
	}
	if err := t.learner.Restore(c.Learner); err != nil {
		return err
	}
	if t.task.Peers != nil {
		t.peers = t.learner.Policy()
		t.task.Peers.Set(t.peers)
	}
	return nil
}
