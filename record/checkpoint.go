package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mash2-io/mash2/api"
)

// CheckpointEvery is the least time between two checkpoints.
const CheckpointEvery = time.Minute

// Reasons of findings about checkpoints.
const (
	ReasonCheckpointFailed  = "CheckpointFailed"  // it can't be written
	ReasonCheckpointRefused = "CheckpointRefused" // it can't be read
)

// Checkpoints keep the newest value of a type in a folder, and the one before: two
// files that are written in turn, each whole or not at all.
type Checkpoints[T any] struct {
	dir     string
	codec   *Codec[T]
	saved   time.Time // the newest one's
	slot    int       // to write to next
	failing bool
}

// NewCheckpoints makes the folder. The error is of a folder that can't be made or of a
// type that can't be encoded.
func NewCheckpoints[T any](dir, program string) (*Checkpoints[T], error) {
	codec, err := NewCodec[T](program)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of checkpoints: %w", err)
	}
	return &Checkpoints[T]{dir: dir, codec: codec}, nil
}

func (c *Checkpoints[T]) path(slot int) string {
	return filepath.Join(c.dir, fmt.Sprintf("checkpoint-%d.mash2ckp", slot))
}

// Save writes v, unless the newest checkpoint is less than CheckpointEvery old and it
// isn't urgent: to a file of its own that then takes the place of the older one. A process killed in
// between leaves both. It returns a finding when it fails for the first time in a row.
func (c *Checkpoints[T]) Save(v T, at time.Time, urgent bool) []api.Finding {
	if !urgent && !c.saved.IsZero() && at.Sub(c.saved) < CheckpointEvery && !at.Before(c.saved) {
		return nil
	}
	c.saved = at // a failure is tried again a minute later
	if err := c.write(v, at); err != nil {
		if c.failing {
			return nil
		}
		c.failing = true
		return []api.Finding{{
			Severity: api.Warning, Reason: ReasonCheckpointFailed, Object: api.ObjectRef{Kind: "checkpoint"},
			Message: fmt.Sprintf("a restart would use an older checkpoint or none; planning continues: %v", err),
		}}
	}
	c.failing = false
	return nil
}

func (c *Checkpoints[T]) write(v T, at time.Time) (err error) {
	b, err := c.codec.Encode(v, at)
	if err != nil {
		return err
	}
	temporary := filepath.Join(c.dir, "checkpoint.tmp")
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary)) // it may fill the disk
	}
	if err := os.Rename(temporary, c.path(c.slot)); err != nil {
		return err
	}
	c.slot = 1 - c.slot
	folder, err := os.Open(c.dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Load returns the newest value that can be read and its time, the zero time without
// one, and a finding for each file that can't be read. There is no error: a file that can't be read
// now can't be later.
func (c *Checkpoints[T]) Load() (newest T, at time.Time, notes []api.Finding, err error) {
	for slot := range 2 {
		v, when, err := c.read(c.path(slot))
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			notes = append(notes, api.Finding{
				Severity: api.Warning, Reason: ReasonCheckpointRefused, Object: api.ObjectRef{Kind: "checkpoint"},
				Message: fmt.Sprintf("%s is not used: %v", c.path(slot), err),
			})
			if at.IsZero() {
				c.slot = slot
			}
		case when.After(at):
			newest, at, c.slot = v, when, 1-slot
		}
	}
	return newest, at, notes, nil
}

func (c *Checkpoints[T]) read(path string) (v T, at time.Time, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return v, at, err
	}
	return c.codec.Decode(b)
}
