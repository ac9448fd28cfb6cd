//go:build !race

package store

// slowdown is how much less the random tests do.
const slowdown = 1
