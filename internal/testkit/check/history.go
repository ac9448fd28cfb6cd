package check

import (
	"fmt"
	"strconv"
	"strings"
)

// Status is how a call ended.
type Status uint8

const (
	// Unknown means that the call was never answered: it took effect at some time
	// after its invocation, or will, or never does. A timeout is Unknown.
	Unknown Status = iota
	// OK means that the call was acknowledged.
	OK
	// Failed means that the call certainly had no effect and never will.
	Failed
)

// String returns the word for the status.
func (s Status) String() string {
	switch s {
	case OK:
		return "ok"
	case Failed:
		return "failed"
	}
	return "unknown"
}

// Call is when an operation ran, on whose behalf, and how it ended.
type Call struct {
	// Client is for the reader of a report; no verdict rests on it.
	Client int
	// Invoke and Return are instants of one clock that never goes back while
	// the history is recorded. Two calls are ordered if one returned strictly
	// before the other was invoked, so a coarse clock hides order: the strongest
	// is a number that every event takes next. Return counts only if OK.
	Invoke, Return int64
	// Status is how the call ended.
	Status Status
}

// isBefore reports whether c must have taken effect before d.
func (c Call) isBefore(d Call) bool { return c.Status == OK && c.Return < d.Invoke }

// String returns the client, the interval and the outcome.
func (c Call) String() string {
	end := "…"
	if c.Status == OK {
		end = strconv.FormatInt(c.Return, 10)
	}
	return fmt.Sprintf("client %d [%d,%s] %v", c.Client, c.Invoke, end, c.Status)
}

// Op is one step of a transaction: make it by [Append] or [Read].
type Op struct {
	// Key names the list.
	Key string
	// Read distinguishes a read from an append.
	Read bool
	// Element is what an append added.
	Element uint64
	// List is what a read saw, the oldest element first.
	List []uint64
}

// Append is the step that adds an element, new to the whole history, to the end
// of the list of a key.
func Append(key string, element uint64) Op { return Op{Key: key, Element: element} }

// Read is the step that saw the list of a key. A read that was never answered is
// left out of the history.
func Read(key string, list ...uint64) Op { return Op{Key: key, Read: true, List: list} }

// String returns the step in a few words; of a long list only its end.
func (o Op) String() string {
	if !o.Read {
		return fmt.Sprintf("append %s %d", o.Key, o.Element)
	}
	return "read " + o.Key + " " + formatList(o.List)
}

// formatList writes a list, or the end of a long one.
func formatList(list []uint64) string {
	const most = 8
	if len(list) <= most {
		return fmt.Sprint(list)
	}
	end := strings.Trim(fmt.Sprint(list[len(list)-most:]), "[]")
	return fmt.Sprintf("[… %s] (%d elements)", end, len(list))
}

// Txn is one transaction of a history: its steps in the order in which it took
// them. Of an unknown one these are the steps that are known, all its appends
// among them. Reports call the transaction at index 7 T7.
type Txn struct {
	Call
	Ops []Op
}

// String returns the call and the steps.
func (t Txn) String() string {
	ops := make([]string, len(t.Ops))
	for i, op := range t.Ops {
		ops[i] = op.String()
	}
	return t.Call.String() + ": " + strings.Join(ops, ", ")
}
