// Package record keeps every cycle as a record, so that a decision can be replayed to
// the same bytes and explained without replaying it.
//
// A log is a folder of segments. A segment begins with a header (format, program,
// configuration, schema of the types) and a keyframe: the whole snapshot and the
// planner's whole memory. Each record after it holds what differs from the one before
// (package delta), and no memory, which follows from the record before. A new segment
// begins when differences have outgrown the keyframe, so that keyframes take no more
// than a seventh of a log. Every segment can be read without the others.
//
// Inputs (snapshot, policies, memory) are kept to the last bit. What was decided follows
// from them, so a plan is kept [Brief]: without the curves of forecasts, figures to a few
// digits. Record.Digest is of the whole plan, policy and actions.
//
// Every frame has a checksum. What follows the last whole frame of a segment is cut off,
// and said. A disk that is full stops recording, not deciding.
package record
