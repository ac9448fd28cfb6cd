package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// ErrAnomaly means that the store broke its promise: the error tells how.
	ErrAnomaly = errors.New("check: the history is not consistent")
	// ErrHistory means that the history itself cannot be: mend what records it.
	ErrHistory = errors.New("check: the history was recorded wrongly")
)

// keep is how many anomalies of a kind a report tells in full: more of the same
// help nobody.
const keep = 10

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

// OK tells whether there is no anomaly.
func (r *Report) OK() bool { return len(r.Anomalies) == 0 }

// Has tells whether there is an anomaly of the kind.
func (r *Report) Has(k Kind) bool { return r.Counts[k] > 0 }

// Named tells whether there is an anomaly of the well-known name.
func (r *Report) Named(name string) bool {
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

// String tells the counts, then each anomaly.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls, %d judged, %d reads: ", r.Calls, r.Judged, r.Reads)
	if r.OK() {
		b.WriteString("consistent")
		return b.String()
	}
	for i, k := range ranked(r.Counts) {
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

// Admit tells whether a call, the i-th of its history, can be at all, and adds an
// anomaly if not.
func (r *Report) Admit(i int, c Call) bool {
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
	if r.full(a.Kind) {
		r.Counts[a.Kind]++
		return
	}
	r.Counts[a.Kind]++
	i, _ := slices.BinarySearchFunc(r.Anomalies, rank(a.Kind)+1, func(x Anomaly, next int) int {
		return cmp.Compare(rank(x.Kind), next)
	})
	r.Anomalies = slices.Insert(r.Anomalies, i, a)
}

// full tells whether more of the kind are only counted.
func (r *Report) full(k Kind) bool { return r.Counts[k] >= keep }

// addf adds an anomaly that is no cycle.
func (r *Report) addf(kind Kind, calls []int, format string, args ...any) {
	if r.full(kind) { // spare the words
		r.Counts[kind]++
		return
	}
	r.Add(Anomaly{Kind: kind, Calls: calls, Text: fmt.Sprintf(format, args...)})
}
