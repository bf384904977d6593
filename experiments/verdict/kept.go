package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// keeper is a file of figures, one JSON line a run, in which a verdict that was interrupted finds
// what has been run already. Figures of another program, or of other loads of that name, are not
// taken. The zero keeper keeps nothing.
type keeper struct {
	path    string
	program string
	mu      sync.Mutex
	known   map[string]figure
}

// keptFigure is a line of the file.
type keptFigure struct {
	// Of is what the run is known by: the program, its load, the scaler and the seed.
	Of string `json:"of"`
	figure
}

// openKeeper reads a file, which need not be there yet. A line that ends in the middle, of a
// program that was killed, is left out.
func openKeeper(path string) (*keeper, error) {
	if path == "" {
		return &keeper{}, nil
	}
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := hashOf(own)
	if err != nil {
		return nil, err
	}
	k := &keeper{path: path, program: program, known: map[string]figure{}}
	f, err := os.Open(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var line keptFigure
		if json.Unmarshal(lines.Bytes(), &line) == nil {
			k.known[line.Of] = line.figure
		}
	}
	return k, lines.Err()
}

func hashOf(path string) (string, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// of is what a run is known by.
func (k *keeper) of(j job) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\n%s %s %g\n%+v\n%d\n", k.program, j.load.set, j.load.name, j.load.size, j.config, j.seed)
	err := json.NewEncoder(sum).Encode(j.load.scenario)
	// Traces are of files, which may be others by now under the same names.
	all := []*scenarios.Arrivals{j.load.scenario.Arrivals}
	for _, u := range j.load.scenario.Users {
		all = append(all, u.Arrivals)
	}
	for _, a := range all {
		if a != nil {
			times, rates := a.Trace()
			_, _ = fmt.Fprintln(sum, times, rates)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), err
}

// run makes a run, or tells what is known of it.
func (k *keeper) run(ctx context.Context, j job) (figure, error) {
	if k.path == "" {
		return j.run(ctx)
	}
	of, err := k.of(j)
	if err != nil {
		return figure{}, err
	}
	k.mu.Lock()
	f, ok := k.known[of]
	k.mu.Unlock()
	if ok {
		return f, nil
	}
	if f, err = j.run(ctx); err != nil {
		return f, err
	}
	return f, k.add(of, f)
}

func (k *keeper) add(of string, f figure) error {
	line, err := json.Marshal(keptFigure{of, f})
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[of] = f
	if err := os.MkdirAll(filepath.Dir(k.path), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(k.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(slices.Concat([]byte("\n"), line, []byte("\n"))) // a line that was cut off ends here
	return errors.Join(err, file.Close())
}
