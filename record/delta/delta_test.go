package delta_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/record/delta"
	"github.com/mash2-io/mash2/record/delta/filltest"
)

type shape struct {
	ID     string
	Labels map[string]string
}

type pod struct {
	Key    struct{ Namespace, Name string }
	Shape  *shape
	Zones  []string
	hidden []int16 //nolint:unused // filled and read by reflection
	At     time.Time
}

type animal interface{ animal() }

type cat struct{ Lives int8 }
type dog struct{ Bones map[int]float32 }

func (cat) animal() {}
func (dog) animal() {}

type world struct {
	Time    time.Time
	Pods    []pod
	Values  []float64
	Past    *world
	Pairs   [2][3]float64
	Counts  map[struct{ Namespace, Name string }]uint16
	Animals []animal
	Deep    [][]float32
	Ptr     *float64
	B       []byte
	Flag    bool
}

func init() {
	delta.Register("delta_test.cat", cat{})
	delta.Register("delta_test.dog", dog{})
}

func filler(seed uint64) filltest.Filler {
	r := rand.New(rand.NewPCG(seed, 1))
	return filltest.Filler{Rand: r, Any: func(reflect.Type) any {
		switch r.IntN(3) {
		case 0:
			return cat{int8(r.IntN(9))}
		case 1:
			return dog{map[int]float32{r.IntN(3): r.Float32()}}
		}
		return nil
	}}
}

var exact = cmp.Options{
	cmp.AllowUnexported(world{}, pod{}, shape{}, cat{}, dog{}),
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
}

// TestLossless: whatever a value is, and whatever it was before, it comes back.
func TestLossless(t *testing.T) {
	e, err := delta.NewEncoder[world]()
	if err != nil {
		t.Fatal(err)
	}
	d, err := delta.NewDecoder[world](e.Schema())
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(300) {
		f := filler(seed)
		var was, read *world
		now := world{}
		f.Fill(&now)
		for step := range 6 {
			b, err := e.Append(nil, was, &now)
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Decode(b, read)
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if diff := cmp.Diff(now, got, exact); diff != "" {
				t.Fatalf("seed %d, step %d:\n%s", seed, step, diff)
			}
			if again, _ := e.Append(nil, was, &now); string(again) != string(b) {
				t.Fatalf("seed %d, step %d: two encodings of one value", seed, step)
			}
			kept := now
			was, read = &kept, &got
			f.Change(&now)
		}
	}
}

// TestExact: two values have the same exact form only if they are the same.
func TestExact(t *testing.T) {
	e, err := delta.NewEncoder[world]()
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for seed := range uint64(300) {
		f := filler(seed)
		was := world{}
		f.Fill(&was)
		now := was
		f.Change(&now)
		a, err := e.AppendExact(nil, &was)
		if err != nil {
			t.Fatal(err)
		}
		b, err := e.AppendExact(nil, &now)
		if err != nil {
			t.Fatal(err)
		}
		if (string(a) == string(b)) != cmp.Equal(was, now, exact) {
			t.Fatalf("seed %d: the same %v, in the exact form %v", seed, string(a) != string(b), string(a) == string(b))
		}
		if string(a) == string(b) {
			same++
		}
	}
	t.Logf("%d of 300 were the same", same)
}

// TestTexts: texts that differ in numbers only, and numbers of all lengths.
func TestTexts(t *testing.T) {
	e, err := delta.NewEncoder[string]()
	if err != nil {
		t.Fatal(err)
	}
	d, err := delta.NewDecoder[string](e.Schema())
	if err != nil {
		t.Fatal(err)
	}
	all := []string{
		"", "0", "00", "007", "7", "10", "9", "a 9", "a 10", "a 010", "a 9 b", "at 12:00:15 needs 4 × 170m", "at 09:59:00 needs 12 × 5m",
		"at 09:59:00 needs", "1 2 3", "4 5 6", "4 5 6 7", "a 999999999999999999", "a 1", "a 9999999999999999999", "a 18446744073709551617",
		"a \x00 1", "a \x00 2", "\x00", "é 1→2", "é 2→1", " ", "  ",
	}
	for _, was := range all {
		for _, now := range all {
			b, err := e.Append(nil, &was, &now)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := d.Decode(b, &was); err != nil || got != now {
				t.Errorf("%q after %q came back as %q, %v", now, was, got, err)
			}
		}
	}
}

