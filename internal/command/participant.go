package command

import "github.com/cleavekv/cleave/internal/effect"

// An Env is also the Reader of what its batch has made of the state so far, and
// a place to write rows that no command of this package writes. That is what a
// command needs that keeps tables of its own, such as the locks of
// transactions. Nothing here looks at what the bytes mean.
var _ Reader = (*Env)(nil)

// Get implements [Reader]: it appends the newest value of a store key to dst,
// that of the batch if it has written the key.
func (e *Env) Get(key, dst []byte) (value []byte, ok bool, err error) {
	value, ok, known := e.written(key)
	if !known {
		return e.reader.Get(key, dst)
	}
	if !ok {
		return nil, false, nil
	}
	return append(dst, value...), true, nil
}

// Written is Get of what the batch itself has written, whatever was there before.
func (e *Env) Written(key, dst []byte) (value []byte, ok bool) {
	if value, ok, _ = e.written(key); !ok {
		return nil, false
	}
	return append(dst, value...), true
}

// Put writes a row of any table. Later commands of the batch see it, and it is
// taken back if its own fails.
func (e *Env) Put(key, value []byte) { e.put(key, value, nil) }

// Delete is Put of no row.
func (e *Env) Delete(key []byte) { e.delete(key) }

// Redo does what op says: it was evaluated before, and is to happen now.
func (e *Env) Redo(op effect.Op) {
	if op.Delete {
		e.delete(op.Key)
		return
	}
	e.put(op.Key, op.Value, nil)
}

// UseVersions takes all versions below next as given out: another Env has given
// them to rows that are to come in here.
func (e *Env) UseVersions(next uint64) { e.next = max(e.next, next) }
