// Command k6 writes the built-in scenarios as scripts of k6, beside this file:
//
//	go run ./experiments/k6
//
// make k6-scripts runs it, and a test holds scripts and scenarios the same.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

func main() {
	out := flag.String("out", "experiments/k6", "folder to write the scripts into")
	from := flag.String("scenarios", "experiments/scenarios", "folder with the scenarios' files")
	flag.Parse()
	if err := writeAll(*from, *out); err != nil {
		fmt.Fprintln(os.Stderr, "k6:", err)
		os.Exit(1)
	}
}

func writeAll(from, out string) error {
	names, err := scripted(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		s, err := load(from, name)
		if err != nil {
			return err
		}
		text, err := script(s)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name+".js"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// scripted are the scenarios that are scripts too. A script reads one trace: those are not whose
// types of users have traces of their own.
func scripted(from string) ([]string, error) {
	var out []string
	for _, name := range scenarios.Names() {
		s, err := load(from, name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(s.Users, func(u scenarios.UserType) bool { return u.Arrivals != nil }) {
			out = append(out, name)
		}
	}
	return out, nil
}

// load reads a scenario without the traces that it names: a script reads its own.
func load(from, name string) (scenarios.Scenario, error) {
	file := filepath.Join(from, name+".yaml")
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return scenarios.Scenario{}, err
	}
	return scenarios.Parse(file, data)
}
