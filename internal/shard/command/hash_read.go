package command

import (
	"bytes"

	"github.com/cleavekv/cleave/partition"
)

// HGet is HGET. The reply is the value of the field, or Nil.
type HGet struct {
	Key   partition.Position
	Field []byte
}

// Eval reads a field.
func (c *HGet) Eval(e *Env) Reply {
	h, value, ok, err := e.loadHashField(c.Key, c.Field)
	switch {
	case err != nil:
		return failedReply(err)
	case !ok:
		return Reply{Version: h.keyVersion()}
	}
	return Reply{Kind: Bytes, Bytes: e.retainBytes(value), Version: h.keyVersion()}
}

func (e *Env) loadHashField(p partition.Position, field []byte) (h hashState, value []byte, ok bool, err error) {
	if h, err = e.loadHash(p); err != nil {
		return h, nil, false, err
	}
	value, ok, err = e.readField(p, &h, field)
	return h, value, ok, err
}

// HMGet is HMGET. The reply has an item for each field, in their order.
type HMGet struct {
	Key    partition.Position
	Fields [][]byte
}

// Eval reads the fields.
func (c *HMGet) Eval(e *Env) Reply {
	if err := CheckFields(len(c.Fields)); err != nil {
		return failedReply(err)
	}
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failedReply(err)
	}
	start := len(e.items)
	for _, field := range c.Fields {
		value, ok, err := e.readField(c.Key, &h, field)
		if err != nil {
			return failedReply(err)
		}
		item := Item{Field: field, Found: ok}
		if ok {
			item.Value = e.retainBytes(value)
		}
		e.items = append(e.items, item)
	}
	return e.newItemsReply(start, h.keyVersion())
}

func (e *Env) newItemsReply(start int, version uint64) Reply {
	return Reply{Kind: Items, Items: e.items[start:len(e.items):len(e.items)], Version: version}
}

// HExists is HEXISTS. The reply is 1 or 0.
type HExists struct {
	Key   partition.Position
	Field []byte
}

// Eval looks for a field.
func (c *HExists) Eval(e *Env) Reply {
	h, _, ok, err := e.loadHashField(c.Key, c.Field)
	if err != nil {
		return failedReply(err)
	}
	return boolReply(ok, h.keyVersion())
}

// HStrlen is HSTRLEN. The reply is the length of the field's value, 0 if it is
// absent.
type HStrlen struct {
	Key   partition.Position
	Field []byte
}

// Eval measures a field.
func (c *HStrlen) Eval(e *Env) Reply {
	h, value, ok, err := e.loadHashField(c.Key, c.Field)
	switch {
	case err != nil:
		return failedReply(err)
	case !ok:
		return intReply(0, h.keyVersion())
	}
	return intReply(int64(len(value)), h.keyVersion())
}

// HLen is HLEN. The reply is the number of fields.
type HLen struct{ Key partition.Position }

// Eval counts the fields, which is one read.
func (c *HLen) Eval(e *Env) Reply {
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failedReply(err)
	}
	return intReply(int64(h.fieldCount), h.keyVersion())
}

// HGetAll is HGETALL. The reply has an item for each field, ordered by their
// bytes.
type HGetAll struct{ Key partition.Position }

// Eval reads the whole hash.
func (c *HGetAll) Eval(e *Env) Reply {
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failedReply(err)
	}
	start := len(e.items)
	if h.alive {
		err = e.scanFields(c.Key, &h, nil, func(field, value []byte, ok bool) bool {
			if ok {
				e.items = append(e.items, Item{Field: e.copyToArena(field), Value: e.copyToArena(value), Found: true})
			}
			return true
		})
	}
	if err != nil {
		return failedReply(err)
	}
	return e.newItemsReply(start, h.keyVersion())
}

// scanFields visits the fields behind after, all of them if it is nil. ok is
// false for one that is left of another generation.
func (e *Env) scanFields(p partition.Position, h *hashState, after []byte, visit func(field, value []byte, ok bool) bool) error {
	start := bytes.Clone(e.makeFieldKey(p, after))
	prefix := len(start) - len(after)
	if after != nil {
		start = append(start, 0)
	}
	end := bytes.Clone(start[:prefix])
	end[prefix-1] = afterFieldTag
	var bad error
	err := e.Scan(start, end, false, func(key, raw []byte) bool {
		value, ok, err := h.decodeElement(raw)
		if err != nil {
			bad = err
			return false
		}
		return visit(key[prefix:], value, ok)
	})
	if err != nil {
		return err
	}
	return bad
}

// HScan reads a hash in pieces, ordered by field. The reply has up to Limit
// items; if More, continue with After = Bytes, which is not nil then. Fields
// that are there during the whole of it are seen exactly once.
type HScan struct {
	Key partition.Position
	// After is where to go on, nil for the beginning.
	After []byte
	Limit int
	// MaxBytes is after how many bytes of names and values the piece ends, whatever Limit is; 0 for never.
	MaxBytes int
}

// maxSkippedRows is how many rows of dead generations an HScan passes over before it
// takes a break.
const maxSkippedRows = 256

// Eval reads a piece.
func (c *HScan) Eval(e *Env) Reply {
	if c.Limit <= 0 {
		return failedReply(errLimit)
	}
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failedReply(err)
	}
	start, passed, size := len(e.items), 0, 0
	var cursor []byte // where to go on, if there is more
	if h.alive {
		err = e.scanFields(c.Key, &h, c.After, func(field, value []byte, ok bool) bool {
			switch n := len(e.items) - start; {
			case !ok:
				if passed++; passed == maxSkippedRows {
					cursor = e.copyToArena(field)
				}
			case n == c.Limit, c.MaxBytes > 0 && size >= c.MaxBytes:
				cursor = e.items[start+n-1].Field
			default:
				size += len(field) + len(value)
				e.items = append(e.items, Item{Field: e.copyToArena(field), Value: e.copyToArena(value), Found: true})
			}
			return cursor == nil
		})
	}
	if err != nil {
		return failedReply(err)
	}
	reply := e.newItemsReply(start, h.keyVersion())
	reply.More, reply.Bytes = cursor != nil, cursor
	return reply
}
