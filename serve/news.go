package serve

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// ofPolicies are the reasons for which the last good policy is in force, or one that can't be
// followed. Figures in what they say are what its author wrote.
var ofPolicies = []string{"InvalidPolicy", "PolicyMissing", "UnknownPool", "UnknownMachineType"}

// news are the findings that the cycle before did not have, and all of this one. One that says
// of the same object what another said that is gone, in other figures, is not new: figures and
// times move while what is wrong stays. A cycle that was held looked at nothing: what was said
// before it is said still.
func news(c api.Cycle, before map[api.Finding]bool) (told []api.Finding, said map[api.Finding]bool) {
	findings := c.Findings
	alike := func(f api.Finding) api.Finding {
		if !slices.Contains(ofPolicies, f.Reason) {
			f.Message = words(f.Message)
		}
		return f
	}
	said = make(map[api.Finding]bool, len(findings))
	for _, f := range findings {
		said[f] = true
	}
	gone := map[api.Finding]int{}
	for f := range before {
		if !said[f] {
			gone[alike(f)]++
		}
	}
	seen := make(map[api.Finding]bool, len(findings))
	for _, f := range findings {
		if seen[f] {
			continue
		}
		seen[f] = true
		switch as := alike(f); {
		case before[f]:
		case gone[as] > 0:
			gone[as]--
		default:
			told = append(told, f)
		}
	}
	if c.Error != "" {
		now := make(map[api.Finding]bool, len(findings))
		for _, f := range findings {
			now[alike(f)] = true
		}
		for f := range before {
			if !now[alike(f)] { // else each cycle of a long outage would add its figures
				said[f] = true
			}
		}
	}
	return told, said
}

// alike reports whether a condition's message says what another one does. What is
// wrong is another thing in other words, while the figures of a plan move with every
// sample; those of a policy are what its author wrote.
func alike(c metav1.Condition, message string) bool {
	switch {
	case c.Status == metav1.ConditionTrue:
		return true
	case c.Type == v1alpha1.ConditionPolicyAccepted:
		return c.Message == message
	}
	return sameWords(c.Message, message)
}

// sameWords reports whether two texts differ in figures at most.
func sameWords(a, b string) bool { return words(a) == words(b) }

// words are a text without its figures.
func words(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' || r == ',' {
			return -1
		}
		return r
	}, text)
}
