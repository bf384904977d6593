package placement

import "github.com/mash2-io/mash2/api"

// Spreads reports whether a shape's copies must be spread over zones.
func Spreads(shape *api.PodShape) bool { return shape.MaxPerZone > 0 || shape.ZoneSkew > 0 }

// Level adds so many copies to those that zones have, the fewest first, and no
// more than most to a zone (0: any number). That keeps every skew that is
// allowed, and puts no more into a zone than must be. It returns what each zone
// gets and how many copies are left over.
func Level(have []int32, more, most int32) (add []int32, over int32) {
	add = make([]int32, len(have))
	for ; more > 0; more-- {
		least := -1
		for z, n := range have {
			if n += add[z]; (most == 0 || n < most) && (least < 0 || n < have[least]+add[least]) {
				least = z
			}
		}
		if least < 0 {
			return add, more
		}
		add[least]++
	}
	return add, 0
}
