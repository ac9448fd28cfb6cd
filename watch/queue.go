package watch

import (
	"bytes"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
)

// queue is what waits for a watcher, in the order in which it began to wait.
//
// With coalescing there is one entry for each key, with its newest state: who comes late
// hears once of it. An entry knows the place before the first change that it stands
// for. So the place before the first entry is behind all that was taken out, and before
// all that was not: it is where to go on from.
type queue struct {
	every, keysOnly bool
	maxLen          int
	maxBytes        int

	list  []*entry // from head on
	head  int
	byKey map[string]*entry
	bytes int
}

// entry is a key that has changed.
type entry struct {
	// before is the place of the first change that is told by it.
	before cleave.Cursor
	// self is about the key itself; its Kind is 0 if it is about fields alone.
	self Event
	// fields are told after self. Invariant: no two of them have one name.
	fields []Event
	byName map[string]int // where they are, once there are many
	bytes  int
}

func (q *queue) len() int { return len(q.list) - q.head }

func (q *queue) clear() { q.list, q.head, q.byKey, q.bytes = nil, 0, nil, 0 }

// push adds a change, and tells whether there was room.
func (q *queue) push(op *cleave.ChangeOp, before cleave.Cursor) (ok bool) {
	if q.keysOnly && op.Field != nil {
		return true // the key itself is told too, with its new version
	}
	e := q.byKey[string(op.Key)]
	if e == nil {
		e = &entry{before: before}
		q.add(op.Key, e)
	} else if plant.Bug("watch-coalescing-reorders") {
		newer := &entry{before: before}
		newer.note(eventOf(op, q.keysOnly))
		q.list = append([]*entry{newer}, q.list[q.head:]...)
		q.head = 0
		return true
	}
	was := e.bytes
	e.note(eventOf(op, q.keysOnly))
	q.bytes += e.bytes - was
	// One that is larger than all room is let in alone.
	return q.len() <= q.maxLen && (q.bytes <= q.maxBytes || q.len() == 1 && len(e.fields) <= 1)
}

func (q *queue) add(key []byte, e *entry) {
	if q.head > len(q.list)/2 { // what was taken out is most of it
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, e)
	if q.every {
		return
	}
	if q.byKey == nil {
		q.byKey = map[string]*entry{}
	}
	q.byKey[string(key)] = e
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

// manyFields is from where on a map is faster than a look at each.
const manyFields = 16

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
	case len(e.fields) > manyFields:
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
	e := q.list[q.head]
	q.list[q.head] = nil
	q.head++
	q.bytes -= e.bytes
	first := len(out)
	if e.self.Kind != 0 {
		out = append(out, e.self)
		if q.byKey[string(e.self.Key)] == e {
			delete(q.byKey, string(e.self.Key))
		}
	}
	if out = append(out, e.fields...); len(e.fields) > 0 && q.byKey[string(e.fields[0].Key)] == e {
		delete(q.byKey, string(e.fields[0].Key))
	}
	for i := first; i < len(out); i++ {
		out[i].After = at
	}
	if q.len() > 0 && !plant.Bug("watch-cursor-ahead") {
		behind = q.list[q.head].before
	}
	out[len(out)-1].After = behind
	return out
}
