package main

import (
	"bytes"
	"sync"
)

// lines counts the lines that a program has written so far.
type lines struct {
	mu sync.Mutex
	n  int
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += bytes.Count(p, []byte("\n"))
	return len(p), nil
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
