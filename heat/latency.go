package heat

import (
	"math"
	"math/bits"
	"time"
)

const (
	// firstOctave is that of the shortest time that is distinguished, 2^10 ns or about a microsecond: the clock
	// itself is hardly finer.
	firstOctave = 10
	// octaves reach to 17 seconds, after which most clients have given up.
	octaves = 24
	// timeBins is two for each octave: a quantile is at most half too high, and a hot key's p99 differs from that of
	// others by far more.
	timeBins = 2 * octaves
)

// timeHistogram counts times, weighed. Its 192 bytes are kept for each tracked key.
type timeHistogram [timeBins]float32

// timeBin is the bin of a time.
func timeBin(d time.Duration) int {
	n := uint64(max(d, 0))
	octave := bits.Len64(n) - 1
	if octave < firstOctave {
		return 0
	}
	return min(2*(octave-firstOctave)+int(n>>(octave-1)&1), timeBins-1)
}

// timeOfBin is the longest time of a bin.
func timeOfBin(bin int) time.Duration {
	octave := firstOctave + bin/2
	return time.Duration(1)<<octave + time.Duration(1+bin%2)<<(octave-1) - 1
}

func (h *timeHistogram) merge(o *timeHistogram) {
	for i, n := range o {
		h[i] += n
	}
}

func (h *timeHistogram) scale(factor float64) {
	for i := range h {
		h[i] *= float32(factor)
	}
}

func (h *timeHistogram) total() (n float64) {
	for _, k := range h {
		n += float64(k)
	}
	return n
}

// quantile returns what a share of all times are not above, 0 if there are none.
func (h *timeHistogram) quantile(share float64) time.Duration {
	total := h.total()
	seen, last := 0.0, 0
	for bin, n := range h {
		if n == 0 {
			continue
		}
		last = bin
		if seen += float64(n); seen >= share*total*(1-1e-6) {
			return timeOfBin(bin)
		}
	}
	if math.IsNaN(total) || total == 0 {
		return 0
	}
	return timeOfBin(last)
}
