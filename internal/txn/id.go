package txn

import (
	"encoding/binary"
	"encoding/hex"
)

// ID names a transaction for ever. Its first six bytes are the Unix time in
// milliseconds at which it was made, high byte first; the rest is random. The
// zero value is no transaction.
type ID [16]byte

// TimeMS is when the id was made.
func (id ID) TimeMS() int64 { return int64(binary.BigEndian.Uint64(id[:8]) >> 16) }

// String is the id in errors and reports.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Outcome is what became of a transaction.
type Outcome byte

// The outcomes. Their numbers are on disks: none is ever changed or used again.
const (
	// Undecided means that it may still become either of the others.
	Undecided Outcome = 0
	// Committed means that all of it took effect.
	Committed Outcome = 1
	// Aborted means that nothing of it did, and never will.
	Aborted Outcome = 2
)

// String is the outcome in errors and reports.
func (o Outcome) String() string {
	switch o {
	case Undecided:
		return "undecided"
	case Committed:
		return "committed"
	case Aborted:
		return "aborted"
	}
	return "not an outcome"
}

// final tells whether o is one that is kept.
func (o Outcome) final() bool { return o == Committed || o == Aborted }
