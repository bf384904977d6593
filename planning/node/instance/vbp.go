package instance

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node"
)

// Bounds of a .vbp file: beyond them it is a mistake.
const (
	maxDimensions = 64
	maxKinds      = 1_000_000
)

// VBP reads a problem in the format of vector bin packing. Errors wrap ErrInput
// and name the line.
func VBP(text []byte) (node.Problem, error) {
	r := words{lines: bufio.NewScanner(bytes.NewReader(text))}
	r.lines.Buffer(nil, 1<<20)
	dims := r.next("number of dimensions", 1, maxDimensions)
	capacity := r.vector(int(dims), "capacity", 0)
	kinds := r.next("number of kinds of items", 0, maxKinds)
	p := node.Problem{Types: []node.Type{{Name: "bin", Capacity: capacity, Price: 1, Max: node.Unlimited}}}
	var total int64
	for n := int64(0); n < kinds && r.err == nil; n++ {
		what := fmt.Sprintf("size of item %d", n+1)
		size := r.vector(int(dims), what, -most)
		count := r.next(fmt.Sprintf("count of item %d", n+1), 0, most)
		if total += count; total > 1<<29 {
			r.fail("more than %d items", 1<<29)
		}
		p.Items = append(p.Items, node.Item{Name: fmt.Sprintf("item-%d", n+1), Requests: size, Count: int32(count)})
	}
	if r.err == nil {
		if word, ok := r.word(); ok {
			r.fail("%q after the last item", word)
		}
	}
	if r.err != nil {
		return node.Problem{}, r.err
	}
	return p, nil
}

// words reads integers one after the other and remembers the first error.
type words struct {
	lines *bufio.Scanner
	line  int
	rest  [][]byte
	err   error
}

func (r *words) fail(format string, args ...any) {
	if r.err == nil {
		r.err = wrong(max(r.line, 1), format, args...)
	}
}

func (r *words) word() (string, bool) {
	for len(r.rest) == 0 {
		if !r.lines.Scan() {
			if err := r.lines.Err(); err != nil {
				r.fail("%v", err)
			}
			return "", false
		}
		r.line++
		r.rest = bytes.Fields(r.lines.Bytes())
	}
	w := string(r.rest[0])
	r.rest = r.rest[1:]
	return w, true
}

func (r *words) next(what string, low, high int64) int64 {
	if r.err != nil {
		return 0
	}
	word, ok := r.word()
	if !ok {
		r.fail("the file ends before the %s", what)
		return 0
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < low || n > high {
		r.fail("%s: %q is no integer from %d to %d", what, word, low, high)
		return 0
	}
	return n
}

// vector reads a size: dimensions have no names, so these are made up.
func (r *words) vector(dims int, what string, low int64) api.Resources {
	out := api.Resources{Extended: make(map[string]int64, dims)}
	for d := range dims {
		if n := r.next(what, low, most); r.err == nil {
			out.Extended[fmt.Sprintf("dimension-%02d", d+1)] = n
		}
	}
	return out
}
