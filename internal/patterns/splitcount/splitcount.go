// Package splitcount answers one question: how does a split counter change its number of
// parts without losing or counting twice what is added meanwhile?
//
// A counter is the sum of its parts, which are rows that hold numbers. Part 0 is always
// open. The others are open if their rows exist, and an add to one of them demands
// that: one that comes too late is refused, and goes elsewhere. A row, the manifest, says
// how many are open. It is changed in one transaction with the rows of the parts, so
// that at every moment the open parts hold all that was added.
//
// The package only computes: what a resize makes of the parts ([Resize]), what they sum
// to ([Total]), and whether to resize at all ([Sizer]). Package counter carries it out
// on a store, and the simulator on groups.
package splitcount

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"time"
)

// MaxParts is the most parts that a counter can have.
const MaxParts = 256

// ErrBadManifest means that the row of a manifest holds something else.
var ErrBadManifest = errors.New("splitcount: not a manifest")

// IsValidCount reports whether a counter can have so many parts.
func IsValidCount(parts int) bool {
	return parts >= 1 && parts <= MaxParts && bits.OnesCount(uint(parts)) == 1
}

// AppendManifest appends the value of the row of a counter with so many parts: that
// number, in decimal. A counter of one part has no such row.
func AppendManifest(b []byte, parts int) []byte { return strconv.AppendInt(b, int64(parts), 10) }

// ParseManifest reads the value of a row, nil for an absent one, which stands for one
// part. It accepts what AppendManifest makes, and nothing else.
func ParseManifest(b []byte) (parts int, err error) {
	if b == nil {
		return 1, nil
	}
	parts, err = strconv.Atoi(string(b))
	if err != nil || !IsValidCount(parts) || string(AppendManifest(nil, parts)) != string(b) {
		return 0, fmt.Errorf("%w: %.40q", ErrBadManifest, b)
	}
	return parts, nil
}

// ErrOverflow means that a sum does not fit into 64 bits.
var ErrOverflow = errors.New("splitcount: overflow")

// Total is the sum of parts. It overflows only if the sum itself does, whatever the
// order of the parts.
func Total(parts []int64) (int64, error) {
	var high, low uint64 // of 128 bits
	for _, p := range parts {
		sum, carry := bits.Add64(low, uint64(p), 0)
		high, low = high+uint64(p>>63)+carry, sum
	}
	if total := int64(low); uint64(total>>63) == high {
		return total, nil
	}
	return 0, ErrOverflow
}

// Resize returns what parts are to hold when there are so many of them. New ones are
// empty, and one that goes is folded into the part that adds find in its place: that
// of its number modulo the new count. The sum stays the same.
func Resize(parts []int64, to int) ([]int64, error) {
	if !IsValidCount(to) {
		return nil, fmt.Errorf("splitcount: %d parts: use a power of two up to %d", to, MaxParts)
	}
	out := make([]int64, to)
	copy(out, parts)
	for i := to; i < len(parts); i++ {
		sum, err := Total([]int64{out[i%to], parts[i]})
		if err != nil {
			return nil, err
		}
		out[i%to] = sum
	}
	return out, nil
}

// MoveToFirst returns parts whose sum is greater by delta, with all of it in part 0, so that
// each other part has room again, both ways.
func MoveToFirst(parts []int64, delta int64) ([]int64, error) {
	sum, err := Total(append(append([]int64{}, parts...), delta))
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(parts))
	out[0] = sum
	return out, nil
}

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
