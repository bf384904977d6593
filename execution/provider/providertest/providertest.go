// Package providertest is the suite that every provider of node pools passes.
package providertest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/provider"
)

// World is a provider with pools behind it that the suite may change.
type World struct {
	Provider provider.Provider
	// Pool has a node in each of its zones and room for another, and nothing
	// that keeps its nodes from being removed. Other is a pool of one node more.
	Pool, Other string
	// Nodes are those of a pool that are there now, with everything that a
	// RemoveNode says of them.
	Nodes func(pool string) []api.RemoveNode
	// Faults make the next resize of Pool fail with the error that is their key.
	Faults map[error]func()
}

// Run holds the provider to what package provider says. start makes a fresh
// world for each test.
func Run(t *testing.T, start func(t *testing.T) *World) {
	t.Helper()
	for name, test := range map[string]func(*suite){
		"pools are well formed and in order":              (*suite).pools,
		"a resize is per zone, and asking twice is once":  (*suite).resize,
		"when a resize began is told":                     (*suite).resizedAt,
		"exactly the named node is removed":               (*suite).remove,
		"strangers are refused":                           (*suite).strangers,
		"other actions are refused":                       (*suite).otherActions,
		"a context that has ended ends the call":          (*suite).ended,
		"each failure is told by one error and no change": (*suite).faults,
		"read-only, it changes nothing":                   (*suite).readOnly,
	} {
		t.Run(name, func(t *testing.T) { test(&suite{t, start(t)}) })
	}
}

type suite struct {
	*testing.T
	*World
}

