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
	key []byte
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

// many is from where on a map is worth its while.
const many = 16

// push adds a change, and tells whether there was room.
func (q *queue) push(op *cleave.ChangeOp, before cleave.Cursor) (ok bool) {
	if q.keysOnly && op.Field != nil {
		return true // the key itself is told too, with its new version
	}
	e := q.find(op.Key)
	if e == nil {
		e = &entry{key: op.Key, before: before}
		q.add(e)
	} else if plant.Bug("watch-coalescing-reorders") {
		newer := &entry{key: op.Key, before: before}
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

// room tells whether a change of a key fits. The last one that is let in may pass the limit
// of bytes.
func (q *queue) room(key []byte) bool {
	return q.bytes < q.maxBytes && (q.len() < q.maxLen || q.find(key) != nil)
}

// find returns the entry of a key that may be told with it, nil if there is none.
func (q *queue) find(key []byte) *entry {
	if q.every || q.byKey != nil {
		return q.byKey[string(key)]
	}
	for _, e := range q.list[q.head:] {
		if bytes.Equal(e.key, key) {
			return e
		}
	}
	return nil
}

// add adds an entry. Few are looked at one by one: most who watch wait for one key.
func (q *queue) add(e *entry) {
	if q.head > len(q.list)/2 { // what was taken out is most of it
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, e)
	switch {
	case q.every:
	case q.byKey != nil:
		q.byKey[string(e.key)] = e
	case q.len() > many:
		q.byKey = map[string]*entry{}
		for _, e := range q.list[q.head:] {
			q.byKey[string(e.key)] = e
		}
	}
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
	e := q.list[q.head]
	q.list[q.head] = nil
	q.head++
	q.bytes -= e.bytes
	first := len(out)
	if e.self.Kind != 0 {
		out = append(out, e.self)
	}
	out = append(out, e.fields...)
	if delete(q.byKey, string(e.key)); q.len() == 0 {
		q.byKey = nil
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
