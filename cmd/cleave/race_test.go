//go:build race

package main

// raceDetector reports whether the tests run with the race detector: then servers do too.
const raceDetector = true
