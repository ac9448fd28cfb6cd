// Package command defines what each command means.
//
// A [Command] is evaluated against an [Env]: a [Reader] of the committed state, what the batch
// has written so far, a clock and a source of versions. The results are a [Reply] and effects;
// nothing else is read or changed, so equal inputs give equal answers in every process. Where
// Redis has the command, ours means the same. An expired key is absent for every command, by
// Env's clock alone.
//
// [Env.Do] makes a command atomic: one that fails leaves nothing behind.
//
// A collection is a row for the key and one for each element behind it. The
// elements carry the generation of the collection, so deleting, overwriting or
// expiring one is a change of a single row; what is left of it is never seen
// again and is removed later by [Sweep]. DESIGN.md has the bytes.
//
// Keys are given as the positions of their own rows (see [partition.Keyspace.AppendPosition]):
// the caller encodes once. Every position of a batch must belong to the group that evaluates it;
// ownership is not known here.
package command
