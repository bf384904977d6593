package record

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record/delta"
)

func init() {
	delta.Register("ScaleWorkload", api.ScaleWorkload{})
	delta.Register("ResizePool", api.ResizePool{})
	delta.Register("RemoveNode", api.RemoveNode{})
	delta.Register("CordonNode", api.CordonNode{})
	delta.Register("UncordonNode", api.UncordonNode{})
	delta.Register("GiveUpMove", api.GiveUpMove{})
	delta.Register("EvictPod", api.EvictPod{})
	delta.Register("SetDeletionCost", api.SetDeletionCost{})
	delta.Register("ResizePod", api.ResizePod{})
	delta.Register("CallWebhook", api.CallWebhook{})
}

// decided is what a Digest is of.
type decided struct {
	Policy  api.Policy
	Plan    api.Plan
	Actions []api.Action
}

// digester makes digests; it reuses its memory.
type digester struct {
	encoder *delta.Encoder[decided]
	buffer  []byte
}

func newDigester() (*digester, error) {
	e, err := delta.NewEncoder[decided]()
	return &digester{encoder: e}, err
}

// digest is the same for two decisions only if they are the same to the last bit.
func (d *digester) digest(p api.Policy, plan api.Plan, actions []api.Action) (string, error) {
	var err error
	d.buffer, err = d.encoder.AppendExact(d.buffer[:0], &decided{p, plan, actions})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(d.buffer)
	return hex.EncodeToString(sum[:16]), nil
}

// Digest of a decision, as in api.Record.
func Digest(p api.Policy, plan api.Plan, actions []api.Action) (string, error) {
	d, err := newDigester()
	if err != nil {
		return "", err
	}
	return d.digest(p, plan, actions)
}

// slim is a record without what can be had of the rest of it.
func slim(r api.Record, key bool) api.Record {
	r.Cycle.Pools, r.Cycle.Workloads = nil, nil
	r.Cycle.Plan, r.Brief = Brief(r.Cycle.Plan), true
	if !key {
		r.Memory = nil
	}
	return r
}
