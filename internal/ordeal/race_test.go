//go:build race

package main

// raced tells whether the race detector is at work.
const raced = true
