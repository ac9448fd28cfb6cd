package own

import (
	"fmt"

	"github.com/cleavekv/cleave/partition"
)

// State says what a group does with a range.
type State uint8

// The states. Their numbers are on disks: none is ever changed or used again.
const (
	// Serving: reads and writes.
	Serving State = 1
	// Frozen: reads only. The range is about to be given away, and what is
	// there now is what will be there.
	Frozen State = 2
	// Incoming: nothing. The range is being copied from another group.
	Incoming State = 3
	// Foreign: nothing. The range was given away, or never came.
	Foreign State = 4
)

// String is the state in errors and reports.
func (s State) String() string {
	switch s {
	case Serving:
		return "serving"
	case Frozen:
		return "frozen"
	case Incoming:
		return "incoming"
	case Foreign:
		return "foreign"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Job names a piece of work that changes owners, for ever. 0 is none.
type Job uint64

// Range is a range in a group's list.
type Range struct {
	Span partition.Span
	// Version is that of the map to which the range in this state belongs: that
	// in which it was given, or given away. It is what makes two ranges of the
	// same span different when a shard comes back.
	Version partition.Version
	State   State
	// Job is the one that has brought the range into its state.
	Job Job
	// Attempt and Upto are of an Incoming range: the copy that fills it, and the
	// position in the source's log up to which it has come. For the attempt of a
	// Foreign range see [Dropped].
	Attempt, Upto uint64
}

// Reads tells whether the group answers reads of the range.
func (r *Range) Reads() bool { return r.State == Serving || r.State == Frozen }

// equal tells whether two ranges are the same in everything.
func (r *Range) equal(o *Range) bool {
	return r.Span.Equal(o.Span) &&
		r.Version == o.Version && r.State == o.State && r.Job == o.Job && r.Attempt == o.Attempt && r.Upto == o.Upto
}

// String is the range in errors and reports.
func (r Range) String() string {
	return fmt.Sprintf("%v %v since version %d", r.Span, r.State, r.Version)
}
