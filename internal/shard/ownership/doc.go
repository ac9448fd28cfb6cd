// Package ownership answers one question: which positions may a group serve now?
//
// A [Table] is the durable list of ranges of one group. It alone decides what the
// group serves; the map that routers hold is a hint. It changes by one command,
// [ChangeOwnership], and only if exactly what the command expects is there: so a message
// that comes late, or twice, or from somebody who was overtaken, changes nothing.
// Splits, merges, freezes, releases and activations are all Reowns.
//
// A range that was given away stays in the list as Foreign, so that a late
// message finds that it is late and not that nothing was ever here. Those that
// follow one another become one when the jobs that made them have ended: see
// Reown.Floor.
//
// A list may have ten thousand ranges: a look at one reads a few lines of memory, and
// a change copies a few hundred pointers. Reads and writes ask neither: they look at
// where what is served begins and ends, which does not change when a range is cut.
//
// The package is pure: the group that evaluates a Reown keeps the list, and takes
// it back if the batch does not become durable.
package ownership
