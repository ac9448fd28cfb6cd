// Package duel answers one question: how many times faster is ours than the
// best peer, and how sure is that?
//
// A [Cell] is one piece of work done by several [Contestant]s. A [Runner]
// measures them in rounds: in every round each contestant gets one short
// window, in an order shuffled anew, so that a slow spell of the machine
// falls on all alike. Ratios are taken within a round and only then
// summarised: the median, with a bootstrap interval around it.
//
// [Judge] turns a ratio and a target into a verdict by one rule. Nothing here
// asserts a time: a slow machine changes figures, never a test.
//
// The limit: a ratio from one machine says nothing about another one.
package duel
