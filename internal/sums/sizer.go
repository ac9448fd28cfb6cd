package sums

import "time"

// Load is what was seen of a counter during a window.
type Load struct {
	// Window is how long it was, Adds how many adds ended in it, and Waited how long
	// these took together.
	Window time.Duration
	Adds   int64
	Waited time.Duration
}

// waiting is how many adds were under way on average.
func (l Load) waiting() float64 { return l.Waited.Seconds() / max(l.Window.Seconds(), 1e-9) }

// each is how long one add took.
func (l Load) each() float64 { return l.Waited.Seconds() / float64(max(l.Adds, 1)) }

const (
	// crowd is how many adds are under way for each part before more parts are tried:
	// fewer share a batch of their group, which costs them nothing.
	crowd = 4
	// enough adds in a window make a figure out of noise.
	enough = 64
	// better is what an add must take with twice the parts, compared with before, for
	// them to be kept. Less of a gain is not worth the dearer sum, and may be noise.
	better = 0.85
	// calm is how many windows in a row a counter must do with fewer parts before
	// some are folded, and longest how many it may wait between two tries to grow.
	calm    = 4
	longest = 256
)

// Sizer decides how many parts a counter has, window by window. It grows by trial: when
// adds crowd, it tries twice the parts, and keeps them only if an add then takes less
// time. So a counter is split where that helps, on the machine and with the load that
// there are, and not otherwise. The zero value is a Sizer of a counter nobody has watched.
type Sizer struct {
	// trial is how long an add took before the parts were doubled, and base how many
	// there were; base is 0 if there is no trial.
	trial float64
	base  int
	// settle is how many windows to leave out: the one in which a resize happened is
	// of both sizes.
	settle int
	// pause is how many windows to wait until the next trial, and patience what it is
	// after the next one that fails.
	pause, patience int
	idle            int // windows in a row that fewer parts would do for
}

// Step returns how many parts there are to be, given how many there are, the most that
// there may be, and the load of the last window.
func (s *Sizer) Step(parts, most int, l Load) int {
	if parts > most {
		s.base = 0
		return most
	}
	if s.settle > 0 {
		s.settle--
		return parts
	}
	if s.pause > 0 {
		s.pause--
	}
	switch {
	case s.base != 0 && parts == 2*s.base:
		return s.judge(parts, l)
	case s.base != 0: // somebody else has changed it, or it could not be done
		s.base = 0
	}
	if s.quiet(parts, l) {
		return parts / 2
	}
	if parts < most && s.pause == 0 && l.Adds >= enough && l.waiting() >= crowd*float64(parts) {
		s.base, s.trial, s.settle = parts, l.each(), 1
		return 2 * parts
	}
	return parts
}

// judge ends a trial.
func (s *Sizer) judge(parts int, l Load) int {
	if l.Adds < enough {
		s.base = 0 // the crowd has gone: let quiet decide
		return parts
	}
	base := s.base
	s.base = 0
	if l.each() <= better*s.trial {
		s.patience = 0
		return parts
	}
	s.patience = min(max(2*s.patience, 8), longest)
	s.pause, s.settle = s.patience, 1
	return base
}

// quiet tells whether fewer parts would do, and have done so for a while.
func (s *Sizer) quiet(parts int, l Load) bool {
	if parts == 1 || l.waiting() >= float64(parts)/2 {
		s.idle = 0
		return false
	}
	if s.idle++; s.idle < calm {
		return false
	}
	s.idle, s.settle = 0, 1
	return true
}
