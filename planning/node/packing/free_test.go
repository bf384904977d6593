package packing

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestFree: the next bin with room is the one that asking them in order finds, whatever was
// added, filled and emptied before.
func TestFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.IntRange(1, 3).Draw(t, "dims")
		vector := rapid.SliceOfN(rapid.Int64Range(-1, 5), dims, dims)
		f, bins := NewFree(dims), [][]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			v := vector.Draw(t, "vector")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				bins = append(bins, v)
				f.Add(v)
			case 1:
				if len(bins) > 0 {
					i := rapid.IntRange(0, len(bins)-1).Draw(t, "bin")
					bins[i] = v
					f.Set(i, v)
				}
			default:
				from := rapid.IntRange(0, len(bins)+1).Draw(t, "from")
				want := -1
				if from < len(bins) {
					if at := slices.IndexFunc(bins[from:], func(free []int64) bool { return copies(v, free) > 0 }); at >= 0 {
						want = from + at
					}
				}
				if got := f.Next(from, v); got != want {
					t.Fatalf("from %d, %v has room in bin %d, want %d: %v", from, v, got, want, bins)
				}
			}
		}
	})
}
