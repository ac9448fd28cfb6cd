//go:build race

package wal

// slowdown is by how much the race detector makes the crash test slower: it runs as
// many seeds fewer.
const slowdown = 6
