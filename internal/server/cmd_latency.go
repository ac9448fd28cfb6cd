package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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

func handleLatencyLatest(t *call) {
	all := t.s.latency.Snapshot()
	t.out.Array(len(all))
	for _, event := range slices.Sorted(maps.Keys(all)) {
		s := all[event]
		last := s.Samples[len(s.Samples)-1]
		t.out.Array(4)
		t.out.Text(event)
		t.out.Int(last.Second)
		t.out.Int(last.Took.Milliseconds())
		t.out.Int(s.Max.Milliseconds())
	}
}

func handleLatencyHistory(t *call) {
	samples := t.s.latency.Snapshot()[strings.ToLower(string(t.Args[2]))].Samples
	t.out.Array(len(samples))
	for _, s := range samples {
		t.out.Array(2)
		t.out.Int(s.Second)
		t.out.Int(s.Took.Milliseconds())
	}
}

func handleLatencyReset(t *call) {
	var events []string
	for _, a := range t.Args[2:] {
		events = append(events, strings.ToLower(string(a)))
	}
	t.out.Int(t.s.latency.Reset(events...))
}

func handleLatencyDoctor(t *call) {
	all := t.s.latency.Snapshot()
	var b strings.Builder
	switch {
	case !t.s.latency.IsOn():
		b.WriteString("Nothing is measured: CONFIG SET latency-monitor-threshold <milliseconds> begins with it.\n")
	case len(all) == 0:
		b.WriteString("Nothing took that long.\n")
	}
	for _, event := range slices.Sorted(maps.Keys(all)) {
		s := all[event]
		fmt.Fprintf(&b, "%s: %d seconds in which one took long, the longest %v.\n", event, len(s.Samples), s.Max.Round(time.Millisecond))
	}
	if len(all) > 0 {
		b.WriteString("A batch waits for the log: compare appendfsync. A command waits for the disk, a lock or several groups: SLOWLOG GET names them.\n")
	}
	t.out.Verbatim(b.String())
}

// handleLatencyHistogram returns how many calls of commands took up to so many microseconds, for powers
// of two: of all that were called, or of those that are named, with their subcommands.
func handleLatencyHistogram(t *call) {
	var specs []*redis.Spec
	for _, spec := range redis.AllSpecs() {
		if _, calls := t.s.stats.DoublingsOf(spec); calls > 0 && (len(t.Args) == 2 || isCommandOrFamily(spec, t.Args[2:])) {
			specs = append(specs, spec)
		}
	}
	t.out.Map(len(specs))
	for _, spec := range specs {
		steps, calls := t.s.stats.DoublingsOf(spec)
		t.out.Text(spec.Name)
		t.out.Map(2)
		t.out.Text("calls")
		t.out.Int(int64(calls))
		t.out.Text("histogram_usec")
		t.out.Map(len(steps))
		for _, s := range steps {
			t.out.Int(s.Micros)
			t.out.Int(s.Calls)
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
