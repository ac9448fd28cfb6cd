// Package register answers one question: does every key behave like one register
// that clients use one after the other?
//
// Each key is judged by itself, by porcupine's search for an order that explains
// the answers and respects real time. Such a search can take exponential time,
// so a history has at most [MaxCalls] calls on a key, and the search ends, as
// undecided, after a number of steps: not after a time, so the same history gets
// the same verdict on any machine.
//
// It stands apart from package check so that only tests of registers depend on
// porcupine.
package register

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/cleavekv/cleave/internal/testkit/check"
)

const (
	// MaxCalls is the most calls on one key that are judged together.
	MaxCalls = 1000
	// maxSteps bounds the search on one key: some seconds' work.
	maxSteps = 10_000_000
)

// Kind is what a call does to a register.
type Kind uint8

const (
	// Get reads it.
	Get Kind = iota
	// Set writes New.
	Set
	// Swap writes New if it holds Old, and reports whether it did.
	Swap
	// Delete makes it absent, and reports whether it was not.
	Delete
)

// Value is what a register holds: 0 means that it is absent.
type Value uint64

// Call is one operation on the register of a key, which is absent at the start.
type Call struct {
	check.Call
	Key  string
	Kind Kind
	// Old and New are arguments of Set and Swap.
	Old, New Value
	// Got is what Get read, Done what Swap and Delete returned. They count only if
	// the call is OK.
	Got  Value
	Done bool
}

// String returns the call and its answer.
func (c Call) String() string {
	what := ""
	switch c.Kind {
	case Get:
		what = fmt.Sprintf("get %s -> %d", c.Key, c.Got)
	case Set:
		what = fmt.Sprintf("set %s %d", c.Key, c.New)
	case Swap:
		what = fmt.Sprintf("swap %s %d for %d -> %v", c.Key, c.Old, c.New, c.Done)
	case Delete:
		what = fmt.Sprintf("delete %s -> %v", c.Key, c.Done)
	}
	return c.Call.String() + ": " + what
}

// step returns the register after the call, and whether the answer is right. An
// unknown call has no answer that could be wrong.
func (c Call) step(held Value) (right bool, after Value) {
	open := c.Status != check.OK
	switch c.Kind {
	case Get:
		return open || c.Got == held, held
	case Set:
		return true, c.New
	case Swap:
		if done := held == c.Old; done {
			return open || c.Done, c.New
		}
		return open || !c.Done, held
	}
	return open || c.Done == (held != 0), 0
}

// Check reports whether each register is linearizable.
func Check(calls []Call) *check.Report {
	r := &check.Report{Calls: len(calls)}
	byKey := map[string][]int{}
	var keys []string
	for i, c := range calls {
		if c.Kind > Delete {
			r.Add(check.Anomaly{Kind: check.Malformed, Calls: []int{i}, Text: fmt.Sprintf("call %d is of kind %d, which there is not", i, c.Kind)})
			continue
		}
		// An open read tells nothing.
		if !r.CheckCall(i, c.Call) || c.Status == check.Failed || c.Kind == Get && c.Status != check.OK {
			continue
		}
		r.Judged++
		if c.Status == check.OK && c.Kind != Set {
			r.Reads++
		}
		if byKey[c.Key] == nil {
			keys = append(keys, c.Key)
		}
		byKey[c.Key] = append(byKey[c.Key], i)
	}
	for _, key := range keys {
		if on := byKey[key]; len(on) > MaxCalls {
			r.Add(check.Anomaly{Kind: check.Malformed, Text: fmt.Sprintf("key %s has %d calls, more than %d: use more keys", key, len(on), MaxCalls)})
		} else {
			checkKey(r, key, calls, on, maxSteps)
		}
	}
	return r
}

// checkKey adds an anomaly if the calls on a key, by their indices, have no order.
func checkKey(r *check.Report, key string, calls []Call, on []int, steps int) {
	history := make([]porcupine.Operation, len(on))
	for n, i := range on {
		c := calls[i]
		history[n] = porcupine.Operation{Input: c, Call: c.Invoke, Return: c.Return}
		if c.Status != check.OK {
			// It may come last, after all reads, which is as good as never.
			history[n].Return = math.MaxInt64
		}
	}
	if left := steps; porcupine.CheckOperations(newModel(&left), history) {
		return
	} else if left < 0 {
		r.Add(check.Anomaly{Kind: check.Undecided, Calls: on, Text: fmt.Sprintf("key %s: gave up; use fewer clients, or more keys", key)})
		return
	}
	// Again, for the reason: to note it all the time would make each search dear.
	_, info := porcupine.CheckOperationsVerbose(newModel(&steps), history, 0)
	r.Add(check.Anomaly{Kind: check.NotLinearizable, Calls: on, Text: explainKey(key, calls, on, info)})
}

// newModel is a register for a search of that many steps. Invariant: if fewer than
// 0 are left, a verdict against the history means nothing.
func newModel(steps *int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return Value(0) },
		Step: func(held, call, _ any) (bool, any) {
			if *steps--; *steps < 0 {
				return false, held // so the search soon runs out of ways
			}
			return call.(Call).step(held.(Value))
		},
	}
}

// explainKey returns how far the calls can be ordered, and what comes next then.
func explainKey(key string, calls []Call, on []int, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, partial := range info.PartialLinearizations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	const shown = 6
	var b strings.Builder
	fmt.Fprintf(&b, "key %s: of %d calls, %d can be ordered; the last of them are", key, len(on), len(longest))
	for _, n := range longest[max(0, len(longest)-shown):] {
		fmt.Fprintf(&b, "\ncall %d is %v", on[n], calls[on[n]])
	}
	var rest []int
	for n, i := range on {
		if !slices.Contains(longest, n) {
			rest = append(rest, i)
		}
	}
	slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(calls[a].Invoke, calls[b].Invoke) })
	b.WriteString("\nand none of these can follow")
	for _, i := range rest[:min(len(rest), shown)] {
		fmt.Fprintf(&b, "\ncall %d is %v", i, calls[i])
	}
	return b.String()
}
