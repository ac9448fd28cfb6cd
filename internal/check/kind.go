package check

import (
	"cmp"
	"maps"
	"slices"
)

// Kind is the name of a sort of contradiction. Those that begin with G are
// Adya's; of a cycle it tells which edges are needed to close it, and so which
// isolation is broken.
type Kind string

// The kinds of contradictions.
const (
	// Malformed: the history cannot be, whatever the store does.
	Malformed Kind = "malformed"

	// Duplicate: one read shows an element twice.
	Duplicate Kind = "duplicate"
	// Garbage: a read shows an element that nobody appended there.
	Garbage Kind = "garbage"
	// Lost: an acknowledged write is missing from what was read later.
	Lost Kind = "lost"
	// G1a: a committed transaction read from one that failed.
	G1a Kind = "G1a"
	// G1b: a read shows a state in the midst of another transaction.
	G1b Kind = "G1b"
	// Forked: two reads of a key show lists of which neither begins the other.
	Forked Kind = "forked"
	// Reordered: elements stand in another order than they must.
	Reordered Kind = "reordered"
	// Internal: a transaction contradicts itself, as one that does not see its
	// own append.
	Internal Kind = "internal"

	// G0 is a cycle of writes.
	G0 Kind = "G0"
	// G1c is a cycle of writes and of reads from them.
	G1c Kind = "G1c"
	// GSingle is a cycle with one read of what is about to be overwritten.
	GSingle Kind = "G-single"
	// G2 is a cycle with several such reads.
	G2 Kind = "G2"

	// The same, if it takes real time to close the cycle: the store is
	// serializable perhaps, but not strictly.
	G0RealTime      Kind = "G0-realtime"
	G1cRealTime     Kind = "G1c-realtime"
	GSingleRealTime Kind = "G-single-realtime"
	G2RealTime      Kind = "G2-realtime"

	// Stray: a scan shows a key that is deleted, was never put or lies outside.
	Stray Kind = "stray"
	// WrongSum: the balances do not add up, or one is missing.
	WrongSum Kind = "wrong sum"
	// Overdrawn: a balance is negative.
	Overdrawn Kind = "overdrawn"
	// TwoWinners: one thing was given to several.
	TwoWinners Kind = "two winners"
	// OutOfBounds: a number is below all that was acknowledged, or above all
	// that was tried.
	OutOfBounds Kind = "out of bounds"
	// NotLinearizable: no order of the calls on a key explains their answers.
	NotLinearizable Kind = "not linearizable"
	// Undecided: the search was given up. It is no proof of a fault, but none of
	// the contrary either.
	Undecided Kind = "undecided"
)

// ranks has the kinds, the worst first: what nothing can excuse, then what
// explains most of the rest.
var ranks = []Kind{
	Malformed, Duplicate, Garbage, Lost, G1a, G1b, Forked, Reordered, Internal,
	G0, G1c, GSingle, G2, G0RealTime, G1cRealTime, GSingleRealTime, G2RealTime,
	Stray, WrongSum, Overdrawn, TwoWinners, OutOfBounds, NotLinearizable, Undecided,
}

func rank(k Kind) int { return slices.Index(ranks, k) }

// ranked returns the kinds that were counted, the worst first.
func ranked(counts map[Kind]int) []Kind {
	return slices.SortedFunc(maps.Keys(counts), func(a, b Kind) int { return cmp.Compare(rank(a), rank(b)) })
}
