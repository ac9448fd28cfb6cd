package watch

import (
	"bytes"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/waiting"
)

// queue is what waits for a watcher, in the order in which it began to wait. With
// coalescing there is one entry for each key, with its newest state: who comes late
// hears once of it.
type queue struct {
	every, keysOnly bool
	maxLen          int
	maxBytes        int

	waits waiting.Queue[cleave.Cursor, entry]
	bytes int
}

// entry is what is told of a key that has changed.
type entry struct {
	// self is about the key itself; its Kind is 0 if it is about fields alone.
	self Event
	// fields are told after self. Invariant: no two of them have one name.
	fields []Event
	byName map[string]int // where they are, once there are many
	bytes  int
}

func (q *queue) len() int { return q.waits.Len() }

func (q *queue) clear() {
	q.waits.Clear()
	q.bytes = 0
}

// push adds a change, and tells whether there was room.
func (q *queue) push(op *cleave.ChangeOp, before cleave.Cursor) (ok bool) {
	if q.keysOnly && op.Field != nil {
		return true // the key itself is told too, with its new version
	}
	var waits *waiting.Entry[cleave.Cursor, entry]
	if q.every {
		waits = q.waits.Add(op.Key, before)
	} else {
		waits = q.waits.Of(op.Key, before)
	}
	e := &waits.Value
	was := e.bytes
	e.note(eventOf(op, q.keysOnly))
	q.bytes += e.bytes - was
	// One that is larger than all room is let in alone.
	return q.len() <= q.maxLen && (q.bytes <= q.maxBytes || q.len() == 1 && len(e.fields) <= 1)
}

// room tells whether a change of a key fits. The last one that is let in may pass the limit
// of bytes.
func (q *queue) room(key []byte) bool {
	return q.bytes < q.maxBytes && (q.len() < q.maxLen || !q.every && q.waits.Has(key))
}

// note makes an entry tell what was told before and a later event. What becomes of a key
// as a whole becomes of its fields too.
func (e *entry) note(v Event) {
	if v.Field != nil {
		e.noteField(v)
		return
	}
	touched := v.Kind == Set && v.Item.Value == nil // a hash that stays one
	switch {
	case touched && e.self.Kind == Created:
		v.Kind = Created // still, with other fields
	case !touched:
		e.fields, e.byName, e.bytes = nil, nil, 0
	}
	e.bytes += v.size()
	if e.self.Kind != 0 && touched {
		e.bytes -= e.self.size()
	}
	e.self = v
}

// many is from where on a map of names is worth its while.
const many = 16

func (e *entry) noteField(v Event) {
	e.bytes += v.size()
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
		e.bytes -= e.fields[at].size()
		e.fields[at] = v
		return
	}
	e.fields = append(e.fields, v)
	switch {
	case e.byName != nil:
		e.byName[string(v.Field)] = len(e.fields) - 1
	case len(e.fields) > many:
		e.byName = map[string]int{}
		for i := range e.fields {
			e.byName[string(e.fields[i].Field)] = i
		}
	}
}

// pop takes the first entry out and appends its events to out. The last of them has the
// place behind all that was taken out: before the next entry, or behind the queue. The
// others have the place at which the caller is.
func (q *queue) pop(out []Event, at, behind cleave.Cursor) []Event {
	taken, behind := q.waits.Take(behind)
	e := &taken.Value
	q.bytes -= e.bytes
	first := len(out)
	if e.self.Kind != 0 {
		out = append(out, e.self)
	}
	out = append(out, e.fields...)
	for i := first; i < len(out); i++ {
		out[i].After = at
	}
	out[len(out)-1].After = behind
	return out
}
