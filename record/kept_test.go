package record

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mash2-io/mash2/record/delta"
)

// TestParts: parts of one whole come together, and nothing else does: not with one
// missing, damaged, cut off or of another time.
func TestParts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	for _, n := range []int{0, 1, 87, 88, 89, 176, 177, 1000} { // 88 of 100 bytes are left
		whole := random(n)
		parts := Split(whole, 100)
		if want := max(1, (n+87)/88); len(parts) != want {
			t.Errorf("%d bytes have %d parts, want %d", n, len(parts), want)
		}
		for _, p := range parts {
			if len(p) > 100 {
				t.Errorf("a part has %d bytes", len(p))
			}
		}
		if got, err := Join(parts); err != nil || !bytes.Equal(got, whole) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if got, err := Join(append(slices.Clone(parts), Split(random(300), 100)...)); err != nil || !bytes.Equal(got, whole) {
			t.Errorf("%d bytes and parts of a larger one before it: %v", n, err)
		}
		other := Split(random(n), 100)
		for i := range parts {
			for name, bad := range map[string][][]byte{
				"one is missing":    slices.Delete(slices.Clone(parts), i, i+1),
				"one is of another": slices.Replace(slices.Clone(parts), i, i+1, other[i]),
				"one is cut off":    slices.Replace(slices.Clone(parts), i, i+1, parts[i][:len(parts[i])-1]),
				"one is damaged":    slices.Replace(slices.Clone(parts), i, i+1, flipped(parts[i], r.IntN(len(parts[i])))),
				"one is empty":      slices.Replace(slices.Clone(parts), i, i+1, nil),
			} {
				if len(parts) == 1 && name == "one is of another" {
					continue // a whole
				}
				if got, err := Join(bad); !errors.Is(err, ErrParts) {
					t.Errorf("%d bytes, part %d: %s: %d bytes, %v", n, i, name, len(got), err)
				}
			}
		}
	}
}

// TestCodec: whatever is cut off or damaged is refused.
func TestCodec(t *testing.T) {
	c, err := NewCodec[[]string]("v1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Encode([]string{"a", "b"}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if v, at, err := c.Decode(b); err != nil || !at.Equal(epoch) || !slices.Equal(v, []string{"a", "b"}) {
		t.Errorf("%v at %v, %v", v, at.Format(time.RFC3339), err)
	}
	for i := range b {
		if _, _, err := c.Decode(b[:i]); err == nil {
			t.Errorf("%d of %d bytes are read", i, len(b))
		}
		if _, _, err := c.Decode(flipped(b, i)); err == nil {
			t.Errorf("it is read although byte %d is wrong", i)
		}
	}
}

// TestCodecBomb: a few bytes that stand for a great many are refused.
func TestCodecBomb(t *testing.T) {
	c, err := NewCodec[[]string]("v1")
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := `{"format":` + strconv.Itoa(Format) + `,"schema":` + string(c.encoder.Schema()) + `}`
	b := appendFrame(appendFrame([]byte(checkpointMagic), []byte(h)), z.EncodeAll(make([]byte, leastPlain+1), nil))
	if _, _, err := c.Decode(b); !errors.Is(err, delta.ErrDamaged) || !strings.Contains(err.Error(), "stand for more") {
		t.Errorf("%d bytes: %v", len(b), err)
	}
}