// TestWhatChangesIsWritten: a value of which little changes takes few bytes.
func TestWhatChangesIsWritten(t *testing.T) {
	e, err := delta.NewEncoder[world]()
	if err != nil {
		t.Fatal(err)
	}
	one := world{Values: make([]float64, 1000)}
	for i := range one.Values {
		one.Values[i] = float64(i) + 0.123
	}
	for i := range 100 {
		one.Pods = append(one.Pods, pod{Key: struct{ Namespace, Name string }{"shop", strings.Repeat("x", i)}, At: time.Unix(int64(i), 0)})
	}
	slid := one
	slid.Values = append(append([]float64(nil), one.Values[3:]...), 7.5)
	gone := one
	gone.Pods = append(append([]pod(nil), one.Pods[:40]...), one.Pods[41:]...)
	for name, c := range map[string]struct {
		now  world
		want int // bytes, at most
	}{
		// How many streams there are and, for each, which one it is and its length; then
		// what is in them.
		"nothing":                      {one, 1 + 2 + 2},                              // fields
		"a head cut off, one appended": {slid, 1 + 4*2 + 2 + (2 + 2 + 2 + 2) + 1 + 8}, // fields; length, skip, copy, new; a float's length; its digits
		"an element gone":              {gone, 1 + 2*2 + 2 + (1 + 2 + 1 + 2)},         // fields; length, copy, skip, copy
	} {
		t.Run(name, func(t *testing.T) {
			b, err := e.Append(nil, &one, &c.now)
			if err != nil {
				t.Fatal(err)
			}
			if len(b) > c.want {
				t.Errorf("%d bytes, want %d at most", len(b), c.want)
			}
		})
	}
}

// TestOtherVersion: a type that has gained, lost and changed fields reads what it
// knows.
func TestOtherVersion(t *testing.T) {
	type inner struct {
		Name string
		Old  map[string][]int
		Size int32
	}
	type before struct {
		Gone  [2]inner
		Items []inner
		Kind  string
		Same  float64
	}
	type innerNow struct {
		Size int64
		Name string
		New  *time.Time
	}
	type after struct {
		Same  float64
		Items []innerNow
		Kind  []string
		More  map[string]int
	}
	e, err := delta.NewEncoder[before]()
	if err != nil {
		t.Fatal(err)
	}
	d, err := delta.NewDecoder[after](e.Schema())
	if err != nil {
		t.Fatal(err)
	}
	one := before{Gone: [2]inner{{Name: "x"}}, Items: []inner{{"a", map[string][]int{"k": {1}}, 3}, {"b", nil, 4}}, Kind: "k", Same: 1.5}
	two := before{Items: []inner{{"b", map[string][]int{"k": {2, 3}}, 5}}, Same: 2.5}
	b, err := e.Append(nil, nil, &one)
	if err != nil {
		t.Fatal(err)
	}
	first, err := d.Decode(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = e.Append(nil, &one, &two); err != nil {
		t.Fatal(err)
	}
	second, err := d.Decode(b, &first)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]after{
		{Same: 1.5, Items: []innerNow{{Name: "a", Size: 3}, {Name: "b", Size: 4}}},
		{Same: 2.5, Items: []innerNow{{Name: "b", Size: 5}}},
	}, []after{first, second}); diff != "" {
		t.Error(diff)
	}
}

func TestRefused(t *testing.T) {
	if _, err := delta.NewEncoder[struct{ F func() }](); err == nil || !strings.Contains(err.Error(), "F is a func()") {
		t.Errorf("a function: %v", err)
	}
	e, err := delta.NewEncoder[struct{ A any }]()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Append(nil, nil, &struct{ A any }{struct{ X int }{1}}); err == nil || !strings.Contains(err.Error(), "was not registered") {
		t.Errorf("an unregistered type: %v", err)
	}
	if _, err := delta.NewDecoder[int](e.Schema()); err == nil {
		t.Error("a number was read from the schema of a struct")
	}
}

// FuzzDecode: whatever the bytes, a Decoder returns a value or ErrDamaged.
func FuzzDecode(f *testing.F) {
	e, err := delta.NewEncoder[world]()
	if err != nil {
		f.Fatal(err)
	}
	d, err := delta.NewDecoder[world](e.Schema())
	if err != nil {
		f.Fatal(err)
	}
	var was world
	filler(1).Fill(&was)
	for seed := range uint64(20) {
		var now world
		filler(seed).Fill(&now)
		b, err := e.Append(nil, &was, &now)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := d.Decode(b, &was); err != nil && !errors.Is(err, delta.ErrDamaged) {
			t.Fatal(err)
		}
	})
}

// FuzzSchema: whatever the schema, it is read or refused.
func FuzzSchema(f *testing.F) {
	e, err := delta.NewEncoder[world]()
	if err != nil {
		f.Fatal(err)
	}
	var now world
	filler(1).Fill(&now)
	b, err := e.Append(nil, nil, &now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.Schema(), b)
	f.Fuzz(func(_ *testing.T, schema, b []byte) {
		if d, err := delta.NewDecoder[world](schema); err == nil {
			_, _ = d.Decode(b, nil)
		}
	})
}
