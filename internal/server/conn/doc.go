// Package conn carries the bytes of clients: connections, and the loops and streams that read and write them.
//
// On Linux a loop waits for many connections of TCP; elsewhere, and for connections of any other kind, each has a
// goroutine, its stream. What requests mean is not known here: a loop or a stream has an [Executor] of its own, each
// connection a [Session], which takes its requests and writes answers to [Conn.Out]. A [Set] is all connections of a
// server, and bounds what they take together.
//
// A listener has as many loops as [Set.Loops] says, and uses all of them or as many as the load needs ([LoopPlanner]).
// The first accepts connections and places each on the loop with the fewest; a loop that is much busier than another
// gives it clients ([PlanMoves]), between two rounds and only clients for which nothing is under way. Each loop has an executor, an arena and counters of its own, so that loops write
// nothing in common while they serve reads.
//
// A connection belongs to its loop or stream. While it is busy it belongs to the goroutine that does something for
// it, until that calls [Conn.Resume]. Others use what is safe for any goroutine: [Conn.Status], [Conn.Post] and
// [Conn.CloseConn].
package conn
