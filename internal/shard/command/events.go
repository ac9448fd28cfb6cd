package command

import (
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// Event is what a command did to a key, as Redis names it in keyspace notifications.
type Event byte

// The events. Their numbers are in logs: none is ever changed or used again.
const (
	// NoEvent is that of a command that changes no key, or that others speak for.
	NoEvent Event = iota
	EventNew
	EventSet
	EventSetRange
	EventAppend
	EventIncrBy
	EventIncrByFloat
	EventSetBit
	EventExpire
	EventPersist
	EventDel
	EventExpired
	EventHSet
	EventHDel
	EventHIncrBy
	EventHIncrByFloat
	EventRenameFrom
	EventRenameTo
	EventCopyTo
	EventRestore
)

// RecordEvents switches on or off that the batches from the next Begin on carry the event of
// each write, in [effect.Events]. The group decides: most of the time there is no subscriber,
// and then events would only take space in the log.
func (e *Env) RecordEvents(on bool) { e.recordsEvents = on }

// RecordsEvents reports whether the batch carries events.
func (e *Env) RecordsEvents() bool { return e.recordsEvents }

// commandEvent is the event of a key that a command writes. A command that deletes keys has
// none of its own: remove knows what it does.
func commandEvent(c Command) Event {
	switch c := c.(type) {
	case *Set:
		return EventSet
	case *SetRange:
		return EventSetRange
	case *Append:
		return EventAppend
	case *Add:
		return EventIncrBy
	case *AddFloat:
		return EventIncrByFloat
	case *SetBit, *BitField:
		return EventSetBit
	case *Expire:
		return EventExpire
	case *Persist:
		return EventPersist
	case *HSet:
		return EventHSet
	case *HDel:
		return EventHDel
	case *HIncrBy:
		return EventHIncrBy
	case *HIncrByFloat:
		return EventHIncrByFloat
	case *WithoutEvents:
		return commandEvent(c.Command)
	}
	return NoEvent
}

// evalCommand evaluates one of the commands that another is made of.
func (e *Env) evalCommand(c Command) Reply {
	if !e.recordsEvents {
		return c.Eval(e)
	}
	event, then := e.event, e.followUpEvent
	e.event, e.followUpEvent = commandEvent(c), NoEvent
	if set, ok := c.(*Set); ok && (set.Expiry.mode == expiryIn || set.Expiry.mode == expiryAt) {
		e.followUpEvent = EventExpire
	}
	reply := c.Eval(e)
	e.event, e.followUpEvent = event, then
	return reply
}

// recordWriteEvents records that a row was written over another one.
func (e *Env) recordWriteEvents(p partition.Position, old *Row) {
	alive := e.recordIfExpired(p, old)
	if e.eventsOff {
		return
	}
	if !alive {
		e.recordEvent(p, EventNew)
	}
	e.recordEvent(p, e.event)
	e.recordEvent(p, e.followUpEvent)
}

// recordRemoveEvents records that a row was removed, if it was there.
func (e *Env) recordRemoveEvents(p partition.Position, old *Row) {
	if !e.recordIfExpired(p, old) || e.eventsOff {
		return
	}
	if e.event == EventHDel {
		e.recordEvent(p, EventHDel)
	}
	e.recordEvent(p, EventDel)
}

// recordIfExpired records that a row which is about to go had expired, and reports whether
// the key was there.
func (e *Env) recordIfExpired(p partition.Position, old *Row) (alive bool) {
	if old.Kind == None {
		return false
	}
	if alive = e.isAlive(p, old); !alive {
		e.recordEvent(p, EventExpired)
	}
	return alive
}

// recordEvent adds an event to the batch. No command reads that table, so the overlay need not
// know of it.
func (e *Env) recordEvent(p partition.Position, event Event) {
	if event == NoEvent {
		return
	}
	e.keyBuf = effect.Events.AppendKey(e.keyBuf[:0], p)
	e.effects.Put(e.keyBuf, []byte{byte(event)})
}

// WithoutEvents evaluates a command that is one step of several: a [RecordKeyEvents] records
// what they are together. That a key has expired is recorded all the same.
type WithoutEvents struct{ Command Command }

// Eval evaluates the command.
func (c *WithoutEvents) Eval(e *Env) Reply {
	outer := e.eventsOff
	e.eventsOff = true
	reply := e.Do(c.Command)
	e.eventsOff = outer
	return reply
}

// RecordKeyEvents records events of a key, and changes nothing. It is for a caller that writes
// the key in several steps.
type RecordKeyEvents struct {
	Key    partition.Position
	Events []Event
}

// Eval records the events.
func (c *RecordKeyEvents) Eval(e *Env) Reply {
	if !e.recordsEvents {
		return Reply{Kind: OK}
	}
	if err := checkPosition(c.Key); err != nil {
		return failedReply(err)
	}
	e.ensureWritable(c.Key)
	for _, event := range c.Events {
		e.recordEvent(c.Key, event)
	}
	return Reply{Kind: OK}
}
