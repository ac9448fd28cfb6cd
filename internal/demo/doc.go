// Package demo answers one question: what does a hot spot look like, and what does each remedy bring?
//
// A [Story] starts a real server in this process, with default settings, plays the traffic of clients against it, shows
// what the store finds and decides, applies a remedy, and ends with figures that were measured in that run.
//
// # Promises
//
//   - The server listens on loopback alone, and its directory is removed at the end, whatever happened.
//   - No figure is made up: what is printed was counted or timed in the run, and what a remedy does not bring is
//     printed too.
//   - What the store finds is the store's: a story waits for it, and fails if it does not come.
//
// # Limits
//
// Clients and server share the processors of one machine, so throughput says little about a server alone. Shares and
// counts do not depend on that.
package demo
