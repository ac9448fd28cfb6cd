package command

import (
	"encoding/binary"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// load reads the own row of a key. A row that has expired is returned too, as
// writing over it must know what it was; alive tells whether the key is there.
// The payload is good until the next lookup or write, unless kept.
func (e *Env) load(p partition.Position) (row Row, alive bool, err error) {
	if err := checkPosition(p); err != nil {
		return Row{}, false, err
	}
	if err := e.MayRead(p); err != nil {
		return Row{}, false, err
	}
	e.key = effect.Rows.AppendKey(e.key[:0], p)
	value, ok, err := e.lookup(e.key)
	if err != nil || !ok {
		return Row{}, false, err
	}
	return e.decodeOwn(p, value)
}

func (e *Env) decodeOwn(p partition.Position, value []byte) (row Row, alive bool, err error) {
	row, err = DecodeRow(value)
	if err != nil || row.Kind == Element {
		return Row{}, false, badRow(value)
	}
	return row, e.alive(p, &row), nil
}

// loadBlind is load for a write that only needs to know what it leaves behind,
// so it need not read if the reader knows that there is nothing.
func (e *Env) loadBlind(p partition.Position) (row Row, err error) {
	if e.plain == nil {
		row, _, err = e.load(p)
		return row, err
	}
	if err := checkPosition(p); err != nil {
		return Row{}, err
	}
	e.key = effect.Rows.AppendKey(e.key[:0], p)
	if _, _, known := e.written(e.key); !known && e.plain.Plain(e.key) {
		return Row{}, nil
	}
	row, _, err = e.load(p)
	return row, err
}

// loadString is load for commands of strings.
func (e *Env) loadString(p partition.Position) (row Row, alive bool, err error) {
	row, alive, err = e.load(p)
	if err == nil && alive && row.Kind != String {
		err = ErrWrongType
	}
	return row, alive, err
}

// replace writes the own row of a key over old, which may be absent or dead,
// and keeps the tables of expiries and orphans in step. It gives the row its
// version and returns it.
func (e *Env) replace(p partition.Position, old *Row, row Row) uint64 {
	var head [maxHead]byte
	e.mayWrite(p)
	row.Version = e.version()
	e.key = effect.Rows.AppendKey(e.key[:0], p)
	e.put(e.key, row.appendHead(head[:0]), row.Payload)
	e.rows++
	e.setExpiry(p, old.ExpiryMS, row.ExpiryMS)
	if old.Kind == Hash && (row.Kind != Hash || row.Generation != old.Generation) {
		e.orphan(p)
	}
	return row.Version
}

// remove deletes the own row of a key. What it held is orphaned, unless the
// caller has removed that.
func (e *Env) remove(p partition.Position, old *Row, emptied bool) {
	e.mayWrite(p)
	e.key = effect.Rows.AppendKey(e.key[:0], p)
	e.delete(e.key)
	e.rows++
	e.setExpiry(p, old.ExpiryMS, 0)
	if old.Kind == Hash && !emptied {
		e.orphan(p)
	}
}

// setExpiry keeps the table of expiries in step with a row.
func (e *Env) setExpiry(p partition.Position, old, now int64) {
	if old == now {
		return
	}
	e.key = effect.Expiry.AppendKey(e.key[:0], p)
	if now == 0 {
		e.delete(e.key)
		return
	}
	var value [8]byte
	binary.LittleEndian.PutUint64(value[:], uint64(now))
	e.put(e.key, value[:], nil)
}

// orphan notes that elements of the key are to be swept, from the first one on.
func (e *Env) orphan(p partition.Position) {
	e.key = effect.Orphans.AppendKey(e.key[:0], p)
	e.put(e.key, nil, nil)
}
