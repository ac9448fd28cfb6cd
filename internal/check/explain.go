package check

import (
	"fmt"
	"slices"
	"strings"
)

// Edge says why one transaction of a cycle must come before the next.
type Edge struct {
	// From and To are indices in the history.
	From, To int
	// Kind is ww, wr, rw or rt.
	Kind string
	// Key and Element are what it is about, unless it is real time: of ww and rw
	// the element that came later, of wr the one that was read.
	Key     string
	Element uint64
}

// addf reports what is no cycle, with the transactions that it is about.
func (l *lists) addf(kind Kind, txns []int32, format string, args ...any) {
	if l.report.full(kind) {
		l.report.Counts[kind]++
		return
	}
	text := fmt.Sprintf(format, args...) + "\n" + l.describe(txns)
	l.report.Add(Anomaly{Kind: kind, Calls: numbers(txns), Text: text})
}

// longest is how many edges of a cycle are put into words.
const longest = 20

// explain puts a cycle into words.
func (l *lists) explain(c cycle) Anomaly {
	a := Anomaly{Kind: c.kind(), Name: c.name(l), Calls: numbers(c.members())}
	var b strings.Builder
	b.WriteString("each of these must come before the next, and the last before the first")
	for i, arc := range c {
		e := Edge{From: int(arc.from), To: int(arc.to), Kind: arc.kind.String()}
		if arc.about != none {
			e.Key, e.Element = l.keys[l.elements[arc.about].key].name, l.elements[arc.about].value
		}
		a.Cycle = append(a.Cycle, e)
		if i < longest {
			fmt.Fprintf(&b, "\nT%d before T%d (%s): %s", e.From, e.To, e.Kind, l.why(arc))
		}
	}
	if len(c) > longest {
		fmt.Fprintf(&b, "\n… and %d more", len(c)-longest)
	}
	b.WriteString("\n" + l.describe(c.members()[:min(len(c), longest)]))
	a.Text = b.String()
	return a
}

// why gives the reason for an edge.
func (l *lists) why(a arc) string {
	if a.kind == rt {
		return fmt.Sprintf("T%d returned at %d, T%d was invoked at %d", a.from, l.history[a.from].Return, a.to, l.history[a.to].Invoke)
	}
	e := l.elements[a.about]
	key := &l.keys[e.key]
	behind := lastOf(key.at)
	if e.place != none {
		behind = lastOf(key.at[:e.place])
	}
	switch {
	case a.kind == ww:
		return fmt.Sprintf("in %s, T%d's %d is in front of T%d's %d", key.name, a.from, l.elements[behind].value, a.to, e.value)
	case a.kind == wr:
		return fmt.Sprintf("T%d read %s up to %d, which T%d appended", a.to, key.name, e.value, a.from)
	case behind == none:
		return fmt.Sprintf("T%d read %s as empty, without %d, which T%d appended", a.from, key.name, e.value, a.to)
	}
	return fmt.Sprintf("T%d read %s up to %d, without %d, which T%d appended", a.from, key.name, l.elements[behind].value, e.value, a.to)
}

// describe writes the transactions out, each on a line and each once.
func (l *lists) describe(txns []int32) string {
	var lines []string
	for _, t := range numbers(txns) {
		lines = append(lines, fmt.Sprintf("T%d is %v", t, l.history[t]))
	}
	return strings.Join(lines, "\n")
}

// numbers returns the indices of transactions as callers know them, sorted and
// each once.
func numbers(txns []int32) []int {
	var ns []int
	for _, t := range txns {
		ns = append(ns, int(t))
	}
	slices.Sort(ns)
	return slices.Compact(ns)
}

// String returns the name of one kind of edge.
func (k edges) String() string {
	switch k {
	case ww:
		return "ww"
	case wr:
		return "wr"
	case rw:
		return "rw"
	}
	return "rt"
}
