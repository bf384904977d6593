package v1alpha1

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// longestQuantity is the most characters a quantity may have, in the definitions too.
const longestQuantity = 40

// hugeExponent is one of three digits or more.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3}`)

// ParseQuantity reads a quantity that somebody else wrote. resource.ParseQuantity works out
// every digit of it, which takes two seconds for 9e-9999999, and hours for a hundred times
// that exponent; what has such an exponent, or more than 40 characters, is an error here.
func ParseQuantity(text string) (resource.Quantity, error) {
	switch {
	case len(text) > longestQuantity:
		return resource.Quantity{}, fmt.Errorf("a quantity of %d characters; at most %d are read", len(text), longestQuantity)
	case strings.ContainsAny(text, "eE") && hugeExponent.MatchString(text): // most have none, and are read often
		return resource.Quantity{}, fmt.Errorf("quantity %q: an exponent has at most two digits", text)
	}
	return resource.ParseQuantity(text)
}
