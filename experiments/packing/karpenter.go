package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/mash2-io/mash2/planning/node"
)

// launched is what the program of experiments/karpenter answers.
type launched struct {
	Version    string         `json:"version"`
	CPUSeconds float64        `json:"cpuSeconds"` // of the scheduler's Solve alone
	Seconds    float64        `json:"seconds"`
	Nodes      int            `json:"nodes"`
	Cost       float64        `json:"cost"`
	Unplaced   map[string]int `json:"unplaced"`
	Loads      []struct {
		Type string           `json:"type"`
		Pods map[string]int32 `json:"pods"`
	} `json:"loads"`
}

// byProgram is what the provisioning scheduler of Karpenter itself launches for the
// pods of a problem without nodes and without rules on where pods may go. The packing
// it answers with is checked, and priced, as our own are.
func byProgram(program string, p node.Problem) (measured, error) {
	cmd := exec.Command(program, "pack")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(document(p)), os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return measured{}, fmt.Errorf("%s pack: %w", program, err)
	}
	var a launched
	if err := json.Unmarshal(text, &a); err != nil {
		return measured{}, fmt.Errorf("%s pack: %w", program, err)
	}
	k, err := a.packing(p)
	if err != nil {
		return measured{}, fmt.Errorf("what Karpenter %s answers: %w", a.Version, err)
	}
	return measured{k, a.CPUSeconds}, nil
}

// packing is the answer in the terms of a problem; an error when it violates it.
func (a *launched) packing(p node.Problem) (node.Packing, error) {
	k := node.Packing{Solver: "karpenter " + a.Version, Unplaced: make([]int32, len(p.Items))}
	for i, it := range p.Items {
		k.Unplaced[i] = int32(a.Unplaced[it.Name])
	}
	for _, l := range a.Loads {
		t := slices.IndexFunc(p.Types, func(t node.Type) bool { return t.Name == l.Type })
		if t < 0 {
			return k, fmt.Errorf("launches a %q, which there is not", l.Type)
		}
		one := node.Load{Type: t, Nodes: 1}
		pods := int32(0)
		for i, it := range p.Items {
			if n := l.Pods[it.Name]; n > 0 {
				one.Pods = append(one.Pods, node.Share{Item: i, Count: n})
				pods += n
			}
		}
		for _, n := range l.Pods {
			pods -= n
		}
		if pods != 0 {
			return k, fmt.Errorf("packs pods that were not asked for on a %s", l.Type)
		}
		k.Loads = append(k.Loads, one)
		k.Cost += p.Types[t].Price
	}
	return k, p.Check(k)
}

// document is a problem as "mash2 pack" reads it, as far as generate draws them.
func document(p node.Problem) []byte {
	type object = map[string]any
	var pods, types []object
	for _, it := range p.Items {
		pods = append(pods, object{"name": it.Name, "count": it.Count, "cpu": fmt.Sprintf("%dm", it.Requests.MilliCPU), "memory": fmt.Sprint(it.Requests.Memory)})
	}
	for _, t := range p.Types {
		types = append(types, object{"name": t.Name, "cpu": fmt.Sprintf("%dm", t.Capacity.MilliCPU), "memory": fmt.Sprint(t.Capacity.Memory),
			"maxPods": t.Capacity.Pods, "price": t.Price})
	}
	text, err := json.Marshal(object{"pods": pods, "nodeTypes": types})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return text
}