func (s *suite) all() []api.Pool {
	s.Helper()
	pools, err := s.Provider.Pools(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return pools
}

func (s *suite) pool(name string) api.Pool {
	s.Helper()
	for _, p := range s.all() {
		if p.Name == name {
			return p
		}
	}
	s.Fatalf("there is no pool %s", name)
	return api.Pool{}
}

// until waits for a pool to be as wanted.
func (s *suite) until(name, what string, ok func(api.Pool) bool) api.Pool {
	s.Helper()
	for range 3000 {
		if p := s.pool(name); ok(p) {
			return p
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.Fatalf("pool %s is never %s: %+v", name, what, s.pool(name))
	return api.Pool{}
}

func idle(p api.Pool) bool { return p.Hold == "" }

func (s *suite) apply(a api.Action) {
	s.Helper()
	if err := s.Provider.Apply(s.Context(), a); err != nil {
		s.Fatalf("%s: %v", a, err)
	}
}

func (s *suite) pools() {
	pools := s.all()
	if !slices.IsSortedFunc(pools, func(a, b api.Pool) int { return strings.Compare(a.Name, b.Name) }) {
		s.Errorf("not in order of name: %v", pools)
	}
	for _, p := range pools {
		if p.Name == "" || p.MachineType == "" || len(p.Zones) == 0 || len(p.Zones) != len(p.Sizes) || !slices.IsSorted(p.Zones) {
			s.Errorf("pool %q of %q has zones %v and sizes %v", p.Name, p.MachineType, p.Zones, p.Sizes)
		}
		if !(p.Price > 0) || math.IsInf(p.Price, 0) || !(p.CPUSpeed > 0) || math.IsInf(p.CPUSpeed, 0) {
			s.Errorf("pool %s costs %v USD/h at speed %v", p.Name, p.Price, p.CPUSpeed)
		}
		if p.Allocatable.MilliCPU <= 0 || p.Allocatable.Memory <= 0 || p.Allocatable.Pods <= 0 {
			s.Errorf("pool %s: a node of it has %+v", p.Name, p.Allocatable)
		}
		for _, n := range p.Sizes {
			if n < 0 || p.MaxPerZone > 0 && n > p.MaxPerZone || n < p.MinPerZone {
				s.Errorf("pool %s: sizes %v beyond %d to %d", p.Name, p.Sizes, p.MinPerZone, p.MaxPerZone)
			}
		}
	}
	if diff := cmp.Diff(pools, s.all()); diff != "" {
		s.Errorf("read again, without a change between:\n%s", diff)
	}
	if n := len(s.Nodes(s.Pool)); n != int(s.pool(s.Pool).Nodes()) {
		s.Errorf("pool %s has %d nodes, and says %d", s.Pool, n, s.pool(s.Pool).Nodes())
	}
}

func (s *suite) resize() {
	before, other := s.pool(s.Pool), s.pool(s.Other)
	to := slices.Max(before.Sizes) + 1
	resize := api.ResizePool{Pool: s.Pool, From: to - 1, To: to}
	s.apply(resize)
	sizes := slices.Repeat([]int32{to}, len(before.Zones))
	s.until(s.Pool, "as large as asked for, and idle", func(p api.Pool) bool { return idle(p) && slices.Equal(p.Sizes, sizes) })
	s.apply(resize)
	p := s.until(s.Pool, "idle", idle)
	if diff := cmp.Diff(sizes, p.Sizes); diff != "" {
		s.Errorf("sizes after asking twice (-want +got):\n%s", diff)
	}
	// A node that has come since pools were read is known when they are read again.
	s.until(s.Pool, "complete, each node known to be of it", func(api.Pool) bool {
		nodes := s.Nodes(s.Pool)
		for _, n := range nodes {
			if !s.Provider.Owns(s.Pool, n.ProviderID) {
				return false
			}
		}
		return len(nodes) == int(to)*len(sizes)
	})
	if diff := cmp.Diff(other.Sizes, s.pool(s.Other).Sizes); diff != "" {
		s.Errorf("the other pool has changed:\n%s", diff)
	}
	// All the way down, as after a move to another pool.
	s.apply(api.ResizePool{Pool: s.Pool, From: to, To: 0})
	s.until(s.Pool, "empty", func(p api.Pool) bool { return p.Nodes() == 0 && len(s.Nodes(s.Pool)) == 0 })
}

// resizedAt: how long nodes have been coming can be told, so that they can be given
// up.
func (s *suite) resizedAt() {
	size := slices.Max(s.pool(s.Pool).Sizes)
	var before time.Time
	for range 2 {
		time.Sleep(1100 * time.Millisecond) // times are told in seconds
		size++
		s.apply(api.ResizePool{Pool: s.Pool, From: size - 1, To: size})
		p := s.until(s.Pool, "as large as asked for, and idle", func(p api.Pool) bool { return idle(p) && slices.Max(p.Sizes) == size })
		if at := p.ResizedAt; !at.After(before) || time.Since(at).Abs() > time.Minute {
			s.Errorf("resized at %v and before at %v, now it is %v", at, before, time.Now())
		}
		before = p.ResizedAt
	}
	if at := s.pool(s.Pool).ResizedAt; !at.Equal(before) {
		s.Errorf("read again, it was resized at %v, not %v", at, before)
	}
}

func (s *suite) remove() {
	nodes := s.Nodes(s.Pool)
	gone := nodes[0]
	before := s.pool(s.Pool)
	for range 2 { // again while it is going
		s.apply(gone)
	}
	after := s.until(s.Pool, "smaller", func(p api.Pool) bool { return idle(p) && p.Nodes() < before.Nodes() })
	s.until(s.Pool, "without it", func(p api.Pool) bool {
		return len(p.Deleting) == 0 && !slices.ContainsFunc(s.Nodes(s.Pool), func(n api.RemoveNode) bool { return n.Node == gone.Node })
	})
	s.apply(gone) // again when it is gone
	want := slices.Clone(before.Sizes)
	want[slices.Index(before.Zones, gone.Zone)]--
	if diff := cmp.Diff(want, after.Sizes); diff != "" {
		s.Errorf("sizes (-want +got):\n%s", diff)
	}
	left := s.Nodes(s.Pool)
	if len(left) != len(nodes)-1 {
		s.Errorf("%d of %d nodes are left", len(left), len(nodes))
	}
}

func (s *suite) strangers() {
	if err := s.Provider.Apply(s.Context(), api.ResizePool{Pool: "no-such-pool", To: 1}); !errors.Is(err, provider.ErrNotFound) {
		s.Errorf("resizing no pool: %v, want %v", err, provider.ErrNotFound)
	}
	s.all()
	mine, theirs := s.Nodes(s.Pool), s.Nodes(s.Other)
	wrong := theirs[0]
	wrong.Pool = s.Pool
	if err := s.Provider.Apply(s.Context(), wrong); err == nil {
		s.Errorf("%s was accepted, which is of pool %s", wrong, s.Other)
	}
	unknown := mine[0]
	unknown.ProviderID = "abc://no/such/machine"
	if err := s.Provider.Apply(s.Context(), unknown); err == nil {
		s.Errorf("%s with provider id %s was accepted", unknown, unknown.ProviderID)
	}
	for _, c := range []struct {
		pool, id string
		want     bool
	}{
		{s.Pool, mine[0].ProviderID, true}, {s.Other, theirs[0].ProviderID, true},
		{s.Other, mine[0].ProviderID, false}, {s.Pool, "", false}, {s.Pool, "abc://no/such/machine", false}, {"no-such-pool", mine[0].ProviderID, false},
	} {
		if got := s.Provider.Owns(c.pool, c.id); got != c.want {
			s.Errorf("Owns(%s, %q) = %v", c.pool, c.id, got)
		}
	}
	if len(s.Nodes(s.Pool)) != len(mine) || len(s.Nodes(s.Other)) != len(theirs) {
		s.Error("a node has gone")
	}
}

func (s *suite) otherActions() {
	for _, a := range []api.Action{
		api.CordonNode{Node: s.Nodes(s.Pool)[0].Node, For: api.CordonShrink}, api.ScaleWorkload{To: 1}, api.EvictPod{},
	} {
		if err := s.Provider.Apply(s.Context(), a); err == nil {
			s.Errorf("%s was accepted", a)
		}
	}
}

func (s *suite) ended() {
	before := s.pool(s.Pool)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.Provider.Pools(ctx); err == nil {
		s.Error("pools were read")
	}
	if err := s.Provider.Apply(ctx, api.ResizePool{Pool: s.Pool, To: slices.Max(before.Sizes) + 1}); err == nil {
		s.Error("a pool was resized")
	}
	if diff := cmp.Diff(before.Sizes, s.pool(s.Pool).Sizes); diff != "" {
		s.Errorf("sizes have changed:\n%s", diff)
	}
}

func (s *suite) faults() {
	if len(s.Faults) == 0 {
		s.Fatal("the world has no faults: nothing is tested")
	}
	before := s.pool(s.Pool)
	to := slices.Max(before.Sizes) + 1
	for want, fail := range s.Faults {
		fail()
		err := s.Provider.Apply(s.Context(), api.ResizePool{Pool: s.Pool, From: to - 1, To: to})
		for _, sentinel := range provider.Sentinels() {
			if errors.Is(err, sentinel) != (sentinel == want) { //nolint:errorlint // which of them it is
				s.Errorf("%v: is it %q? %v", err, sentinel, errors.Is(err, sentinel))
			}
		}
		if diff := cmp.Diff(before.Sizes, s.pool(s.Pool).Sizes); diff != "" {
			s.Errorf("%v, and yet:\n%s", err, diff)
		}
	}
}

func (s *suite) readOnly() {
	p := provider.ReadOnly{Provider: s.Provider}
	before := s.all()
	pools, err := p.Pools(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for i, pool := range pools {
		if pool.Hold == "" || pool.Name != before[i].Name || pool.Nodes() != before[i].Nodes() {
			s.Errorf("%+v", pool)
		}
	}
	for _, a := range []api.Action{s.Nodes(s.Pool)[0], api.ResizePool{Pool: s.Pool, To: 2}} {
		if err := p.Apply(s.Context(), a); !errors.Is(err, provider.ErrReadOnly) {
			s.Errorf("%s: %v, want %v", a, err, provider.ErrReadOnly)
		}
	}
	if diff := cmp.Diff(before, s.all()); diff != "" {
		s.Errorf("something has changed:\n%s", diff)
	}
	if id := s.Nodes(s.Pool)[0].ProviderID; !p.Owns(s.Pool, id) {
		s.Errorf("%s is not known", id)
	}
}
