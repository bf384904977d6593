package record

// Explain answers a question about this record, whatever its time. The error is of a
// question about something that the cycle doesn't know, and names what it knows.
func (e Entry) Explain(q Question) (Explanation, error) { return explain(e, q) }
