package duel

import "time"

// Clock is where a runner reads time, so that its tests own it.
type Clock interface {
	// Now is the time since some fixed instant.
	Now() time.Duration
	// CPU is what the whole process has consumed, in user and kernel mode.
	CPU() time.Duration
}

// System is the machine's clock.
type System struct{ start time.Time }

// NewSystem returns a clock that starts at zero.
func NewSystem() System { return System{time.Now()} }

// Now implements [Clock].
func (s System) Now() time.Duration { return time.Since(s.start) }

// CPU implements [Clock]. Where the system does not tell, it is always 0.
func (s System) CPU() time.Duration { return processCPU() }
