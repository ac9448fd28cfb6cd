package watch

import (
	"bytes"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/watchbuffer"
)

// Kind is what an event reports.
type Kind uint8

// The kinds of events.
const (
	// Set means that a key or a field was written: Item is what it is now. One of a
	// hash itself, without a value, has its version and expiry.
	Set Kind = iota + 1
	// Deleted means that a key or a field is gone. The fields of a key are gone with
	// it; they may be named later, when the room that they take is given back.
	Deleted
	// Created means that the key is a hash now, which has no fields but those that
	// come after it.
	Created
	// Lost means that more has changed than was kept for the watcher: anything that it
	// watches may have. Read that again. Later changes follow.
	Lost
	// Reset is for followers: forget what you know, the rows that there are
	// come next.
	Reset
	// Synced is for followers: all existing rows have been sent. What
	// comes now are changes.
	Synced
)

// String is the word for k.
func (k Kind) String() string {
	words := [...]string{Set: "set", Deleted: "deleted", Created: "created", Lost: "lost", Reset: "reset", Synced: "synced"}
	if int(k) >= len(words) || words[k] == "" {
		return "unknown"
	}
	return words[k]
}

// Event is something that has changed. Its bytes are shared with other watchers: do
// not change them.
type Event struct {
	Kind Kind
	// Key is what has changed, and Field the field if it is a hash; nil if it is about
	// the key itself.
	Key, Field []byte
	// Item is the value, version and expiry. A field has a value alone, and the Value
	// of a hash itself is nil.
	Item cleave.Item
	// Large reports whether the key holds a long string that was changed in place: the feed
	// does not have its Value. Read the key.
	Large bool
	// After is a place in the feed: all before it was sent. Keep it with what you made
	// of the event to go on from there with Options.From. While Follow sends rows it is
	// empty: there is no place to go on from but the beginning.
	After cleave.Cursor
}

// newEvent returns the event of a change, without a place.
func newEvent(op *cleave.ChangeOp, keysOnly bool) Event {
	e := Event{Kind: Set, Key: op.Key, Field: op.Field, Item: op.Item, Large: op.Large}
	switch {
	case op.Deleted:
		e.Kind = Deleted
	case op.Created && !keysOnly:
		e.Kind = Created
	}
	if keysOnly {
		e.Item.Value = nil
	}
	return e
}

func (e *Event) sizeBytes() int { return len(e.Key) + len(e.Field) + len(e.Item.Value) + eventOverhead }

// eventOverhead is about what an event takes besides its bytes.
const eventOverhead = 200

// eventQueue is what waits for a watcher, in the order in which it began to wait. With
// coalescing there is one entry for each key, with its newest state: a slow watcher
// gets it once.
type eventQueue struct {
	every, keysOnly bool
	maxLen          int
	maxBytes        int

	buffer watchbuffer.Buffer[cleave.Cursor, keyEvents]
	bytes  int
}

// keyEvents are the pending events of a key that has changed.
type keyEvents struct {
	// keyEvent is about the key itself; its Kind is 0 if it is about fields alone.
	keyEvent Event
	// fields come after self. Invariant: no two of them have one name.
	fields []Event
	byName map[string]int // where they are, once there are many
	bytes  int
}

func (q *eventQueue) len() int { return q.buffer.Len() }

func (q *eventQueue) clear() {
	q.buffer.Clear()
	q.bytes = 0
}

// push adds a change, and reports whether there was room.
func (q *eventQueue) push(op *cleave.ChangeOp, before cleave.Cursor) (ok bool) {
	if q.keysOnly && op.Field != nil {
		return true // the key itself is reported too, with its new version
	}
	var waits *watchbuffer.Entry[cleave.Cursor, keyEvents]
	if q.every {
		waits = q.buffer.Append(op.Key, before)
	} else {
		waits = q.buffer.GetOrAdd(op.Key, before)
	}
	e := &waits.Value
	was := e.bytes
	e.addEvent(newEvent(op, q.keysOnly))
	q.bytes += e.bytes - was
	// One that is larger than all room is let in alone.
	return q.len() <= q.maxLen && (q.bytes <= q.maxBytes || q.len() == 1 && len(e.fields) <= 1)
}

// hasRoom reports whether a change of a key fits. The last one that is let in may pass the limit
// of bytes.
func (q *eventQueue) hasRoom(key []byte) bool {
	return q.bytes < q.maxBytes && (q.len() < q.maxLen || !q.every && q.buffer.Has(key))
}

// addEvent merges a later event into an entry. What becomes of a key
// as a whole becomes of its fields too.
func (e *keyEvents) addEvent(v Event) {
	if v.Field != nil {
		e.addFieldEvent(v)
		return
	}
	touched := v.Kind == Set && v.Item.Value == nil && !v.Large // a hash that stays one
	switch {
	case touched && e.keyEvent.Kind == Created:
		v.Kind = Created // still, with other fields
	case !touched:
		e.fields, e.byName, e.bytes = nil, nil, 0
	}
	e.bytes += v.sizeBytes()
	if e.keyEvent.Kind != 0 && touched {
		e.bytes -= e.keyEvent.sizeBytes()
	}
	e.keyEvent = v
}

// minIndexedFields is from where on a map of names is worth its while.
const minIndexedFields = 16

func (e *keyEvents) addFieldEvent(v Event) {
	e.bytes += v.sizeBytes()
	at := -1
	if e.byName != nil {
		if i, ok := e.byName[string(v.Field)]; ok {
			at = i
		}
	} else {
		for i := range e.fields {
			if bytes.Equal(e.fields[i].Field, v.Field) {
				at = i
			}
		}
	}
	if at >= 0 {
		e.bytes -= e.fields[at].sizeBytes()
		e.fields[at] = v
		return
	}
	e.fields = append(e.fields, v)
	switch {
	case e.byName != nil:
		e.byName[string(v.Field)] = len(e.fields) - 1
	case len(e.fields) > minIndexedFields:
		e.byName = map[string]int{}
		for i := range e.fields {
			e.byName[string(e.fields[i].Field)] = i
		}
	}
}

// pop takes the first entry out and appends its events to out. The last of them has the
// place behind all that was taken out: before the next entry, or behind the queue. The
// others have the place at which the caller is.
func (q *eventQueue) pop(out []Event, at, behind cleave.Cursor) []Event {
	taken, behind := q.buffer.Pop(behind)
	e := &taken.Value
	q.bytes -= e.bytes
	first := len(out)
	if e.keyEvent.Kind != 0 {
		out = append(out, e.keyEvent)
	}
	out = append(out, e.fields...)
	for i := first; i < len(out); i++ {
		out[i].After = at
	}
	out[len(out)-1].After = behind
	return out
}
