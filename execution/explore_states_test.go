package execution

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
)

// states are numbered in order of discovery and kept as bytes without pointers,
// of which there are tens of millions.
type states struct {
	arena []byte
	from  []uint64 // where each one begins in arena
	slots []uint32 // a hash table of numbers, each plus one
	seed  maphash.Seed
}

func newStates() *states {
	return &states{slots: make([]uint32, 1<<10), seed: maphash.MakeSeed()}
}

func (s *states) len() int { return len(s.from) }

func (s *states) key(n uint32) []byte {
	end := uint64(len(s.arena))
	if int(n)+1 < len(s.from) {
		end = s.from[n+1]
	}
	return s.arena[s.from[n]:end]
}

// number of a state, and whether it was known.
func (s *states) number(key []byte) (n uint32, known bool) {
	slot := s.slot(key)
	if n := s.slots[slot]; n != 0 {
		return n - 1, true
	}
	n = uint32(len(s.from))
	s.from = append(s.from, uint64(len(s.arena)))
	s.arena = append(s.arena, key...)
	s.slots[slot] = n + 1
	if 2*len(s.from) > len(s.slots) {
		s.slots = make([]uint32, 2*len(s.slots))
		for i := range s.from {
			s.slots[s.slot(s.key(uint32(i)))] = uint32(i) + 1
		}
	}
	return n, false
}

// slot that a key has, or is to have.
func (s *states) slot(key []byte) uint64 {
	mask := uint64(len(s.slots) - 1)
	slot := maphash.Bytes(s.seed, key) & mask
	for s.slots[slot] != 0 && !bytes.Equal(s.key(s.slots[slot]-1), key) {
		slot = (slot + 1) & mask
	}
	return slot
}

func bits(flags ...bool) uint8 {
	out := uint8(0)
	for i, f := range flags {
		if f {
			out |= 1 << i
		}
	}
	return out
}

func bit(from uint8, i int) bool { return from>>i&1 != 0 }

// podBits are the pods on a node.
func podBits(web [kinds]uint8, fixed [2][2]uint8) uint16 {
	return uint16(web[0]|web[1]<<2|web[2]<<4|web[3]<<6)<<8 |
		uint16(fixed[0][0]|fixed[0][1]<<2|fixed[1][0]<<4|fixed[1][1]<<6)
}

func podsOfBits(high, low uint8) (web [kinds]uint8, fixed [2][2]uint8) {
	for kind := range web {
		web[kind] = high >> (2 * kind) & 3
	}
	for which := range fixed {
		fixed[which] = [2]uint8{low >> (4 * which) & 3, low >> (4*which + 2) & 3}
	}
	return web, fixed
}

// pictures marks a node in a key of which it is also there what the operator sees.
const pictures = 0x40

// endOfNodes in a key can't be a node.
const endOfNodes = 0xff

// appendKey appends what is the same for states that differ in the names of equal
// nodes only.
func (c cluster) appendKey(key []byte) []byte {
	c.normalise()
	// Nodes of a pool in order of what is on them, then of who is acted on first.
	var first, at, to [2 * maxNodes]uint8
	for i := len(c.ops) - 1; i >= 0; i-- {
		if c.ops[i].onNode() {
			first[c.ops[i].node] = uint8(i + 1)
		}
	}
	var content [2 * maxNodes]uint64
	for i, b := range c.nodes {
		at[i] = uint8(i)
		content[i] = uint64(podBits(c.seen[i].web, c.seen[i].fixed))<<32 |
			uint64(bits(b.kept)<<4|b.phase<<2|b.cordoned)<<16 | uint64(podBits(b.web, b.fixed))
	}
	for p := range 2 {
		slices.SortStableFunc(at[p*maxNodes:(p+1)*maxNodes], func(x, y uint8) int {
			return cmp.Or(cmp.Compare(content[y], content[x]), cmp.Compare(first[x], first[y]))
		})
	}
	for i, from := range at {
		to[from] = uint8(i)
		if n := content[from]; n != 0 {
			if c.lag == current {
				key = append(key, uint8(i), uint8(n>>16), uint8(n>>8), uint8(n))
			} else {
				key = append(key, uint8(i)|pictures, uint8(n>>16), uint8(n>>8), uint8(n), uint8(n>>40), uint8(n>>32))
			}
		}
	}
	key = append(key,
		endOfNodes, c.size[0]|c.size[1]<<4, c.web|c.target<<4|c.stale<<5,
		bits(c.late[0], c.late[1], c.overdue[0], c.overdue[1], c.gaveUp[0], c.gaveUp[1], c.stockout[0], c.stockout[1]),
		c.lag<<5|bits(c.stray[0], c.stray[1], c.denied)<<2|c.pick,
		c.counted[0]|c.counted[1]<<2|c.allowed[0]<<4|c.allowed[1]<<6)
	for _, o := range c.ops {
		if o.onNode() {
			o.node = to[o.node]
		}
		key = append(key, uint8(o.kind)<<4|o.node, o.arg)
	}
	return key
}

// decode is a state of a key.
func decode(key []byte) cluster {
	var c cluster
	for ; key[0] != endOfNodes; key = key[4:] {
		at := key[0] &^ pictures
		b := &c.nodes[at]
		b.kept, b.phase, b.cordoned = bit(key[1], 4), key[1]>>2&3, key[1]&3
		b.web, b.fixed = podsOfBits(key[2], key[3])
		if key[0]&pictures != 0 {
			c.seen[at].web, c.seen[at].fixed = podsOfBits(key[4], key[5])
			key = key[2:]
		}
	}
	c.size = [2]uint8{key[1] & 15, key[1] >> 4}
	c.web, c.target, c.stale = key[2]&15, key[2]>>4&1, key[2]>>5
	for p := range 2 {
		c.late[p], c.overdue[p], c.gaveUp[p], c.stockout[p] = bit(key[3], p), bit(key[3], 2+p), bit(key[3], 4+p), bit(key[3], 6+p)
		c.stray[p] = bit(key[4], 2+p)
		c.counted[p], c.allowed[p] = key[5]>>(2*p)&3, key[5]>>(4+2*p)&3
	}
	c.lag, c.denied, c.pick = key[4]>>5&3, bit(key[4], 4), key[4]&3
	for ops := key[6:]; len(ops) > 0; ops = ops[2:] {
		c.ops = append(c.ops, op{kind: opKind(ops[0] >> 4), node: ops[0] & 15, arg: ops[1]})
	}
	return c
}

// normalise forgets what can't be seen any more.
func (c *cluster) normalise() {
	for p := range 2 {
		nodes, cordons := c.inPool(p)
		c.overdue[p] = c.overdue[p] && cordons > 0
		c.gaveUp[p] = c.gaveUp[p] && nodes > 0
		if int(c.size[p]) <= nodes {
			c.late[p], c.stockout[p] = false, false
		}
	}
	if c.lag == current {
		c.seen = [2 * maxNodes]pictured{}
	}
	if len(c.ops) == 0 {
		c.ops, c.stale = nil, 0
	}
}

// inPool counts the nodes of a pool, and those that mash2 has cordoned.
func (c cluster) inPool(pool int) (nodes, cordons int) {
	for _, b := range c.nodes[pool*maxNodes : (pool+1)*maxNodes] {
		if b.phase != absent {
			nodes++
			if b.ours() {
				cordons++
			}
		}
	}
	return nodes, cordons
}
