//go:build race

package store

// slow is how much less the random tests do: under the race detector Pebble
// checks its invariants too.
const slow = 8
