package qos

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Columns of a file: when, which node, whose latency, and the metrics that are features. The
// names are those of the published files.
const (
	timeColumn     = "timestamp"
	nodeColumn     = "cluster"
	pipelineColumn = "pipeline_id"
	latencyColumn  = "pipelines_status_realtime_pipeline_latency"
)

// Metrics of a node, by their columns: CPU in cores, memory in bytes; of the whole node and
// of the application's server on it.
var Metrics = []string{"node_cpu_usage", "node_mem_usage", "pipelines_server_cpu_usage", "pipelines_server_mem_usage"}

const (
	// Window that features look back, and that the last value is the mean of.
	Window = time.Minute
	// Horizon ahead whose mean latency is predicted.
	Horizon = time.Minute
	// Share is the part of a window's samples that has to be there.
	Share = 0.75
	// maxBytes of a file, unpacked.
	maxBytes = 1 << 30
)

// Features are the names of what a model reads: of each metric the mean over the window and
// its last value.
func Features() []string {
	var out []string
	for _, m := range Metrics {
		out = append(out, m+"_mean", m+"_last")
	}
	return out
}

// Sample is what was known of an application on a node at a time, and what came.
type Sample struct {
	Time time.Time
	Node string
	// X are the features.
	X []float64
	// Last is the mean latency over the window before, Y that over the horizon ahead, in
	// seconds.
	Last, Y float64
}

// Input is a file.
type Input struct {
	Path string `json:"path"`
	// Hash is the SHA-256 of its bytes.
	Hash    string   `json:"sha256"`
	Samples []Sample `json:"-"`
}

// reading is a node's metrics or an application's latency at a second.
type reading struct {
	second int64
	values []float64
}

// ReadFile reads a CSV file, packed by gzip if its name ends in .gz. Errors name the file,
// the line and the column.
func ReadFile(path string) (Input, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Input{}, err
	}
	sum := sha256.Sum256(data)
	in := Input{Path: path, Hash: hex.EncodeToString(sum[:])}
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return in, fmt.Errorf("%s: %w", path, err)
		}
		if data, err = io.ReadAll(io.LimitReader(z, maxBytes+1)); err != nil {
			return in, fmt.Errorf("%s: %w", path, err)
		}
		if len(data) > maxBytes {
			return in, fmt.Errorf("%s: more than %d bytes unpacked", path, maxBytes)
		}
	}
	if in.Samples, err = Read(data); err != nil {
		return in, fmt.Errorf("%s: %w", path, err)
	}
	if len(in.Samples) == 0 {
		return in, fmt.Errorf("%s: no sample: a pipeline's latency and its node's metrics are needed over %s", path, Window+Horizon)
	}
	return in, nil
}

// Read makes samples of a CSV file's bytes, sorted by time and node. Its fields are parted by
// semicolons or commas, as its first line has it.
func Read(data []byte) ([]Sample, error) {
	first, _, _ := bytes.Cut(data, []byte("\n"))
	r := csv.NewReader(bytes.NewReader(data))
	if bytes.Contains(first, []byte(";")) {
		r.Comma = ';'
	}
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("the first line: %w", err)
	}
	at := map[string]int{}
	for i, name := range head {
		at[strings.TrimSpace(name)] = i
	}
	for _, name := range append([]string{timeColumn, nodeColumn, pipelineColumn, latencyColumn}, Metrics...) {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("no column %s", name)
		}
	}
	nodes, pipelines := map[string][]reading{}, map[[2]string][]reading{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err // says its line
		}
		line, _ := r.FieldPos(0)
		second, err := strconv.ParseInt(row[at[timeColumn]], 10, 64)
		if err != nil || second < 0 || second > 1<<40 {
			return nil, fmt.Errorf("line %d: %s: %q is no time in seconds", line, timeColumn, row[at[timeColumn]])
		}
		columns := Metrics
		if row[at[pipelineColumn]] != "" {
			columns = []string{latencyColumn}
		}
		values, err := values(row, at, columns)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if values == nil {
			continue // a gap
		}
		node := row[at[nodeColumn]]
		if row[at[pipelineColumn]] == "" {
			nodes[node] = append(nodes[node], reading{second, values})
		} else {
			key := [2]string{node, row[at[pipelineColumn]]}
			pipelines[key] = append(pipelines[key], reading{second, values})
		}
	}
	var out []Sample
	for key, latency := range pipelines {
		out = append(out, samples(key[0], ordered(nodes[key[0]]), ordered(latency))...)
	}
	slices.SortFunc(out, func(a, b Sample) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Y, b.Y))
	})
	return out, nil
}

// values of some columns; nil if one of them is empty.
func values(row []string, at map[string]int, columns []string) ([]float64, error) {
	out := make([]float64, len(columns))
	for i, name := range columns {
		text := row[at[name]]
		if text == "" {
			return nil, nil
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v-v != 0 || v < 0 {
			return nil, fmt.Errorf("%s: %q is no number of 0 or more", name, text)
		}
		out[i] = v
	}
	return out, nil
}

func ordered(r []reading) []reading {
	slices.SortStableFunc(r, func(a, b reading) int { return cmp.Compare(a.second, b.second) })
	return slices.CompactFunc(r, func(a, b reading) bool { return a.second == b.second })
}

// samples of an application on a node: one at each of its latencies.
func samples(name string, node, latency []reading) (out []Sample) {
	step := usualStep(latency)
	if step == 0 {
		return nil
	}
	want := Share * Window.Seconds() / float64(step)
	for _, now := range latency {
		before, after := now.second-int64(Window.Seconds()), now.second+int64(Horizon.Seconds())
		known := between(node, before, now.second)
		past, ahead := between(latency, before, now.second), between(latency, now.second, after)
		if min(float64(len(known)), float64(len(past)), float64(len(ahead))) < want {
			continue
		}
		s := Sample{Time: time.Unix(now.second, 0).UTC(), Node: name, Last: meanOf(past, 0), Y: meanOf(ahead, 0)}
		for i := range Metrics {
			s.X = append(s.X, meanOf(known, i), known[len(known)-1].values[i])
		}
		out = append(out, s)
	}
	return out
}

// usualStep between readings is the median, in seconds.
func usualStep(r []reading) int64 {
	if len(r) < 2 {
		return 0
	}
	var steps []int64
	for i := range r[1:] {
		steps = append(steps, r[i+1].second-r[i].second)
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}

// between are the readings after one second until another.
func between(r []reading, after, until int64) []reading {
	from, _ := slices.BinarySearchFunc(r, after+1, func(r reading, s int64) int { return cmp.Compare(r.second, s) })
	to, _ := slices.BinarySearchFunc(r, until+1, func(r reading, s int64) int { return cmp.Compare(r.second, s) })
	return r[from:to]
}

func meanOf(r []reading, i int) float64 {
	sum := 0.0
	for _, v := range r {
		sum += v.values[i]
	}
	return sum / float64(len(r))
}
