//go:build !race

package store

// slow is how much less the random tests do.
const slow = 1
