package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

var (
	// ErrAnomaly means that the store broke its promise: the error tells how.
	ErrAnomaly = errors.New("check: the history is not consistent")
	// ErrHistory means that the history itself cannot be: fix what records it.
	ErrHistory = errors.New("check: the history was recorded wrongly")
)

// maxKeptAnomalies is how many anomalies of a kind a report describes in full: more of the same
// are of no help.
const maxKeptAnomalies = 10

// Report is a verdict and what it rests on.
type Report struct {
	// Calls is the length of the history, Judged how many of them committed or
	// may have, Reads how many answers were compared with the rest. A verdict
	// over few of them says little.
	Calls, Judged, Reads int
	// Anomalies are the contradictions, the worst kind first, up to ten of each.
	Anomalies []Anomaly
	// Counts has the number of all that were met, by kind. Of cycles only the
	// shortest in each knot of transactions is counted.
	Counts map[Kind]int
}

// Anomaly is one contradiction.
type Anomaly struct {
	// Kind is what it is called in the literature, or here.
	Kind Kind
	// Name is a well-known name for its shape, or empty: "write skew", say.
	Name string
	// Calls are the indices in the history of those that take part.
	Calls []int
	// Cycle has the edges of a cycle; the last one leads back to the first.
	Cycle []Edge
	// Text explains it, over several lines.
	Text string
}

// OK reports whether there is no anomaly.
func (r *Report) OK() bool { return len(r.Anomalies) == 0 }

// Has reports whether there is an anomaly of the kind.
func (r *Report) Has(k Kind) bool { return r.Counts[k] > 0 }

// HasName reports whether there is an anomaly of the well-known name.
func (r *Report) HasName(name string) bool {
	return slices.ContainsFunc(r.Anomalies, func(a Anomaly) bool { return a.Name == name })
}

// Err returns nil, or an error with the text of the report: ErrHistory if the
// history cannot be judged, and otherwise ErrAnomaly.
func (r *Report) Err() error {
	switch {
	case r.OK():
		return nil
	case r.Has(Malformed):
		return fmt.Errorf("%w\n%v", ErrHistory, r)
	}
	return fmt.Errorf("%w\n%v", ErrAnomaly, r)
}

// String prints the counts, then each anomaly.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls, %d judged, %d reads: ", r.Calls, r.Judged, r.Reads)
	if r.OK() {
		b.WriteString("consistent")
		return b.String()
	}
	for i, k := range sortKinds(r.Counts) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d %s", r.Counts[k], k)
	}
	for _, a := range r.Anomalies {
		title := string(a.Kind)
		if a.Name != "" {
			title += " (" + a.Name + ")"
		}
		fmt.Fprintf(&b, "\n%s: %s", title, strings.ReplaceAll(a.Text, "\n", "\n  "))
	}
	return b.String()
}

// CheckCall reports whether a call, the i-th of its history, can be at all, and adds an
// anomaly if not.
func (r *Report) CheckCall(i int, c Call) bool {
	switch {
	case c.Status > Failed:
		r.addf(Malformed, []int{i}, "call %d has status %d, which there is not", i, c.Status)
	case c.Status == OK && c.Return < c.Invoke:
		r.addf(Malformed, []int{i}, "call %d returned at %d, before it was invoked at %d", i, c.Return, c.Invoke)
	default:
		return true
	}
	return false
}

// Add counts an anomaly, and keeps it if there are few of its kind.
func (r *Report) Add(a Anomaly) {
	if r.Counts == nil {
		r.Counts = map[Kind]int{}
	}
	if r.isFull(a.Kind) {
		r.Counts[a.Kind]++
		return
	}
	r.Counts[a.Kind]++
	i, _ := slices.BinarySearchFunc(r.Anomalies, kindRank(a.Kind)+1, func(x Anomaly, next int) int {
		return cmp.Compare(kindRank(x.Kind), next)
	})
	r.Anomalies = slices.Insert(r.Anomalies, i, a)
}

// isFull reports whether more of the kind are only counted.
func (r *Report) isFull(k Kind) bool { return r.Counts[k] >= maxKeptAnomalies }

// addf adds an anomaly that is no cycle.
func (r *Report) addf(kind Kind, calls []int, format string, args ...any) {
	if r.isFull(kind) { // spare the words
		r.Counts[kind]++
		return
	}
	r.Add(Anomaly{Kind: kind, Calls: calls, Text: fmt.Sprintf(format, args...)})
}

// Kind is the name of a sort of contradiction. Those that begin with G are
// Adya's; of a cycle it tells which edges are needed to close it, and so which
// isolation is broken.
type Kind string

