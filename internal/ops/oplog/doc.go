// Package oplog makes the log of a server with log/slog: levels under the names of Redis, a file
// that can be reopened, and a handler that bounds how often one kind of event is written.
//
// Whatever has something to report takes a *slog.Logger. Events that a client can cause as often
// as it likes go through a [Limiter]. The message of an event is a constant, and so is its
// attribute "reason": both together are the kind that is bounded. Values and secrets are never
// attributes; the handlers of slog escape what is.
package oplog
