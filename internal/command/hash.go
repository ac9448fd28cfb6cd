package command

import (
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// hash is the own row of a key that holds a Hash, or could.
type hash struct {
	old        Row // what is there, also if it is dead
	alive      bool
	generation uint64 // 0 if not alive: no element has it
	fields     uint64
}

// loadHash is load for commands of hashes. Unlike a Row, the result is good for
// ever: it holds no views.
func (e *Env) loadHash(p partition.Position) (h hash, err error) {
	row, alive, err := e.load(p)
	if err != nil {
		return hash{}, err
	}
	if alive && row.Kind != Hash {
		return hash{}, ErrWrongType
	}
	row.Payload = nil // of a dead string
	h = hash{old: row, alive: alive}
	if alive {
		h.generation, h.fields = row.Generation, row.Fields
	}
	return h, nil
}

// version of the key, 0 if it is absent.
func (h *hash) version() uint64 {
	if !h.alive {
		return 0
	}
	return h.old.Version
}

// fieldKey makes the store key of a field in e.key.
func (e *Env) fieldKey(p partition.Position, field []byte) []byte {
	e.key = append(effect.Rows.AppendKey(e.key[:0], p), elementTag)
	e.key = append(e.key, field...)
	return e.key
}

// FieldPosition is the position of a field of the hash at p.
func FieldPosition(p partition.Position, field []byte) partition.Position {
	at := make(partition.Position, 0, len(p)+1+len(field))
	return append(append(append(at, p...), elementTag), field...)
}

// FieldName returns the name of the field that an element of a position is
// about: what [partition.Keyspace.Split] returned. nil if it is no field.
func FieldName(element []byte) []byte {
	if len(element) == 0 || element[0] != elementTag {
		return nil
	}
	return element[1:]
}

// field reads a field of a hash. The value is good until the next lookup or
// write, unless kept.
func (e *Env) field(p partition.Position, h *hash, field []byte) (value []byte, ok bool, err error) {
	if !h.alive {
		return nil, false, nil
	}
	if err := CheckField(field); err != nil {
		return nil, false, err
	}
	raw, ok, err := e.lookup(e.fieldKey(p, field))
	if err != nil || !ok {
		return nil, false, err
	}
	return h.element(raw)
}

// element takes the row of an element apart. It belongs to the hash only if it
// is of its generation.
func (h *hash) element(raw []byte) (value []byte, ok bool, err error) {
	row, err := DecodeRow(raw)
	if err != nil || row.Kind != Element {
		return nil, false, badRow(raw)
	}
	return row.Payload, row.Version == h.generation, nil
}

// edit is a hash that a command is changing.
type edit struct {
	hash
	env *Env
	key partition.Position
	// fresh tells that this command creates the hash, so that no field can be
	// in the committed state.
	fresh bool
}

// editHash begins to change the hash at p, creating it if it is absent.
func (e *Env) editHash(p partition.Position) (edit, error) {
	h, err := e.loadHash(p)
	if err != nil {
		return edit{}, err
	}
	x := edit{hash: h, env: e, key: p}
	if !h.alive {
		x.fresh, x.alive = true, true
		x.generation = e.next // the version that finish will give out
	}
	return x, nil
}

// read is field, for a hash that may be new.
func (x *edit) read(field []byte) (value []byte, ok bool, err error) {
	if !x.fresh {
		return x.env.field(x.key, &x.hash, field)
	}
	if err := CheckField(field); err != nil {
		return nil, false, err
	}
	raw, ok, _ := x.env.written(x.env.fieldKey(x.key, field))
	if !ok {
		return nil, false, nil
	}
	return x.element(raw)
}

// write sets a field. existed is what read has said about it.
func (x *edit) write(field, value []byte, existed bool) error {
	if err := checkValue(len(value)); err != nil {
		return err
	}
	var head [maxHead]byte
	row := Row{Kind: Element, Version: x.generation}
	x.env.put(x.env.fieldKey(x.key, field), row.appendHead(head[:0]), value)
	x.env.rows++
	if !existed {
		x.fields++
	}
	return nil
}

// erase removes a field that exists.
func (x *edit) erase(field []byte) {
	x.env.delete(x.env.fieldKey(x.key, field))
	x.env.rows++
	x.fields--
}

// finish writes the hash's own row and returns its version, or removes it if no
// field is left.
func (x *edit) finish() uint64 {
	if x.fields == 0 {
		x.env.remove(x.key, &x.old, true)
		return 0
	}
	row := Row{Kind: Hash, Generation: x.generation, Fields: x.fields}
	if !x.fresh {
		row.ExpiryMS = x.old.ExpiryMS
	}
	return x.env.replace(x.key, &x.old, row)
}