// The kinds of contradictions.
const (
	// Malformed: the history cannot be, whatever the store does.
	Malformed Kind = "malformed"

	// Duplicate: one read shows an element twice.
	Duplicate Kind = "duplicate"
	// Garbage: a read shows an element that was never appended there.
	Garbage Kind = "garbage"
	// Lost: an acknowledged write is missing from what was read later.
	Lost Kind = "lost"
	// G1a: a committed transaction read from one that failed.
	G1a Kind = "G1a"
	// G1b: a read shows a state in the midst of another transaction.
	G1b Kind = "G1b"
	// Forked: two reads of a key show lists of which neither begins the other.
	Forked Kind = "forked"
	// Reordered: elements stand in another order than they must.
	Reordered Kind = "reordered"
	// Internal: a transaction contradicts itself, as one that does not see its
	// own append.
	Internal Kind = "internal"

	// G0 is a cycle of writes.
	G0 Kind = "G0"
	// G1c is a cycle of writes and of reads from them.
	G1c Kind = "G1c"
	// GSingle is a cycle with one read of what is about to be overwritten.
	GSingle Kind = "G-single"
	// G2 is a cycle with several such reads.
	G2 Kind = "G2"

	// The same, if it takes real time to close the cycle: the store is
	// serializable perhaps, but not strictly.
	G0RealTime      Kind = "G0-realtime"
	G1cRealTime     Kind = "G1c-realtime"
	GSingleRealTime Kind = "G-single-realtime"
	G2RealTime      Kind = "G2-realtime"

	// Stray: a scan shows a key that is deleted, was never put or lies outside.
	Stray Kind = "stray"
	// WrongSum: the balances do not add up, or one is missing.
	WrongSum Kind = "wrong sum"
	// Overdrawn: a balance is negative.
	Overdrawn Kind = "overdrawn"
	// TwoWinners: one thing was given to several.
	TwoWinners Kind = "two winners"
	// OutOfBounds: a number is below all that was acknowledged, or above all
	// that was tried.
	OutOfBounds Kind = "out of bounds"
	// NotLinearizable: no order of the calls on a key explains their answers.
	NotLinearizable Kind = "not linearizable"
	// Undecided: the search was given up. It is no proof of a fault, but none of
	// the contrary either.
	Undecided Kind = "undecided"
)

// kindsByRank has the kinds, the worst first: what nothing can excuse, then what
// explains most of the rest.
var kindsByRank = []Kind{
	Malformed, Duplicate, Garbage, Lost, G1a, G1b, Forked, Reordered, Internal,
	G0, G1c, GSingle, G2, G0RealTime, G1cRealTime, GSingleRealTime, G2RealTime,
	Stray, WrongSum, Overdrawn, TwoWinners, OutOfBounds, NotLinearizable, Undecided,
}

func kindRank(k Kind) int { return slices.Index(kindsByRank, k) }

// sortKinds returns the kinds that were counted, the worst first.
func sortKinds(counts map[Kind]int) []Kind {
	return slices.SortedFunc(maps.Keys(counts), func(a, b Kind) int { return cmp.Compare(kindRank(a), kindRank(b)) })
}

// Edge is the reason why one transaction of a cycle must come before the next.
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

// addAnomaly reports what is no cycle, with the transactions that it is about.
func (l *listChecker) addAnomaly(kind Kind, txns []int32, format string, args ...any) {
	if l.report.isFull(kind) {
		l.report.Counts[kind]++
		return
	}
	text := fmt.Sprintf(format, args...) + "\n" + l.describeTxns(txns)
	l.report.Add(Anomaly{Kind: kind, Calls: sortedIndices(txns), Text: text})
}

// maxExplainedEdges is how many edges of a cycle are put into words.
const maxExplainedEdges = 20

// explainCycle puts a cycle into words.
func (l *listChecker) explainCycle(c cycle) Anomaly {
	a := Anomaly{Kind: c.classify(), Name: c.shapeName(l), Calls: sortedIndices(c.listTxns())}
	var b strings.Builder
	b.WriteString("each of these must come before the next, and the last before the first")
	for i, arc := range c {
		e := Edge{From: int(arc.from), To: int(arc.to), Kind: arc.kind.String()}
		if arc.element != none {
			e.Key, e.Element = l.keys[l.elements[arc.element].key].name, l.elements[arc.element].value
		}
		a.Cycle = append(a.Cycle, e)
		if i < maxExplainedEdges {
			fmt.Fprintf(&b, "\nT%d before T%d (%s): %s", e.From, e.To, e.Kind, l.explainEdge(arc))
		}
	}
	if len(c) > maxExplainedEdges {
		fmt.Fprintf(&b, "\n… and %d more", len(c)-maxExplainedEdges)
	}
	b.WriteString("\n" + l.describeTxns(c.listTxns()[:min(len(c), maxExplainedEdges)]))
	a.Text = b.String()
	return a
}

// explainEdge gives the reason for an edge.
func (l *listChecker) explainEdge(a arc) string {
	if a.kind == rt {
		return fmt.Sprintf("T%d returned at %d, T%d was invoked at %d", a.from, l.history[a.from].Return, a.to, l.history[a.to].Invoke)
	}
	e := l.elements[a.element]
	key := &l.keys[e.key]
	behind := lastPresent(key.elementAt)
	if e.position != none {
		behind = lastPresent(key.elementAt[:e.position])
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

// describeTxns writes the transactions out, each on a line and each once.
func (l *listChecker) describeTxns(txns []int32) string {
	var lines []string
	for _, t := range sortedIndices(txns) {
		lines = append(lines, fmt.Sprintf("T%d is %v", t, l.history[t]))
	}
	return strings.Join(lines, "\n")
}

// sortedIndices returns the indices of transactions as callers know them, sorted and
// each once.
func sortedIndices(txns []int32) []int {
	var ns []int
	for _, t := range txns {
		ns = append(ns, int(t))
	}
	slices.Sort(ns)
	return slices.Compact(ns)
}

// String returns the name of one kind of edge.
func (k edgeKinds) String() string {
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
