//go:build race

package store

// slowdown is how much less the random tests do: under the race detector Pebble
// checks its invariants too.
const slowdown = 8
