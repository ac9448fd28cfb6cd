// Package mover answers one question: what is the next step of a job that
// changes owners?
//
// A [Job] is a record: everything that is known about a split, a merge, a move,
// a drain or a change of the number of groups. [Admit] makes one or says why
// not, [Plan] says what it would cost, [Step] makes the next record out of an
// event, and [Resume] says what the record wants done. What it wants depends on
// the record alone, so whoever has the record can go on, however often the work
// was interrupted. [Decide] is the one place at which a job can no longer be
// taken back.
//
// # Promises
//
//   - At most one group serves a position at any time.
//   - What was acknowledged is there after the job, whether it went through or
//     was taken back, and nothing else is.
//   - A job that has ended leaves no range frozen or half copied, and no rows
//     behind.
//
// # Choices
//
// A job has one thing outstanding at a time, and says it again after a
// [Timeout]. Everything that it wants may happen late, twice or never: receivers
// compare before they change, and a reply to an earlier round is ignored.
//
// # Limits
//
// The package is pure: a driver keeps the records, evaluates commands at groups,
// reads and carries rows, and knows the time. DESIGN.md has the states, and what
// a driver owes.
package mover
