package delta

import (
	"reflect"
	"strconv"
	"strings"
)

// How a text is written, in the low two bits of the number before it.
const (
	textEnds    = iota // what lies between the ends that it shares with the earlier one
	textNumbers        // the same words with other numbers: those
	textWords          // words and numbers, each by themselves
)

// longestRun of digits that is written as a number.
const longestRun = 18

// hole stands for a number between words.
const hole = '\x00'

// cutRun cuts a text before and after its first run of digits.
func cutRun(s string) (words, run, rest string) {
	from := 0
	for from < len(s) && !isDigit(s[from]) {
		from++
	}
	to := from
	for to < len(s) && isDigit(s[to]) {
		to++
	}
	return s[:from], s[from:to], s[to:]
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// sameWords counts the numbers of two texts that differ in nothing else; 0 if they do
// or have none.
func sameWords(a, b string) (numbers int) {
	for a != "" || b != "" {
		words, run, rest := cutRun(a)
		words2, run2, rest2 := cutRun(b)
		if words != words2 || (run == "") != (run2 == "") || len(run) > longestRun || len(run2) > longestRun {
			return 0
		}
		if run != "" {
			numbers++
		}
		a, b = rest, rest2
	}
	return numbers
}

// wordsOf is a text with a hole for each number, and its numbers; false where a run of
// digits is too long or the text has holes.
func wordsOf(s string) (words string, numbers []string, ok bool) {
	if strings.IndexByte(s, hole) >= 0 {
		return "", nil, false
	}
	var b strings.Builder
	for s != "" {
		var part, run string
		part, run, s = cutRun(s)
		b.WriteString(part)
		if len(run) > longestRun {
			return "", nil, false
		}
		if run != "" {
			b.WriteByte(hole)
			numbers = append(numbers, run)
		}
	}
	return b.String(), numbers, true
}

// string writes a text as it differs from an earlier one. In texts for people the words
// repeat from one object to the next, and the numbers between them are short: apart,
// they compress well.
func (w *writer) string(prev, cur string) {
	if n := sameWords(prev, cur); n > 0 {
		w.uint(uint64(n)<<2 | textNumbers)
		for cur != "" {
			var run, was string
			_, run, cur = cutRun(cur)
			_, was, prev = cutRun(prev)
			if run != "" {
				w.number(was, run)
			}
		}
		return
	}
	raw := w.raw()
	if strings.IndexByte(cur, ' ') >= 0 {
		if words, numbers, ok := wordsOf(cur); ok {
			w.uint(uint64(len(words))<<2 | textWords)
			*raw = append(*raw, words...)
			for _, n := range numbers {
				w.number("", n)
			}
			return
		}
	}
	short := min(len(prev), len(cur))
	head := 0
	for head < short && prev[head] == cur[head] {
		head++
	}
	tail := 0
	for tail < short-head && prev[len(prev)-1-tail] == cur[len(cur)-1-tail] {
		tail++
	}
	w.uint(uint64(head) << 2) // textEnds
	w.uint(uint64(tail))
	w.uint(uint64(len(cur) - head - tail))
	*raw = append(*raw, cur[head:len(cur)-tail]...)
}

// number writes a run of digits as it differs from an earlier one; the lowest bit says
// that its length, which follows, is not what one would think.
func (w *writer) number(was, run string) {
	from, width := value(was)
	to, natural := value(run)
	odd := uint64(0)
	if len(run) != likely(len(was), width, natural) {
		odd = 1
	}
	w.uint(zigzag(int64(to-from))<<1 | odd)
	if odd == 1 {
		w.uint(uint64(len(run)))
	}
}

func (r *reader) number(was string) string {
	from, width := value(was)
	v := r.uint()
	to := from + (v>>2 ^ -(v >> 1 & 1))
	out := strconv.FormatUint(to, 10)
	size := uint64(likely(len(was), width, len(out)))
	if v&1 == 1 {
		size = r.uint()
	}
	if size < uint64(len(out)) || size > longestRun {
		r.fail("a number is too long")
		return ""
	}
	return strings.Repeat("0", int(size)-len(out)) + out
}

// value of a run of digits, and how many of them it needs; 0 and 0 of none.
func value(run string) (v uint64, natural int) {
	if run == "" {
		return 0, 0
	}
	for i := range len(run) {
		v = v*10 + uint64(run[i]-'0')
	}
	for natural = len(run); natural > 1 && run[len(run)-natural] == '0'; {
		natural--
	}
	return v, natural
}

// likely is how long a run of digits probably is: as long as the one before if that
// began with 0, and as it has to be if not.
func likely(was, wasNatural, natural int) int {
	if was > wasNatural {
		return max(was, natural)
	}
	return natural
}

func (r *reader) string(prev, out reflect.Value, keep bool) {
	before := ""
	if keep {
		before = prev.String()
	}
	var b strings.Builder
	switch how := r.uint(); how & 3 {
	case textNumbers:
		for n := how >> 2; n > 0 && r.err == nil; n-- {
			var words, run string
			words, run, before = cutRun(before)
			if keep && run == "" || len(run) > longestRun {
				r.fail("a text refers to more than there was")
				return
			}
			b.WriteString(words)
			b.WriteString(r.number(run))
		}
		b.WriteString(before)
	case textWords:
		words := r.take(how >> 2)
		for _, c := range words {
			if c == hole {
				b.WriteString(r.number(""))
			} else {
				b.WriteByte(c)
			}
		}
	case textEnds:
		head, tail := how>>2, r.uint()
		middle := r.take(r.uint())
		if size := uint64(len(before)); keep && (head > size || tail > size-head) {
			r.fail("a text refers to more than there was")
			return
		}
		if keep {
			b.WriteString(before[:head])
			b.Write(middle)
			b.WriteString(before[len(before)-int(tail):])
		}
	default:
		r.fail("a text of an unknown kind")
	}
	if keep && r.err == nil {
		out.SetString(b.String())
	}
}

// take takes bytes of no structure.
func (r *reader) take(n uint64) []byte {
	raw := r.raw()
	if n > uint64(len(*raw)) {
		r.fail("a text is cut off")
		return nil
	}
	b := (*raw)[:n]
	*raw = (*raw)[n:]
	return b
}
