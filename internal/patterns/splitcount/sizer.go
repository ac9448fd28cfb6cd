package splitcount

import "time"

// Load is what was seen of a counter during a window.
type Load struct {
	// Window is how long it was, Adds how many adds ended in it, and Waited how long
	// these took together.
	Window  time.Duration
	Adds    int64
	AddTime time.Duration
}

// meanConcurrency is how many adds were under way on average.
func (l Load) meanConcurrency() float64 { return l.AddTime.Seconds() / max(l.Window.Seconds(), 1e-9) }

// secondsPerAdd is how long one add took.
func (l Load) secondsPerAdd() float64 { return l.AddTime.Seconds() / float64(max(l.Adds, 1)) }

const (
	// minAddsPerPart is how many adds are under way for each part before more parts are tried:
	// fewer share a batch of their group, which costs them nothing.
	minAddsPerPart = 4
	// minWindowAdds adds in a window make a figure out of noise.
	minWindowAdds = 64
	// maxTimeRatio is what an add must take with twice the parts, compared with before, for
	// them to be kept. Less of a gain is not worth the dearer sum, and may be noise.
	maxTimeRatio = 0.85
	// minQuietWindows is how many windows in a row a counter must do with fewer parts before
	// some are folded, and longest how many it may wait between two tries to grow.
	minQuietWindows = 4
	maxPauseWindows = 256
)

// Sizer decides how many parts a counter has, window by window. It grows by trial: when
// adds crowd, it tries twice the parts, and keeps them only if an add then takes less
// time. So a counter is split where that helps, on the machine and with the load that
// exists, and not otherwise. The zero value is a Sizer of a counter that was never watched.
type Sizer struct {
	// secondsBefore is how long an add took before the parts were doubled, and base how many
	// there were; base is 0 if there is no trial.
	secondsBefore float64
	partsBefore   int
	// skipWindows is how many windows to leave out: the one in which a resize happened is
	// of both sizes.
	skipWindows int
	// pauseWindows is how many windows to wait until the next trial, and patience what it is
	// after the next one that fails.
	pauseWindows, nextPause int
	quietWindows            int // windows in a row that fewer parts would do for
}

// Step returns how many parts there are to be, given how many there are, the most that
// there may be, and the load of the last window.
func (s *Sizer) Step(parts, most int, l Load) int {
	if parts > most {
		s.partsBefore = 0
		return most
	}
	if s.skipWindows > 0 {
		s.skipWindows--
		return parts
	}
	if s.pauseWindows > 0 {
		s.pauseWindows--
	}
	switch {
	case s.partsBefore != 0 && parts == 2*s.partsBefore:
		return s.endTrial(parts, l)
	case s.partsBefore != 0: // it was changed by another process, or could not be done
		s.partsBefore = 0
	}
	if s.shouldShrink(parts, l) {
		return parts / 2
	}
	if parts < most && s.pauseWindows == 0 && l.Adds >= minWindowAdds && l.meanConcurrency() >= minAddsPerPart*float64(parts) {
		s.partsBefore, s.secondsBefore, s.skipWindows = parts, l.secondsPerAdd(), 1
		return 2 * parts
	}
	return parts
}

// endTrial ends a trial.
func (s *Sizer) endTrial(parts int, l Load) int {
	if l.Adds < minWindowAdds {
		s.partsBefore = 0 // the crowd has gone: let quiet decide
		return parts
	}
	base := s.partsBefore
	s.partsBefore = 0
	if l.secondsPerAdd() <= maxTimeRatio*s.secondsBefore {
		s.nextPause = 0
		return parts
	}
	s.nextPause = min(max(2*s.nextPause, 8), maxPauseWindows)
	s.pauseWindows, s.skipWindows = s.nextPause, 1
	return base
}

// shouldShrink reports whether fewer parts would do, and have done so for a while.
func (s *Sizer) shouldShrink(parts int, l Load) bool {
	if parts == 1 || l.meanConcurrency() >= float64(parts)/2 {
		s.quietWindows = 0
		return false
	}
	if s.quietWindows++; s.quietWindows < minQuietWindows {
		return false
	}
	s.quietWindows, s.skipWindows = 0, 1
	return true
}
