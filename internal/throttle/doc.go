// Package throttle decides how background work gives way to clients.
//
// It is pure: the caller hands in the time and what it has measured, and carries out what is decided.
// There are two mechanisms, for two kinds of background work.
//
// A [Pacer] is for work that may take longer: moves of rows, and with a fixed ratio ([Rest]) builds of
// indexes. It sleeps for a multiple of the time that it has worked while goroutines wait for processors. If
// writers outrun it, it sleeps less, and only if that is not enough their writes are delayed.
//
// A [Yielder] is for work that commits wait for once it falls behind: the applier, and the flushes and
// compactions of tables. It never sleeps. It queues for the processor again after a moment, and works for as
// long as it has queued, so that half of what it competes for is its own. A Pacer would leave such work an
// eleventh of a processor or less (TestYielder_BusyProcessor_GetsItsShareWhereAPacerDoesNot), and a Yielder
// would leave clients too little beside a move: it takes its share however many of them wait.
//
// Limits set by an operator are not decided here: the bytes per second of a job are part of its record, in
// package mover. Nor is the pause between two attempts at something that has failed.
package throttle
