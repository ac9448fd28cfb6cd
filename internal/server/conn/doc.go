// Package conn carries the bytes of clients: connections, and the loops and streams that read and write them.
//
// On Linux a loop waits for many connections of TCP; elsewhere, and for connections of any other kind, each has a
// goroutine, its stream. What requests mean is not known here: a loop or a stream has an [Executor] of its own, each
// connection a [Session], which takes its requests and writes answers to [Conn.Out]. A [Set] is all connections of a
// server, and bounds what they take together.
//
// A connection belongs to its loop or stream. While it is busy it belongs to the goroutine that does something for
// it, until that calls [Conn.Resume]. Others use what is safe for any goroutine: [Conn.Status], [Conn.Post] and
// [Conn.CloseConn].
package conn
