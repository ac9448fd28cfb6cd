//go:build !race

package main

// raceEnabled reports whether the race detector is at work.
const raceEnabled = false
