package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/server/redis"
)

func init() {
	registerHandlers(map[string]func(*call){
		"latency|latest": handleLatencyLatest, "latency|history": handleLatencyHistory, "latency|reset": handleLatencyReset, "latency|doctor": handleLatencyDoctor,
		"latency|histogram": handleLatencyHistogram,
		"latency|help": newHelpHandler("LATENCY", "DOCTOR", "    Return a human readable latency analysis report.", "HISTOGRAM [COMMAND ...]", "    Return how many calls of commands took up to how many microseconds.", "HISTORY <event>", "    Return time-latency samples for the <event> class.",
			"LATEST", "    Return the latest latency samples for all events.", "RESET [<event> ...]", "    Reset latency data of one or more <event> classes.", "    (default: reset all data for all event classes)"),
	})
}

// The events that are measured.
const (
	// eventBatch is a batch of requests that a group has executed, until it is as
	// durable as it has to be.
	eventBatch = "batch"
	// eventCommand is requests of a client that wait for the disk, for a lock, or for several
	// groups.
	eventCommand = "command"
)

// latencyMonitor are the longest times of each second in which an event took long, from the
// setting latency-monitor-threshold on.
type latencyMonitor struct {
	threshold atomic.Int64 // in nanoseconds, 0 for off
	mu        sync.Mutex
	events    map[string]*latencySeries
}

// latencySeries is what is known of one event.
type latencySeries struct {
	samples []latencySample // the oldest first
	max     time.Duration
}

type latencySample struct {
	second int64 // Unix
	took   time.Duration
}

// maxSamples is how many seconds are kept of an event, as in Redis.
const maxSamples = 160

// record notes that an event took so long, if that is long.
func (l *latencyMonitor) record(event string, now time.Time, took time.Duration) {
	if least := l.threshold.Load(); least == 0 || int64(took) < least {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == nil {
		l.events = map[string]*latencySeries{}
	}
	s := l.events[event]
	if s == nil {
		s = &latencySeries{}
		l.events[event] = s
	}
	s.max = max(s.max, took)
	if n := len(s.samples); n > 0 && s.samples[n-1].second == now.Unix() {
		s.samples[n-1].took = max(s.samples[n-1].took, took)
		return
	}
	if len(s.samples) == maxSamples {
		s.samples = slices.Delete(s.samples, 0, 1)
	}
	s.samples = append(s.samples, latencySample{now.Unix(), took})
}

// snapshot returns what is known, by event.
func (l *latencyMonitor) snapshot() map[string]latencySeries {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]latencySeries{}
	for event, s := range l.events {
		all[event] = latencySeries{slices.Clone(s.samples), s.max}
	}
	return all
}

// reset forgets events, all if none are named, and returns how many there were.
func (l *latencyMonitor) reset(events ...string) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(events) == 0 {
		events = slices.Collect(maps.Keys(l.events))
	}
	for _, e := range events {
		if l.events[e] != nil {
			delete(l.events, e)
			n++
		}
	}
	return n
}

func handleLatencyLatest(t *call) {
	all := t.s.latency.snapshot()
	t.out.Array(len(all))
	for _, event := range slices.Sorted(maps.Keys(all)) {
		s := all[event]
		last := s.samples[len(s.samples)-1]
		t.out.Array(4)
		t.out.Text(event)
		t.out.Int(last.second)
		t.out.Int(last.took.Milliseconds())
		t.out.Int(s.max.Milliseconds())
	}
}

func handleLatencyHistory(t *call) {
	samples := t.s.latency.snapshot()[strings.ToLower(string(t.Args[2]))].samples
	t.out.Array(len(samples))
	for _, s := range samples {
		t.out.Array(2)
		t.out.Int(s.second)
		t.out.Int(s.took.Milliseconds())
	}
}

func handleLatencyReset(t *call) {
	var events []string
	for _, a := range t.Args[2:] {
		events = append(events, strings.ToLower(string(a)))
	}
	t.out.Int(t.s.latency.reset(events...))
}

func handleLatencyDoctor(t *call) {
	all := t.s.latency.snapshot()
	var b strings.Builder
	switch {
	case t.s.latency.threshold.Load() == 0:
		b.WriteString("Nothing is measured: CONFIG SET latency-monitor-threshold <milliseconds> begins with it.\n")
	case len(all) == 0:
		b.WriteString("Nothing took that long.\n")
	}
	for _, event := range slices.Sorted(maps.Keys(all)) {
		s := all[event]
		fmt.Fprintf(&b, "%s: %d seconds in which one took long, the longest %v.\n", event, len(s.samples), s.max.Round(time.Millisecond))
	}
	if len(all) > 0 {
		b.WriteString("A batch waits for the log: compare appendfsync. A command waits for the disk, a lock or several groups: SLOWLOG GET names them.\n")
	}
	t.out.Verbatim(b.String())
}

// handleLatencyHistogram tells how many calls of commands took up to so many microseconds, for powers
// of two: of all that were called, or of those that are named, with their subcommands.
func handleLatencyHistogram(t *call) {
	var specs []*redis.Spec
	for _, spec := range redis.AllSpecs() {
		if _, calls := t.s.stats.commands[spec.Index].times.snapshot(); calls > 0 && (len(t.Args) == 2 || isCommandOrFamily(spec, t.Args[2:])) {
			specs = append(specs, spec)
		}
	}
	t.out.Map(len(specs))
	for _, spec := range specs {
		counts, calls := t.s.stats.commands[spec.Index].times.snapshot()
		var steps [][2]int64 // microseconds, calls
		seen, told := uint64(0), uint64(0)
		for i, n := range counts {
			seen += n
			// A power of two ends with every bucketsPerDoubling buckets.
			if micros := timeBucketBound(i); i%bucketsPerDoubling == bucketsPerDoubling-1 && micros >= 1 && seen > told {
				steps = append(steps, [2]int64{int64(micros), int64(seen)})
				told = seen
			}
		}
		t.out.Text(spec.Name)
		t.out.Map(2)
		t.out.Text("calls")
		t.out.Int(int64(calls))
		t.out.Text("histogram_usec")
		t.out.Map(len(steps))
		for _, s := range steps {
			t.out.Int(s[0])
			t.out.Int(s[1])
		}
	}
}

// isCommandOrFamily reports whether a command, or the one that it is a part of, is among names.
func isCommandOrFamily(spec *redis.Spec, names [][]byte) bool {
	family, _, _ := strings.Cut(spec.Name, "|")
	return slices.ContainsFunc(names, func(name []byte) bool {
		return strings.EqualFold(string(name), spec.Name) || strings.EqualFold(string(name), family)
	})
}

// recordLatency is how long something took, for SLOWLOG and LATENCY.
func (s *Server) recordLatency(event string, took time.Duration) (slow bool) {
	if s.latency.threshold.Load() != 0 {
		s.latency.record(event, s.opts.Now(), took)
	}
	return s.slowlog.isSlow(took)
}
