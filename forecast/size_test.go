package forecast

import (
	"fmt"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
)

// heldBy is how many bytes v refers to, each stretch of memory counted once, but for
// what of spares them.
func heldBy(v any, spare ...any) int {
	seen := map[unsafe.Pointer]bool{}
	for _, s := range spare {
		sizeOf(reflect.ValueOf(s), seen)
	}
	return sizeOf(reflect.ValueOf(v), seen)
}

func sizeOf(v reflect.Value, seen map[unsafe.Pointer]bool) (bytes int) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.UnsafePointer()] {
			return 0
		}
		seen[v.UnsafePointer()] = true
		if v.Type() == reflect.TypeFor[*time.Location]() {
			return 0
		}
		return int(v.Type().Elem().Size()) + sizeOf(v.Elem(), seen)
	case reflect.Slice:
		if v.Cap() == 0 || seen[v.UnsafePointer()] {
			return 0
		}
		seen[v.UnsafePointer()] = true
		bytes = v.Cap() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			bytes += sizeOf(v.Index(i), seen)
		}
	case reflect.Map:
		if v.IsNil() || seen[v.UnsafePointer()] {
			return 0
		}
		seen[v.UnsafePointer()] = true
		for _, k := range v.MapKeys() {
			// A key, a value and a byte each, in groups that are up to half empty.
			bytes += 2 * int(1+v.Type().Key().Size()+v.Type().Elem().Size())
			bytes += sizeOf(k, seen) + sizeOf(v.MapIndex(k), seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			bytes += sizeOf(v.Field(i), seen)
		}
	case reflect.String:
		bytes = v.Len()
	case reflect.Interface:
		if !v.IsNil() {
			return sizeOf(v.Elem(), seen)
		}
	}
	return bytes
}

// What the operator keeps of a workload besides its samples is at most 200 KiB, by
// either forecaster, with all that may be remembered: four weeks, and paths for as
// long as a season of any length needs them.
func TestStateIsSmall(t *testing.T) {
	const n, horizon, most = 5760, 64, 200 << 10
	month := month(10*time.Minute, 0)
	for _, f := range []Forecaster{Auto{Portfolio: true}, Auto{}} {
		for name, load := range map[string]func(float64) float64{
			"a season of ten minutes": forecasttest.Sine(600, 100, 50), "of two hours": forecasttest.Sine(7200, 100, 50), "of a day": forecasttest.Sine(86400, 100, 50), "none": func(float64) float64 { return 100 },
		} {
			t.Run(fmt.Sprint(f.Name(), " ", name), func(t *testing.T) {
				long := forecasttest.Sampled(load, 30*time.Second, n+700, 0.02, 10, 0.01, 1)
				long.Past = &api.Series{Start: long.Start.Add(-26 * 24 * time.Hour), Step: 10 * time.Minute, Values: month.Values[:26*144+6]}
				g := Guarded(f)
				s := NewState("a")
				largest := 0
				for i := range 700 {
					window := windowOf(long, i, n)
					var err error
					if s, err = g.Update(s, window, horizon); err != nil {
						t.Fatal(err)
					}
					if i%50 == 49 {
						largest = max(largest, heldBy(s, window))
					}
				}
				t.Logf("%d KiB; fold %d, said %d, play %d, kept %d + %d + %d, promises %d; %s", largest>>10,
					heldBy(s.Fold)>>10, heldBy(s.said)>>10, heldBy(s.play)>>10, heldBy(s.kept)>>10, heldBy(s.keptLong)>>10, heldBy(s.keptLast)>>10, heldBy(s.Record)>>10, s.Model)
				if largest > most || largest < 1<<10 {
					t.Errorf("%d KiB, want %d at most", largest>>10, most>>10)
				}
			})
		}
	}
}
