//go:build unix

package cputime

import (
	"testing"
	"time"
)

// A goroutine that works uses processor time.
func TestWorkIsCounted(t *testing.T) {
	user, system := Used()
	begun := user + system
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if user, system = Used(); user+system > begun+10*time.Millisecond {
			return
		}
	}
	t.Errorf("ten seconds of work took %v", user+system-begun)
}
