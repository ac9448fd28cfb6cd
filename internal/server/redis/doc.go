// Package redis answers one question: what does a request of a Redis client ask for?
//
// One registry describes every command: how many arguments it has, which of them are
// keys, what it may do, how it is documented. COMMAND, the ACL, the routing and the
// documentation are made from it. What a command means is described in package command; here
// its arguments become those of one or more such commands, and their replies become
// RESP. Nothing here does I/O or knows of connections.
//
// A command that is about one key is one [command.Command]: it is built, executed where
// the key is, and its reply is written. Any other runs as a function on a [KeyspaceView], which
// is all that it sees of the store: a group that has all of its keys, or a transaction.
// So MULTI, RENAME and BITOP are atomic wherever their keys are.
//
// The limit: there are strings and hashes. Lists, sets, sorted sets, streams and scripts
// are not in the registry, and DUMP writes a form that only Cleave reads.
package redis
