package vertical

import "math"

// round is what one decision about all pods works on. Its slices are used again.
type round struct {
	claims []Claim
	got    []int64
	out    Output
	// held by all pods: the sum of the larger ones of Limit and Held.
	held int64
}

// hold leaves everything as it is.
func (m *round) hold(in Input, why string) Output {
	m.out.Held = why
	for i := range in.Pods {
		p := &in.Pods[i]
		m.out.Decisions = append(m.out.Decisions, Decision{p.ID, p.Limit, p.Limit, math.NaN(), BoundStale})
	}
	return m.out
}

// wait lets limits rise only by what is free now: what others give back is there when
// their nodes have taken it, a tick later. So the budget holds at every moment, whatever
// the order in which resizes arrive.
func (m *round) wait(in Input) {
	free := in.Envelope.Budget - m.held
	var asked int64
	m.claims = m.claims[:0]
	for i, d := range m.out.Decisions {
		up := max(0, d.To-max(d.From, in.Pods[i].Held))
		asked += up
		m.claims = append(m.claims, Claim{Most: up, Weight: weight(in.Pods[i].Priority)})
	}
	if asked <= max(0, free) {
		return
	}
	m.got = append(m.got[:0], make([]int64, len(m.claims))...)
	got, _ := Share(max(0, free), m.claims, m.got)
	for i := range m.out.Decisions {
		if d := &m.out.Decisions[i]; got[i] < m.claims[i].Most {
			d.To, d.Binding = max(d.From, in.Pods[i].Held)+got[i], BoundBudget
		}
	}
}
