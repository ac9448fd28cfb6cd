// Package engine is the runtime of a store: it executes commands on keys wherever they are.
//
// It speaks in commands, positions and [node.Keyspace], and knows nothing of the public types. Package
// cleave is the typed API over it, and the server executes Redis commands on it.
//
//   - [DB.Execute] and [DB.Read] execute one command, on the group that has the key.
//   - [DB.Update] and [DB.View] run a function in a transaction: [Txn]. [DB.UpdateCommands] and
//     [DB.ViewCommands] do so for a caller that speaks commands alone: [CommandTxn].
//   - [DB.Write] executes a [Batch], which reads nothing.
//   - [DB.Scan] and [DB.ScanKeys] visit the keys of a span, as of one moment.
//   - [FeedReader] and [DB.FollowEvents] follow what is committed.
//   - [Index] is an index: transactions maintain it, and a worker of the DB builds it and keeps an
//     asynchronous one up with its rows.
//
// The promises to a program are in package cleave; DESIGN.md has the life of a transaction and
// the invariants. The engine owns no files and no groups: see package node.
//
// Errors are those of this package, or of the packages below. Package cleave gives them their public
// names.
package engine
