// Command killtest answers one question: does a store in a real process keep its
// promises when it is killed at any moment, while its shards are split, merged and
// moved all the time?
//
//	go run ./internal/testkit/killtest -stores 3 -lives 50
//
// A parent starts a child, which opens a store, lets clients loose on it and forces
// changes of the map, one every few milliseconds. The parent kills it, at random or
// as soon as a report comes that a job has entered a certain phase, and starts the next
// one on the same directory. The last child ends in peace. Then all that clients
// got in all lives is one history for the checkers of package check: no hash was
// torn, and no two had a lease at once. The files are looked at from within: no lock is
// left, no row is where it does not belong, and every position is served by the group
// that the map names.
//
// The child reports what it is going to do before it does it, and what came of it
// afterwards, a line each, through a pipe. What was written before a kill is read after
// it, and the order of lines is the clock: a call whose answer stands before
// another's beginning was over by then. A call without an answer is unknown.
//
// The limit: a kill takes the process and leaves the system, so what is lost with
// the power is for the simulator. A seed fixes the choices, not the moment at which
// a signal arrives: the same seed gives a run of the same kind, not the same run.
package main
