// Package ownership determines which positions a group may serve now.
//
// A [Table] is the durable list of ranges of one group. It alone decides what the group serves;
// the map that routers hold is a hint. It changes by one command, [ChangeOwnership], and only if
// exactly what the command expects is there: so a message that comes late, or twice, or from a
// sender that was overtaken, changes nothing. Splits, merges, freezes, releases and activations
// are all ChangeOwnership commands.
//
// A range that was given away stays in the table as Foreign, so that a late message is known to
// be late. Adjacent Foreign ranges become one when the jobs that made them have ended: see
// ChangeOwnership.JobFloor.
//
// A table may have ten thousand ranges: a lookup of one reads a few cache lines, and a change
// copies a few hundred pointers. Reads and writes do neither: they check the bounds of what is
// served, which do not change when a range is split.
//
// The package is pure: the group that evaluates a ChangeOwnership keeps the table, and takes it
// back if the batch does not become durable.
package ownership
