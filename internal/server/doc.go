// Package server answers one question: how do many clients share one store?
//
// A [Server] speaks the Redis protocol. On Linux a few loops wait for all connections;
// each takes what has arrived on all of them, stages what is to be written, and commits
// it at once: the more clients there are, the fewer writes of the log each of them costs.
// Elsewhere, and for connections that are encrypted, each connection has a goroutine that
// does the same for itself, and the groups combine what they bring.
//
// # Promises
//
//   - Requests of one connection are executed in their order, and answered in it.
//   - A request that must wait, for the disk, a lock or other clients, holds up its own
//     connection and no other.
//   - Nothing is answered before it is as durable as the class says.
//
// # Choices
//
// What a command means is not known here: packages redis and command define it, whichever way
// a request goes. Bytes come and go by package conn, messages by package pubsub. The ways of a
// request and the states of a client are in DESIGN.md.
//
// # Limits
//
// Fields of a hash that are not in memory are read by the group of its key, which others
// of that group wait for. What a client may send, have waiting and be remembered by is
// bounded; a client that goes beyond it is refused or closed.
package server
