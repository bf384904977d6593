package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record/delta"
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
	dir, program string
	encoder      *delta.Encoder[T]
	saved        time.Time // the newest one's
	slot         int       // to write to next
	failing      bool
}

// NewCheckpoints makes the folder. The error is of a folder that can't be made or of a
// type that can't be encoded.
func NewCheckpoints[T any](dir, program string) (*Checkpoints[T], error) {
	e, err := delta.NewEncoder[T]()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of checkpoints: %w", err)
	}
	return &Checkpoints[T]{dir: dir, program: program, encoder: e}, nil
}

// checkpointHeader is the first frame of a checkpoint, whose second one is the value.
type checkpointHeader struct {
	Format  int             `json:"format"`
	Program string          `json:"program"`
	Time    time.Time       `json:"time"`
	Schema  json.RawMessage `json:"schema"`
}

const checkpointMagic = "mash2ckp"

func (c *Checkpoints[T]) path(slot int) string {
	return filepath.Join(c.dir, fmt.Sprintf("checkpoint-%d.mash2ckp", slot))
}

// Save writes v, unless the newest checkpoint is less than CheckpointEvery old: to a
// file of its own that then takes the place of the older one. A process killed in
// between leaves both. It returns a finding when it fails for the first time in a row.
func (c *Checkpoints[T]) Save(v T, at time.Time) []api.Finding {
	if !c.saved.IsZero() && at.Sub(c.saved) < CheckpointEvery && !at.Before(c.saved) {
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
			Message: fmt.Sprintf("a restart would start from an older one or without; deciding goes on: %v", err),
		}}
	}
	c.failing = false
	return nil
}

func (c *Checkpoints[T]) write(v T, at time.Time) (err error) {
	plain, err := c.encoder.Append(nil, nil, &v)
	if err != nil {
		return err
	}
	h, err := json.Marshal(checkpointHeader{Format, c.program, at.UTC(), c.encoder.Schema()})
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	b := appendFrame(appendFrame([]byte(checkpointMagic), h), z.EncodeAll(plain, nil))
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
// one, and a finding for each file that can't be read.
func (c *Checkpoints[T]) Load() (newest T, at time.Time, notes []api.Finding) {
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
	return newest, at, notes
}

func (c *Checkpoints[T]) read(path string) (v T, at time.Time, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return v, at, err
	}
	rest, ok := bytes.CutPrefix(b, []byte(checkpointMagic))
	if !ok {
		return v, at, errors.New("it is no checkpoint")
	}
	r := &frames{r: bytes.NewReader(rest)}
	head, err := r.next()
	if err != nil {
		return v, at, errTorn
	}
	var h checkpointHeader
	if err := json.Unmarshal(head, &h); err != nil {
		return v, at, fmt.Errorf("reading its header: %w", err)
	}
	if h.Format != Format {
		return v, at, fmt.Errorf("it has format %d, of mash2 %s; this program reads format %d", h.Format, h.Program, Format)
	}
	packed, err := r.next()
	if err != nil {
		return v, at, errTorn
	}
	z, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return v, at, err
	}
	defer z.Close()
	plain, err := io.ReadAll(io.LimitReader(z, largest))
	if err != nil {
		return v, at, fmt.Errorf("%w: %w", errTorn, err)
	}
	d, err := delta.NewDecoder[T](h.Schema)
	if err != nil {
		return v, at, err
	}
	v, err = d.Decode(plain, nil)
	return v, h.Time, err
}
