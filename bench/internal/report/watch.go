package report

import (
	"fmt"
	"os"
	"strconv"
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
	w := &Watch{clock: clock, start: clock.Now(), own: clock.CPU() + childrenCPU()}
	w.system, w.known = systemCPU()
	return w
}

// Others returns the share of the machine, from 0 to 1, that was not ours and
// not idle since the start. Servers that the run has started are ours once they have
// ended. It is false where the system does not tell.
func (w *Watch) Others(cores int) (share float64, known bool) {
	system, ok := systemCPU()
	if !ok || !w.known {
		return 0, false
	}
	others := (system - w.system) - (w.clock.CPU() + childrenCPU() - w.own)
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

// childrenCPU returns what the processes have consumed that we have started, and that have
// ended.
func childrenCPU() time.Duration {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	return parseChildren(string(text))
}

// parseChildren adds up two columns of /proc/self/stat. The second column is the name in
// parentheses, which may have any character.
func parseChildren(text string) time.Duration {
	_, rest, _ := strings.Cut(text[strings.LastIndexByte(text, ')')+1:], " ")
	columns := strings.Fields(rest)
	const user, system = 16 - 3, 17 - 3 // as proc(5) counts, from the third column on
	if len(columns) <= system {
		return 0
	}
	u, _ := strconv.ParseInt(columns[user], 10, 64)
	s, _ := strconv.ParseInt(columns[system], 10, 64)
	return time.Duration(u+s) * tick
}

// tick is what the system counts time in.
const tick = 10 * time.Millisecond

// parseStat adds up the first line of /proc/stat, in ticks of 10 ms, but for
// the two idle columns and those of guests, which are in user time already.
func parseStat(text string) (time.Duration, bool) {
	line, _, _ := strings.Cut(text, "\n")
	var name string
	var user, nice, system, idle, wait, irq, softirq, steal int64
	if _, err := fmt.Sscan(line, &name, &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal); err != nil || name != "cpu" {
		return 0, false
	}
	return time.Duration(user+nice+system+irq+softirq+steal) * tick, true
}
