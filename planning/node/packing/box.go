package packing

// confine keeps the duals of the items within a share of some values: below them
// demand may go uncovered for a refund, above them pods may be left over for a
// price (Marsten, Hogan and Blankenship 1975, “The boxstep method”).
func (m *master) confine(center []float64, box float64) {
	for i := range m.covers {
		m.cols[i].cost = min(center[i]*(1+box)+0.1*box/float64(m.covers), m.leftOver)
		m.cols[m.rows+i].cost = -center[i] * (1 - box)
	}
	m.refresh()
}

// ceil keeps the duals of the items at most a share above some values.
func (m *master) ceil(values []float64, share float64) {
	for i := range m.covers {
		m.cols[i].cost = min(values[i]*(1+share)+0.1*share/float64(m.covers), m.leftOver)
		m.cols[m.rows+i].cost = 0
	}
	m.refresh()
}

// lacking reports whether pods are left over although that may be dearer.
func (m *master) lacking() bool {
	for i, j := range m.basis {
		if int(j) < m.covers && m.x[i] > 1e-3 && m.cols[j].cost < m.leftOver {
			return true
		}
	}
	return false
}

// confined reports whether the box binds.
func (m *master) confined() bool {
	for _, j := range m.basis {
		if int(j) < m.covers && m.x[m.at[j]] > 1e-3 || int(j) >= m.rows && int(j) < m.rows+m.covers && m.cols[j].cost < -1e-9 && m.x[m.at[j]] > 1e-3 {
			return true
		}
	}
	return false
}

// release takes the box away.
func (m *master) release() {
	for i := range m.covers {
		m.cols[i].cost = m.leftOver
		m.cols[m.rows+i].cost = 0
	}
	m.refresh()
}
