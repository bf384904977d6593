package main

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// observation is one run of wrk2 of about 30 s against the application.
type observation struct {
	start   float64 // unix seconds
	seconds float64
	load    float64 // requests answered
	mean    float64 // ms
	p99     float64 // ms
}

// readObservations reads Cilantro's log of its client, gzipped CSV.
func readObservations(file string) (_ []observation, err error) {
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	out, err := decodeObservations(unzipped)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

func decodeObservations(r io.Reader) ([]observation, error) {
	rows := csv.NewReader(r)
	header, err := rows.Read()
	if err != nil {
		return nil, err
	}
	column := map[string]int{}
	for i, name := range header {
		column[name] = i
	}
	var out []observation
	for line := 2; ; line++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var o observation
		var end float64
		for name, to := range map[string]*float64{
			"load": &o.load, "avg_latency": &o.mean, "p99": &o.p99, "event_start_time": &o.start, "event_end_time": &end,
		} {
			i, ok := column[name]
			if !ok {
				return nil, fmt.Errorf("there is no column %s", name)
			}
			if *to, err = strconv.ParseFloat(row[i], 64); err != nil {
				return nil, fmt.Errorf("line %d: %s: %w", line, name, err)
			}
		}
		o.seconds = end - o.start
		if o.seconds <= 0 || o.load <= 0 || o.mean <= 0 || o.p99 <= 0 {
			continue // wrk2 printed nothing that could be parsed (−1), or never ran
		}
		out = append(out, o)
	}
}
