package mover

import "github.com/cleavekv/cleave/internal/plant"

// Passing tells whether a driver may do what a job wants in a phase to which an event
// has brought it before that record is stored, which makes the time in which a range
// takes no writes shorter. The record that is stored wants something that was done, and
// finds it so: then comes the same again. A record that follows is stored in the place
// of the one that is stored, as all are.
//
//   - Finishing and comparing only bring to the destination what its attempt may have
//     at any time. The decision is made with the record that comes after them.
//   - Deciding is stored together with the decision, in one batch.
//   - Activating follows from releasing, whose answer is the same again, with floors
//     that are not lower. A destination that serves stays as it is. So does publishing,
//     where no rows are moved.
//   - Freezing and thawing are stored first: a crash would forget that a range is to be
//     thawed, and a driver that has not heard of a thaw must not decide.
func Passing(j *Job, to Phase) bool {
	from := j.Phase
	switch to {
	case Freezing:
		return plant.Bug("mover-freeze-not-stored")
	case Finishing:
		return from == Freezing || from == Finishing
	case Comparing:
		return from == Finishing
	case Deciding:
		return from == Comparing || from == Planned
	case Thawing:
		return plant.Bug("mover-thaw-not-stored") && from >= Freezing && from <= Comparing
	case Activating:
		return true
	case Publishing:
		return !j.Remote()
	}
	return false
}
