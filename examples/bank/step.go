package main

import "fmt"

// step is a place in the life of a bank at which it is killed.
type step int

const (
	begun      step = iota // the transaction has begun, nothing is read
	looked                 // it is not in the log
	debited                // one account has less
	between                // the debit of a saga is done, its credit begins
	credited               // the other has more
	returning              // the debit of a saga is about to be given back
	committing             // the log and the commit are left, which go on while the kill is on its way
	opening                // the store is being opened after a crash in a commit
	committed              // but without an answer
	anywhere               // at no step in particular
	steps                  // how many there are
	never                  // not killed at all
)

var stepNames = map[step]string{
	begun: "before reading", looked: "after looking it up", debited: "after the debit", between: "between the steps", returning: "before giving back", credited: "after the credit",
	committing: "during the commit", opening: "during recovery", committed: "before the answer", anywhere: "at random",
	never: "never",
}

// String names the step in the report.
func (s step) String() string {
	if name, ok := stepNames[s]; ok {
		return name
	}
	return fmt.Sprintf("step %d", int(s))
}

// stops reports whether a transfer waits at the step until it is killed there.
// The outcome of a transaction is known then: see happened.
func (s step) stops() bool {
	return s == begun || s == looked || s == debited || s == between || s == credited || s == returning || s == committed
}

// happened reports whether a transfer that was killed at a step where it stops has
// taken place.
func (s step) happened() bool { return s == committed }
