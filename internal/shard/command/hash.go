package command

import (
	"bytes"
	"strconv"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// hashState is the own row of a key that holds a Hash, or could.
type hashState struct {
	oldRow     Row // what is there, also if it is dead
	alive      bool
	generation uint64 // 0 if not alive: no element has it
	fieldCount uint64
}

// loadHash is load for commands of hashes. Unlike a Row, the result is good for
// ever: it holds no views.
func (e *Env) loadHash(p partition.Position) (h hashState, err error) {
	row, alive, err := e.loadRow(p)
	if err != nil {
		return hashState{}, err
	}
	if alive && row.Kind != Hash {
		return hashState{}, ErrWrongType
	}
	row.Payload = nil // of a dead string
	h = hashState{oldRow: row, alive: alive}
	if alive {
		h.generation, h.fieldCount = row.Generation, row.Length
	}
	return h, nil
}

// keyVersion of the key, 0 if it is absent.
func (h *hashState) keyVersion() uint64 {
	if !h.alive {
		return 0
	}
	return h.oldRow.Version
}

// makeFieldKey makes the store key of a field in e.key.
func (e *Env) makeFieldKey(p partition.Position, field []byte) []byte {
	e.keyBuf = append(effect.Rows.AppendKey(e.keyBuf[:0], p), fieldTag)
	e.keyBuf = append(e.keyBuf, field...)
	return e.keyBuf
}

// FieldPosition is the position of a field of the hash at p.
func FieldPosition(p partition.Position, field []byte) partition.Position {
	at := make(partition.Position, 0, len(p)+1+len(field))
	return append(append(append(at, p...), fieldTag), field...)
}

// FieldName returns the name of the field that an element of a position is
// about: what [partition.Keyspace.Split] returned. nil if it is no field.
func FieldName(element []byte) []byte {
	if len(element) == 0 || element[0] != fieldTag {
		return nil
	}
	return element[1:]
}

// readField reads a field of a hash. The value is good until the next lookup or
// write, unless kept.
func (e *Env) readField(p partition.Position, h *hashState, field []byte) (value []byte, ok bool, err error) {
	if !h.alive {
		return nil, false, nil
	}
	if err := CheckField(field); err != nil {
		return nil, false, err
	}
	raw, ok, err := e.lookupRow(e.makeFieldKey(p, field))
	if err != nil || !ok {
		return nil, false, err
	}
	return h.decodeElement(raw)
}

// decodeElement takes the row of an element apart. It belongs to the hash only if it
// is of its generation.
func (h *hashState) decodeElement(raw []byte) (value []byte, ok bool, err error) {
	row, err := DecodeRow(raw)
	if err != nil || row.Kind != Element {
		return nil, false, newBadRowError(raw)
	}
	return row.Payload, row.Version == h.generation, nil
}

// hashEditor is a hash that a command is changing.
type hashEditor struct {
	hashState
	env *Env
	key partition.Position
	// isNew reports whether this command creates the hash, and isFresh whether this batch does, so that no
	// field can be in the committed state.
	isNew, isFresh bool
}

// freshHash names the last hash that a batch has created. A large hash is written by one command
// after another: none of them has to look in the committed state for fields that cannot be there.
// BenchmarkHSet_NewHashInSeveralCommands measures what that saves.
type freshHash struct {
	key        partition.Position
	generation uint64 // 0 for none
}

func (f *freshHash) is(p partition.Position, generation uint64) bool {
	return f.generation != 0 && f.generation == generation && bytes.Equal(f.key, p)
}

// editHash begins to change the hash at p, creating it if it is absent.
func (e *Env) editHash(p partition.Position) (hashEditor, error) {
	h, err := e.loadHash(p)
	if err != nil {
		return hashEditor{}, err
	}
	x := hashEditor{hashState: h, env: e, key: p}
	if !h.alive {
		x.isNew, x.alive = true, true
		x.generation = e.nextVersion // the version that finish will give out
	}
	x.isFresh = x.isNew || e.freshHash.is(p, x.generation)
	return x, nil
}

// readField is field, for a hash that may be new.
func (x *hashEditor) readField(field []byte) (value []byte, ok bool, err error) {
	if !x.isFresh {
		return x.env.readField(x.key, &x.hashState, field)
	}
	if err := CheckField(field); err != nil {
		return nil, false, err
	}
	raw, ok, _ := x.env.lookupWritten(x.env.makeFieldKey(x.key, field))
	if !ok {
		return nil, false, nil
	}
	return x.decodeElement(raw)
}

// setField sets a field. existed is what read has returned about it.
func (x *hashEditor) setField(field, value []byte, existed bool) error {
	if err := checkValueBytes(len(value)); err != nil {
		return err
	}
	var head [maxHeadBytes]byte
	row := Row{Kind: Element, Version: x.generation}
	x.env.putRow(x.env.makeFieldKey(x.key, field), row.appendHead(head[:0]), value)
	if !existed {
		x.fieldCount++
	}
	return nil
}

// deleteField removes a field that exists.
func (x *hashEditor) deleteField(field []byte) {
	x.env.deleteRow(x.env.makeFieldKey(x.key, field))
	x.fieldCount--
}

// finish writes the hash's own row and returns its version, or removes it if no
// field is left.
func (x *hashEditor) finish() uint64 {
	if x.fieldCount == 0 {
		x.env.removeRow(x.key, &x.oldRow, true)
		return 0
	}
	row := Row{Kind: Hash, Generation: x.generation, Length: x.fieldCount}
	if x.isNew {
		x.env.freshHash = freshHash{append(x.env.freshHash.key[:0], x.key...), x.generation}
	} else {
		row.ExpiryMS = x.oldRow.ExpiryMS
	}
	return x.env.replaceRow(x.key, &x.oldRow, row)
}

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
	if err := c.checkSize(); err != nil {
		return failedReply(err)
	}
	x, err := e.editHash(c.Key)
	if err != nil {
		return failedReply(err)
	}
	before, changed := x.fieldCount, false
	for _, f := range c.Fields {
		_, ok, err := x.readField(f.Field)
		if err != nil {
			return failedReply(err)
		}
		if ok && c.OnlyNew {
			continue
		}
		if err := x.setField(f.Field, f.Value, ok); err != nil {
			return failedReply(err)
		}
		changed = true
	}
	if !changed {
		return intReply(0, x.keyVersion())
	}
	return intReply(int64(x.fieldCount-before), x.finish())
}

