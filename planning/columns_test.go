package planning_test

import (
	"bytes"
	"cmp"
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/record/delta"
)

var columns = flag.Bool("record.columns", false, "list what the bytes of a record consist of")

// BenchmarkRecordColumns lists which fields the bytes of a record are of, with
// -record.columns: plain, and compressed by themselves.
func BenchmarkRecordColumns(b *testing.B) {
	if !*columns {
		b.Skip("without -record.columns")
	}
	w := newLogged(b, 1000, true)
	e, err := delta.NewEncoder[api.Record]()
	if err != nil {
		b.Fatal(err)
	}
	type column struct {
		z             *zstd.Encoder
		out           bytes.Buffer
		plain, packed int
	}
	all := map[string]*column{}
	var before *api.Record
	cycles := 0
	one := func(count bool) {
		s := w.snapshot()
		plan, m := w.planner.Plan(s, w.policy, w.memory)
		r := api.Record{Snapshot: s, Cycle: api.Cycle{ID: uint64(cycles), Time: s.Time, Policy: w.policy, Plan: record.Brief(plan), Findings: plan.Findings}}
		w.carry(plan, m)
		written, err := e.Columns(before, &r)
		if err != nil {
			b.Fatal(err)
		}
		for name, bytes := range written {
			c := all[name]
			if c == nil {
				c = &column{}
				if c.z, err = zstd.NewWriter(&c.out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false)); err != nil {
					b.Fatal(err)
				}
				all[name] = c
			}
			c.out.Reset()
			if _, err := c.z.Write(bytes); err != nil {
				b.Fatal(err)
			}
			if err := c.z.Flush(); err != nil {
				b.Fatal(err)
			}
			if count {
				c.plain, c.packed = c.plain+len(bytes), c.packed+c.out.Len()
			}
		}
		if count {
			cycles++
		}
		before = &r
	}
	one(false)
	one(false)
	for b.Loop() {
		for range 16 {
			one(true)
		}
	}
	names := slices.SortedFunc(maps.Keys(all), func(x, y string) int { return cmp.Compare(all[y].packed, all[x].packed) })
	sum := 0
	for _, name := range names {
		if c := all[name]; c.packed >= 50*cycles {
			b.Logf("%8d B plain %8d B compressed  %s", c.plain/cycles, c.packed/cycles, name)
		}
		sum += all[name].packed / cycles
	}
	b.ReportMetric(float64(sum), "B/record")
}
