//go:build !race

package wal

const slowdown = 1
