package demand

import (
	"fmt"
	"strconv"

	"github.com/mash2-io/mash2/api"
)

const (
	// beyondLimit is how many times its limit a pod's usage may read: a rate is
	// extrapolated to the ends of its window, a quota lets bursts through, and some
	// kubelets don't enforce it (cpuCFSQuota: false).
	beyondLimit = 4
	// beyondNode is the same of what its node has for pods: the node itself has more.
	beyondNode = 2
	// largestNode is what a node has of which nothing is known, millicores: twice the
	// largest machine that providers rent.
	largestNode = 4_096_000
)

// Burnable is the usage, millicores, beyond which a pod's sample can't be true. limit
// is that of all its containers together, 0 without; node is the allocatable CPU of the
// node it ran on, or of the largest if that is not known, 0 without any. A pod that was
// resized passes no limit: the one of before is not known.
func Burnable(limit, node int64) float64 {
	switch {
	case limit > 0:
		return beyondLimit * float64(limit)
	case node > 0:
		return beyondNode * float64(node)
	}
	return beyondNode * largestNode
}

// Beyond is what was refused of the newest sample because no pod could burn it.
type Beyond struct {
	Pods int32
	// Reads is the largest that was read, Most what that pod could burn: millicores.
	Reads, Most float64
}

func (b *Beyond) note(reads, most float64) {
	b.Pods++
	if !(reads <= b.Reads) {
		b.Reads, b.Most = reads, most
	}
}

// Finding says what was refused of a workload's newest sample; false if nothing was.
func (b Beyond) Finding(key api.Key) (api.Finding, bool) {
	if b.Pods == 0 {
		return api.Finding{}, false
	}
	message := fmt.Sprintf("Prometheus reports %s cores for a pod", Cores(b.Reads))
	if b.Most > 0 {
		message += fmt.Sprintf(" that can use %s at most", Cores(b.Most))
	}
	return implausible(key, message+"; such samples count as gaps"), true
}

// Cores prints millicores as cores with at most 4 significant digits.
func Cores(milliCPU float64) string { return strconv.FormatFloat(milliCPU/1000, 'g', 4, 64) }
