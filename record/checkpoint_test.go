package record

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/planning"
)

func newCheckpoints(t *testing.T, dir string) *Checkpoints[planning.Memory] {
	t.Helper()
	c, err := NewCheckpoints[planning.Memory](dir, "v1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func anyMemory(seed uint64) planning.Memory {
	var m planning.Memory
	filler(seed).Fill(&m)
	return m
}

// TestCheckpoint: every field of a memory comes back in the next process, caches and
// unexported ones included.
func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	c := newCheckpoints(t, dir)
	for i := range uint64(5) {
		m, at := anyMemory(i), epoch.Add(time.Duration(i)*time.Minute)
		if notes := c.Save(m, at, false); len(notes) > 0 {
			t.Fatal(notes)
		}
		// Less than a minute later.
		if notes := c.Save(planning.Memory{}, at.Add(59*time.Second), false); len(notes) > 0 {
			t.Fatal(notes)
		}
		got, kept, notes, _ := newCheckpoints(t, dir).Load()
		if diff := cmp.Diff(m, got, exact); diff != "" || !kept.Equal(at) || len(notes) > 0 {
			t.Fatalf("checkpoint %d: kept %v, %v\n%s", i, kept, notes, diff)
		}
	}
	// What is urgent doesn't wait.
	m, at := anyMemory(9), epoch.Add(4*time.Minute+time.Second)
	c.Save(m, at, true)
	if got, kept, _, _ := newCheckpoints(t, dir).Load(); !kept.Equal(at) || !cmp.Equal(m, got, exact) {
		t.Errorf("what is urgent was kept at %v", kept)
	}
}

// TestCheckpointDamaged: whatever happens to the newest file, the one before is used,
// and that is said.
func TestCheckpointDamaged(t *testing.T) {
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		want   string
	}{
		"cut off":        {func(b []byte) []byte { return b[:len(b)-3] }, "cut off or damaged"},
		"empty":          {func([]byte) []byte { return nil }, "not a checkpoint"},
		"a bit is wrong": {func(b []byte) []byte { return flipped(b, len(b)-5) }, "cut off or damaged"},
		"its header too": {func(b []byte) []byte { return flipped(b, 30) }, "cut off or damaged"},
		"another format": {func([]byte) []byte {
			return appendFrame([]byte(checkpointMagic), []byte(`{"format":9,"program":"v8"}`))
		}, "format 9, of mash2 v8"},
		"another contents": {func([]byte) []byte { return bytes.Repeat([]byte("x"), 1000) }, "not a checkpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w := newCheckpoints(t, dir)
			for i := range uint64(2) {
				w.Save(anyMemory(i), epoch.Add(time.Duration(i)*time.Minute), false)
			}
			newest := w.path(1)
			b, err := os.ReadFile(newest)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(newest, c.damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			next := newCheckpoints(t, dir)
			got, kept, notes, _ := next.Load()
			if diff := cmp.Diff(anyMemory(0), got, exact); diff != "" || !kept.Equal(epoch) {
				t.Errorf("kept at %v:\n%s", kept, diff)
			}
			if len(notes) != 1 || notes[0].Reason != ReasonCheckpointRefused || !strings.Contains(notes[0].Message, c.want) {
				t.Errorf("notes %v", notes)
			}
			// The next one takes the place of the damaged one.
			next.Save(anyMemory(7), epoch.Add(time.Hour), false)
			if _, kept, notes, _ := newCheckpoints(t, dir).Load(); !kept.Equal(epoch.Add(time.Hour)) || len(notes) > 0 {
				t.Errorf("afterwards: kept at %v, %v", kept, notes)
			}
		})
	}
}

// TestCheckpointFails: it is said once that none can be written, and nothing else
// happens.
func TestCheckpointFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	c := newCheckpoints(t, dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	told := 0
	for i := range 5 {
		told += len(c.Save(planning.Memory{}, epoch.Add(time.Duration(i)*time.Minute), false))
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// writerDir is the environment variable by which TestCheckpointKilled starts itself as the
// process that is killed.
const writerDir = "MASH2_TEST_CHECKPOINT_DIR"

// TestCheckpointKilled: a process that is killed at any moment while it writes leaves a
// checkpoint that can be read, no older than the last but one.
func TestCheckpointKilled(t *testing.T) {
	if dir := os.Getenv(writerDir); dir != "" {
		c := newCheckpoints(t, dir)
		_, at, notes, _ := c.Load()
		if len(notes) > 0 {
			t.Fatal(notes)
		}
		if at.IsZero() {
			at = epoch
		}
		m := anyMemory(1)
		m.Policy = strings.Repeat("a long name ", 1<<16) // a write takes its time
		for range 100_000 {                              // until it is killed
			at = at.Add(time.Minute)
			m.Start = at
			if notes := c.Save(m, at, false); len(notes) > 0 {
				t.Fatal(notes)
			}
			os.Stdout.WriteString(".")
		}
		return
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	var before time.Time
	for kill := range 12 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCheckpointKilled$")
		cmd.Env = append(os.Environ(), writerDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		written := random.IntN(6)
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		for range written {
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		for range random.IntN(2_000_000) { // somewhere within the next one
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		m, at, notes, _ := newCheckpoints(t, dir).Load()
		if len(notes) > 0 || at.IsZero() || !m.Start.Equal(at) {
			t.Fatalf("kill %d: kept at %v, of %v: %v", kill, at, m.Start, notes)
		}
		if least := before.Add(time.Duration(written+1) * time.Minute); !before.IsZero() && at.Before(least) {
			t.Fatalf("kill %d: kept at %v, although %v was written", kill, at, least)
		}
		before = at
	}
}
