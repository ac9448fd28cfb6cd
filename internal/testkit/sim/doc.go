// Package sim answers one question: do groups, transactions and moves keep their
// promises together, whatever happens and in whatever order?
//
// [Run] plays a world: real groups on real stores, a catalog in one of them,
// routers with old maps, clients, coordinators and drivers of jobs. There is one
// goroutine and one queue of events, ordered by a virtual time; what is sent may
// be lost, late or doubled, stores and the process crash, clocks jump, and all of
// it follows from a seed. Afterwards the faults end, everything has ten virtual
// seconds to come to rest, and the results of the clients are judged by package
// check.
//
// The choice: groups are called one at a time, so each call runs to its end on the
// goroutine of the loop, and a run can be repeated. What happens within a call is
// for the tests of groups and stores; a crash comes before or after one, which to
// all others is the same as in the middle.
//
// [Shrink] makes a failing run smaller. DESIGN.md says which invariant is checked
// where.
package sim
