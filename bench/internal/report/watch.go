package report

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

// Watch measures what the rest of the machine does during a run. Unlike the
// load average it knows our own part, and it covers the whole run.
type Watch struct {
	clock  duel.Clock
	start  time.Duration
	own    time.Duration
	system time.Duration
	known  bool
}

// StartWatch begins to watch.
func StartWatch(clock duel.Clock) *Watch {
	w := &Watch{clock: clock, start: clock.Now(), own: clock.CPU()}
	w.system, w.known = systemCPU()
	return w
}

// Others returns the share of the machine, from 0 to 1, that was not ours and
// not idle since the start. It is false where the system does not tell.
func (w *Watch) Others(cores int) (share float64, known bool) {
	system, ok := systemCPU()
	if !ok || !w.known {
		return 0, false
	}
	others := (system - w.system) - (w.clock.CPU() - w.own)
	capacity := (w.clock.Now() - w.start) * time.Duration(cores)
	return max(0, float64(others)/float64(capacity)), true
}

// systemCPU returns what all processes have consumed since the system
// started, time stolen by other virtual machines included.
func systemCPU() (time.Duration, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	return parseStat(string(text))
}

// parseStat adds up the first line of /proc/stat, in ticks of 10 ms, but for
// the two idle columns and those of guests, which are in user time already.
func parseStat(text string) (time.Duration, bool) {
	line, _, _ := strings.Cut(text, "\n")
	var name string
	var user, nice, system, idle, wait, irq, softirq, steal int64
	if _, err := fmt.Sscan(line, &name, &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal); err != nil || name != "cpu" {
		return 0, false
	}
	const tick = 10 * time.Millisecond
	return time.Duration(user+nice+system+irq+softirq+steal) * tick, true
}
