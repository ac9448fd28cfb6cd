package watch

import (
	"bytes"
	"context"
	"errors"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
)

// Until waits until a key is as wanted, and returns it as it was then. It asks wanted
// with the key as it is now, and again after each change: some of those that follow each
// other closely may be passed over, the last one never is. found tells whether there is
// such a key. A hash has no Value and no Version here: look at its fields in wanted.
func (h *Hub) Until(ctx context.Context, ks *cleave.Keyspace, key []byte, wanted func(item cleave.Item, found bool) bool) (item cleave.Item, found bool, err error) {
	if plant.Bug("watch-reads-before-it-registers") {
		if item, found, err = look(ctx, ks, key); err != nil || wanted(item, found) {
			return item, found, err
		}
	}
	w, err := h.Watch(Target{Keyspace: ks, Keys: [][]byte{key}}, Options{KeysOnly: true})
	if err != nil {
		return item, false, err
	}
	defer w.Close()
	// An event tells that there is something to look at. What it tells may be older than
	// what was read before, so the key is read again.
	for first := true; ; first = false {
		if !first || !plant.Bug("watch-reads-before-it-registers") {
			if item, found, err = look(ctx, ks, key); err != nil || wanted(item, found) {
				return item, found, err
			}
		}
		if _, err := w.Next(ctx); err != nil {
			return cleave.Item{}, false, err
		}
	}
}

// look returns a key, and whether it is there.
func look(ctx context.Context, ks *cleave.Keyspace, key []byte) (item cleave.Item, found bool, err error) {
	item, err = ks.Item(ctx, key)
	return whether(key, item, err)
}

// lookIn is look in a transaction.
func lookIn(tx *cleave.Txn, ks *cleave.Keyspace, key []byte) (item cleave.Item, found bool, err error) {
	item, err = tx.Item(ks, key)
	return whether(key, item, err)
}

// whether tells whether there is a key from what was read of it. A hash has no Value.
func whether(key []byte, item cleave.Item, err error) (cleave.Item, bool, error) {
	switch {
	case errors.Is(err, cleave.ErrNotFound):
		return cleave.Item{}, false, nil
	case errors.Is(err, cleave.ErrWrongType):
		return cleave.Item{Key: bytes.Clone(key)}, true, nil
	}
	return item, err == nil, err
}
