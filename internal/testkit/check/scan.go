package check

import (
	"fmt"
	"slices"
	"sort"
)

// Change is one call that put or deleted a key.
type Change struct {
	Call
	Key    string
	Delete bool
}

// Scan is one call that listed the keys of a range.
type Scan struct {
	Call
	// Start is the first key of the range, End the first behind it. An empty End
	// is no end.
	Start, End string
	// Reverse reports whether keys are listed from the last to the first.
	Reverse bool
	// Limit is the most keys that are listed, 0 for no limit.
	Limit int
	// Keys is what was listed.
	Keys []string
}

// Scans tells of every acknowledged scan whether its keys are in strict order,
// within the range and the limit, and whether each key is there if it must be
// and not if it must not: acknowledged changes before the scan count, unknown
// and concurrent ones may or may not. Each key is judged by itself; that a scan
// shows one instant is for [Lists] to check.
//
// The call of anomaly i is scan i; changes are described in its text.
func Scans(changes []Change, scans []Scan) *Report {
	r := &Report{Calls: len(changes) + len(scans)}
	byKey := map[string][]Change{}
	for i, c := range changes {
		if r.CheckCall(i, c.Call) && c.Status != Failed {
			r.Judged++
			byKey[c.Key] = append(byKey[c.Key], c)
		}
	}
	keys := make([]string, 0, len(byKey))
	for k := range byKey {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for i, s := range scans {
		if r.CheckCall(i, s.Call) && s.Status == OK {
			r.Judged++
			r.Reads++
			checkScan(r, i, s, keys, byKey)
		}
	}
	return r
}

func checkScan(r *Report, i int, s Scan, keys []string, byKey map[string][]Change) {
	listed := slices.Clone(s.Keys)
	if s.Reverse {
		slices.Reverse(listed)
	}
	for n, k := range listed {
		switch {
		case n > 0 && listed[n-1] == k:
			r.addf(Duplicate, []int{i}, "scan %d lists %q twice\n%v", i, k, s)
		case n > 0 && listed[n-1] > k:
			r.addf(Reordered, []int{i}, "scan %d lists %q and %q in the wrong order\n%v", i, listed[n-1], k, s)
		case !s.contains(k):
			r.addf(Stray, []int{i}, "scan %d lists %q, which lies outside of it\n%v", i, k, s)
		case byKey[k] == nil:
			r.addf(Stray, []int{i}, "scan %d lists %q, which nobody put\n%v", i, k, s)
		}
	}
	if s.Limit > 0 && len(listed) > s.Limit {
		r.addf(Stray, []int{i}, "scan %d lists %d keys, above its limit\n%v", i, len(listed), s)
	}
	slices.Sort(listed)
	for _, k := range keys[sort.SearchStrings(keys, s.Start):] {
		if s.End != "" && k >= s.End {
			break
		}
		_, there := slices.BinarySearch(listed, k)
		switch {
		case there && mustMiss(byKey[k], s.Call):
			r.addf(Stray, []int{i}, "scan %d lists %q, which is deleted or not there yet: %s\n%v", i, k, formatChanges(byKey[k]), s)
		case !there && mustHave(byKey[k], s.Call) && !s.isBeyondLimit(k, listed):
			r.addf(Lost, []int{i}, "scan %d does not list %q: %s\n%v", i, k, formatChanges(byKey[k]), s)
		}
	}
}

func (s Scan) contains(k string) bool { return k >= s.Start && (s.End == "" || k < s.End) }

// isBeyondLimit reports whether the limit was reached before the scan came to k.
func (s Scan) isBeyondLimit(k string, sorted []string) bool {
	if s.Limit == 0 || len(sorted) < s.Limit {
		return false
	}
	return s.Reverse && k < sorted[0] || !s.Reverse && k > sorted[len(sorted)-1]
}

// String prints the call, the range and the number of keys.
func (s Scan) String() string {
	return fmt.Sprintf("%v: scan [%q,%q) reverse %v limit %d lists %d keys", s.Call, s.Start, s.End, s.Reverse, s.Limit, len(s.Keys))
}

// mustHave reports whether a key is there at any instant of the call. Some put is
// done before, and whatever delete may have come by then was done before that
// put. The put that was invoked last is the one to look at.
func mustHave(changes []Change, at Call) bool {
	return isSettledAs(changes, at, false)
}

// mustMiss reports whether a key is absent at any instant of the call: no put can
// have come, or a delete is done before, and every such put before that.
func mustMiss(changes []Change, at Call) bool {
	for _, c := range changes {
		if !c.Delete && c.mayPrecede(at) {
			return isSettledAs(changes, at, true)
		}
	}
	return true
}

// isSettledAs reports whether a change of this sort is done before the call, and every
// possible change of the other sort before that one.
func isSettledAs(changes []Change, at Call, deletes bool) bool {
	var last *Change
	for i, c := range changes {
		if c.Delete == deletes && c.isBefore(at) && (last == nil || c.Invoke > last.Invoke) {
			last = &changes[i]
		}
	}
	return last != nil && !slices.ContainsFunc(changes, func(c Change) bool {
		return c.Delete != deletes && c.mayPrecede(at) && !c.isBefore(last.Call)
	})
}

// mayPrecede reports whether a change may have taken effect before the call ended.
func (c Change) mayPrecede(at Call) bool { return c.Invoke <= at.Return }

// formatChanges writes out what was done to a key, or the last of it.
func formatChanges(changes []Change) string {
	const most = 6
	text := ""
	for _, c := range changes[max(0, len(changes)-most):] {
		verb := "put"
		if c.Delete {
			verb = "delete"
		}
		text += fmt.Sprintf("; %s by %v", verb, c.Call)
	}
	return text[2:]
}