// checkSize holds several fields to the limit of a transaction: each may be as large
// as a value, and carries the key in front of its name.
func (c *HSet) checkSize() error {
	size := 0
	for i := range c.Fields {
		size += len(c.Key) + len(c.Fields[i].Field) + len(c.Fields[i].Value)
	}
	if len(c.Fields) > 1 && size > MaxTxnBytes {
		return &LimitError{"transaction", size, MaxTxnBytes}
	}
	return CheckFields(len(c.Fields))
}

// CheckFields refuses a command without fields. How many it has is bounded by their bytes.
func CheckFields(n int) error {
	if n == 0 {
		return errNoFields
	}
	return nil
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
		return failedReply(err)
	}
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failedReply(err)
	}
	x := hashEditor{hashState: h, env: e, key: c.Key}
	n, start := int64(0), e.Savepoint()
	for _, field := range c.Fields {
		_, ok, err := e.readField(c.Key, &x.hashState, field)
		if err != nil {
			return failedReply(err)
		}
		if ok {
			x.deleteField(field)
			n++
		}
		if err := e.CheckTxn(start); err != nil {
			return failedReply(err)
		}
	}
	if n == 0 {
		return intReply(0, h.keyVersion())
	}
	return intReply(n, x.finish())
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
		return failedReply(err)
	}
	value, ok, err := x.readField(c.Field)
	if err != nil {
		return failedReply(err)
	}
	sum, err := addInteger(value, ok, c.Delta)
	if err != nil {
		return failedReply(err)
	}
	e.valueBuf = strconv.AppendInt(e.valueBuf[:0], sum, 10)
	if err := x.setField(c.Field, e.valueBuf, ok); err != nil {
		return failedReply(err)
	}
	return intReply(sum, x.finish())
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
		return failedReply(err)
	}
	x, err := e.editHash(c.Key)
	if err != nil {
		return failedReply(err)
	}
	value, ok, err := x.readField(c.Field)
	if err != nil {
		return failedReply(err)
	}
	if e.valueBuf, err = appendFloatSum(e.valueBuf[:0], value, ok, delta); err != nil {
		return failedReply(err)
	}
	if err := x.setField(c.Field, e.valueBuf, ok); err != nil {
		return failedReply(err)
	}
	version := x.finish()
	return Reply{Kind: Bytes, Bytes: e.copyToArena(e.valueBuf), Version: version}
}
