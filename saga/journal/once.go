package journal

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/saga"
)

// What a marker says.
const (
	markDo   = "do"
	markUndo = "undo"
)

// Once makes a call of a step take effect at most once in a store that is not that of
// the journal: it runs f in tx if the rules of saga.Judge say so, and leaves a marker in
// marks, which is a keyspace of the same store, of any kind, for markers alone. A Do that
// comes after its Undo is refused with an error that matches saga.ErrUndone and is
// permanent.
//
// A call that is repeated does not run f again: what f would put into the saga's value
// must be read from the store instead.
//
// Markers of a saga are one key. Have the definition's Forget call Forget, so that they
// are removed with the saga and no earlier.
func Once(tx *cleave.Txn, marks *cleave.Keyspace, c saga.Call, f func() error) error {
	key := []byte(c.Saga)
	field := func(mark string) []byte { return []byte(c.Step + "/" + mark) }
	did, err := marked(tx, marks, key, field(markDo))
	if err != nil {
		return err
	}
	undid, err := marked(tx, marks, key, field(markUndo))
	if err != nil {
		return err
	}
	mark := markDo
	if c.Undo {
		mark = markUndo
	}
	verdict := saga.Judge(c.Undo, did, undid)
	if plant.Bug("journal-marks-ignored") {
		verdict = saga.Execute
	}
	switch verdict {
	case saga.Repeat:
		return nil
	case saga.Refuse:
		return saga.Permanent(saga.ErrUndone)
	case saga.Execute:
		if err := f(); err != nil {
			return err
		}
	}
	_, err = tx.HSet(marks, key, cleave.Field{Name: field(mark)})
	return err
}

func marked(tx *cleave.Txn, marks *cleave.Keyspace, key, field []byte) (bool, error) {
	_, err := tx.HGet(marks, key, field)
	if errors.Is(err, cleave.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Forget removes the markers of a saga.
func Forget(ctx context.Context, marks *cleave.Keyspace, id string) error {
	_, err := marks.Delete(ctx, []byte(id))
	return err
}
