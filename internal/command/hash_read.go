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
	h, value, ok, err := e.loadField(c.Key, c.Field)
	switch {
	case err != nil:
		return failed(err)
	case !ok:
		return Reply{Version: h.version()}
	}
	return Reply{Kind: Bytes, Bytes: e.keep(value), Version: h.version()}
}

func (e *Env) loadField(p partition.Position, field []byte) (h hash, value []byte, ok bool, err error) {
	if h, err = e.loadHash(p); err != nil {
		return h, nil, false, err
	}
	value, ok, err = e.field(p, &h, field)
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
		return failed(err)
	}
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failed(err)
	}
	start := len(e.items)
	for _, field := range c.Fields {
		value, ok, err := e.field(c.Key, &h, field)
		if err != nil {
			return failed(err)
		}
		item := Item{Field: field, Found: ok}
		if ok {
			item.Value = e.keep(value)
		}
		e.items = append(e.items, item)
	}
	return e.itemsSince(start, h.version())
}

func (e *Env) itemsSince(start int, version uint64) Reply {
	return Reply{Kind: Items, Items: e.items[start:len(e.items):len(e.items)], Version: version}
}

// HExists is HEXISTS. The reply is 1 or 0.
type HExists struct {
	Key   partition.Position
	Field []byte
}

// Eval looks for a field.
func (c *HExists) Eval(e *Env) Reply {
	h, _, ok, err := e.loadField(c.Key, c.Field)
	if err != nil {
		return failed(err)
	}
	return truth(ok, h.version())
}

// HStrlen is HSTRLEN. The reply is the length of the field's value, 0 if it is
// absent.
type HStrlen struct {
	Key   partition.Position
	Field []byte
}

// Eval measures a field.
func (c *HStrlen) Eval(e *Env) Reply {
	h, value, ok, err := e.loadField(c.Key, c.Field)
	switch {
	case err != nil:
		return failed(err)
	case !ok:
		return number(0, h.version())
	}
	return number(int64(len(value)), h.version())
}

// HLen is HLEN. The reply is the number of fields.
type HLen struct{ Key partition.Position }

// Eval counts the fields, which is one read.
func (c *HLen) Eval(e *Env) Reply {
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failed(err)
	}
	return number(int64(h.fields), h.version())
}

// HGetAll is HGETALL. The reply has an item for each field, ordered by their
// bytes.
type HGetAll struct{ Key partition.Position }

// Eval reads the whole hash.
func (c *HGetAll) Eval(e *Env) Reply {
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failed(err)
	}
	start := len(e.items)
	if h.alive {
		err = e.scanFields(c.Key, &h, nil, func(field, value []byte, ok bool) bool {
			if ok {
				e.items = append(e.items, Item{Field: e.save(field), Value: e.save(value), Found: true})
			}
			return true
		})
	}
	if err != nil {
		return failed(err)
	}
	return e.itemsSince(start, h.version())
}

// scanFields visits the fields behind after, all of them if it is nil. ok is
// false for one that is left of another generation.
func (e *Env) scanFields(p partition.Position, h *hash, after []byte, visit func(field, value []byte, ok bool) bool) error {
	start := bytes.Clone(e.fieldKey(p, after))
	prefix := len(start) - len(after)
	if after != nil {
		start = append(start, 0)
	}
	end := bytes.Clone(start[:prefix])
	end[prefix-1] = afterTag
	var bad error
	err := e.Scan(start, end, false, func(key, raw []byte) bool {
		value, ok, err := h.element(raw)
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
}

// scanSlack is how many rows of dead generations an HScan passes over before it
// takes a break.
const scanSlack = 256

// Eval reads a piece.
func (c *HScan) Eval(e *Env) Reply {
	if c.Limit <= 0 {
		return failed(errLimit)
	}
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failed(err)
	}
	start, passed := len(e.items), 0
	var cursor []byte // where to go on, if there is more
	if h.alive {
		err = e.scanFields(c.Key, &h, c.After, func(field, value []byte, ok bool) bool {
			switch n := len(e.items) - start; {
			case !ok:
				if passed++; passed == scanSlack {
					cursor = e.save(field)
				}
			case n == c.Limit:
				cursor = e.items[start+n-1].Field
			default:
				e.items = append(e.items, Item{Field: e.save(field), Value: e.save(value), Found: true})
			}
			return cursor == nil
		})
	}
	if err != nil {
		return failed(err)
	}
	reply := e.itemsSince(start, h.version())
	reply.More, reply.Bytes = cursor != nil, cursor
	return reply
}
