package command

import (
	"strconv"

	"github.com/cleavekv/cleave/partition"
)

// FieldValue is a field of a hash to be set.
type FieldValue struct{ Field, Value []byte }

// HSet is HSET. The reply is how many of the fields are new.
type HSet struct {
	Key    partition.Position
	Fields []FieldValue
	// OnlyNew is HSETNX: a field that exists stays as it is.
	OnlyNew bool
}

// Eval sets the fields.
func (c *HSet) Eval(e *Env) Reply {
	if err := c.check(); err != nil {
		return failed(err)
	}
	x, err := e.editHash(c.Key)
	if err != nil {
		return failed(err)
	}
	before, changed := x.fields, false
	for _, f := range c.Fields {
		_, ok, err := x.read(f.Field)
		if err != nil {
			return failed(err)
		}
		if ok && c.OnlyNew {
			continue
		}
		if err := x.write(f.Field, f.Value, ok); err != nil {
			return failed(err)
		}
		changed = true
	}
	if !changed {
		return number(0, x.version())
	}
	return number(int64(x.fields-before), x.finish())
}

// check holds several fields to the limit of a transaction: each may be as large
// as a value, and carries the key in front of its name.
func (c *HSet) check() error {
	size := 0
	for i := range c.Fields {
		size += len(c.Key) + len(c.Fields[i].Field) + len(c.Fields[i].Value)
	}
	if len(c.Fields) > 1 && size > MaxTxnBytes {
		return &LimitError{"transaction", size, MaxTxnBytes}
	}
	return CheckFields(len(c.Fields))
}

// CheckFields refuses a number of fields that a command cannot have.
func CheckFields(n int) error {
	if n == 0 {
		return errNoFields
	}
	return checkCount(n)
}

// HDel is HDEL. The reply is how many of the fields there were. A hash without
// fields does not exist.
type HDel struct {
	Key    partition.Position
	Fields [][]byte
}

// Eval removes the fields.
func (c *HDel) Eval(e *Env) Reply {
	if err := CheckFields(len(c.Fields)); err != nil {
		return failed(err)
	}
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failed(err)
	}
	x := edit{hash: h, env: e, key: c.Key}
	n, start := int64(0), e.Mark()
	for _, field := range c.Fields {
		_, ok, err := e.field(c.Key, &x.hash, field)
		if err != nil {
			return failed(err)
		}
		if ok {
			x.erase(field)
			n++
		}
		if err := e.checkTxn(start, 0); err != nil {
			return failed(err)
		}
	}
	if n == 0 {
		return number(0, h.version())
	}
	return number(n, x.finish())
}

// HIncrBy is HINCRBY: Add for a field. The reply is the sum.
type HIncrBy struct {
	Key   partition.Position
	Field []byte
	Delta int64
}

// Eval adds to a field.
func (c *HIncrBy) Eval(e *Env) Reply {
	x, err := e.editHash(c.Key)
	if err != nil {
		return failed(err)
	}
	value, ok, err := x.read(c.Field)
	if err != nil {
		return failed(err)
	}
	sum, err := addInt(value, ok, c.Delta)
	if err != nil {
		return failed(err)
	}
	e.join = strconv.AppendInt(e.join[:0], sum, 10)
	if err := x.write(c.Field, e.join, ok); err != nil {
		return failed(err)
	}
	return number(sum, x.finish())
}

// HIncrByFloat is HINCRBYFLOAT: AddFloat for a field. The reply is the sum.
type HIncrByFloat struct {
	Key          partition.Position
	Field, Delta []byte
}

// Eval adds to a field.
func (c *HIncrByFloat) Eval(e *Env) Reply {
	delta, err := parseFloat(c.Delta)
	if err != nil {
		return failed(err)
	}
	x, err := e.editHash(c.Key)
	if err != nil {
		return failed(err)
	}
	value, ok, err := x.read(c.Field)
	if err != nil {
		return failed(err)
	}
	if e.join, err = appendFloatSum(e.join[:0], value, ok, delta); err != nil {
		return failed(err)
	}
	if err := x.write(c.Field, e.join, ok); err != nil {
		return failed(err)
	}
	version := x.finish()
	return Reply{Kind: Bytes, Bytes: e.save(e.join), Version: version}
}
