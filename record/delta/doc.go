// Package delta encodes Go values as differences from an earlier value of the same
// type, losslessly: bits of floats, nil beside empty slices and maps, unexported
// fields. Only instants of times are kept, not their zones or monotonic clocks.
//
// It serves values of which most is the same each time: of a struct only the fields
// that changed are written, of a slice only the elements, which are found again by
// their key (a field called Key, Name or Pool) or, without one, by how far the slice
// has slid. Nothing has to be declared: a field that is added to a type is encoded. A
// schema of the type, with the names of fields, goes along, so that another version of
// the program reads what it knows of it.
//
// What is written of one field of all the structs of a type lies together, as a column,
// and numbers within texts apart from the words: so it compresses best.
//
// A field tagged `delta:"-"` is left out. Interfaces may hold what [Register] names.
//
// Values are taken to be immutable once encoded: what is behind the same pointer, or is
// a slice of the same array and length, is taken to be equal.
package delta
