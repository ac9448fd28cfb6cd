package watch

import "github.com/cleavekv/cleave"

// Kind is what an event tells.
type Kind uint8

// The kinds of events.
const (
	// Set tells that a key or a field was written: Item is what it is now. One of a
	// hash itself, without a value, tells its version and expiry.
	Set Kind = iota + 1
	// Deleted tells that a key or a field is gone. The fields of a key are gone with
	// it; they may be named later, when the room that they take is given back.
	Deleted
	// Created tells that the key is a hash now, which has no fields but those that
	// are told after it.
	Created
	// Lost tells that more has changed than was kept for the watcher: anything that it
	// watches may have. Read that again. What changes from now on is told.
	Lost
	// Reset is for those who follow: forget what you know, the rows that there are
	// come next.
	Reset
	// Synced is for those who follow: the rows that there were have been told. What
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
	// After is a place in the feed: all before it was told. Keep it with what you made
	// of the event to go on from there with Options.From. While Follow tells rows it is
	// empty: there is no place to go on from but the beginning.
	After cleave.Cursor
}

// eventOf returns the event of a change, without a place.
func eventOf(op *cleave.ChangeOp, keysOnly bool) Event {
	e := Event{Kind: Set, Key: op.Key, Field: op.Field, Item: op.Item}
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

func (e *Event) size() int { return len(e.Key) + len(e.Field) + len(e.Item.Value) + eventBytes }

// eventBytes is about what an event takes besides its bytes.
const eventBytes = 200
