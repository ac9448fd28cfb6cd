package cleave

import (
	"errors"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// The clock of one group may be ahead of another's, by seconds after a crash. A transaction
// judges a key by that of its own group, whatever it asks or writes.
func TestATransactionJudgesTheTimeOfAKeyByItsOwnGroup(t *testing.T) {
	db := mustOpen(t, tiny(wal.Never, nil, store.Memory(), store.Memory()))
	defer mustClose(t, db)
	k, key := db.Default(), []byte("k")
	p0, err := k.position(nil, key)
	must(t, err)
	ahead := time.Now().Add(time.Minute).UnixMilli()
	for _, other := range db.node.Parts() {
		if other != db.node.PartOf(p0) {
			reply, err := other.Group.Try(ctx, group.Request{Command: &own.Reown{ClockFloorMS: ahead}})
			must(t, errors.Join(err, reply.Err))
		}
	}
	var other []byte
	for i := 0; other == nil; i++ {
		if p, err := k.position(nil, number(i)); err != nil || db.node.PartOf(p) != db.node.PartOf(p0) {
			other = number(i)
		}
	}
	_, err = k.SetWith(ctx, key, []byte("v"), SetOptions{TTL: 30 * time.Second})
	must(t, err)
	must(t, db.Update(ctx, func(tx *Txn) error {
		if _, err := tx.Get(k, other); !errors.Is(err, ErrNotFound) {
			return err // from here on the later clock is that of the transaction
		}
		reply, err := tx.do(k, key, false, true, func(p partition.Position) (command.Command, error) { return &command.TTL{Key: p}, nil })
		if err == nil && (reply.Int <= 0 || reply.Int > 30_000) {
			t.Errorf("it lives for %d ms more", reply.Int)
		}
		if err == nil {
			err = tx.SetWith(k, key, []byte("w"), SetOptions{KeepTTL: true})
		}
		if value, missing := tx.Get(k, key); err == nil && (missing != nil || string(value) != "w") {
			t.Errorf("what was written is %q, %v", value, missing)
		}
		return err
	}))
	item, err := k.Item(ctx, key)
	if err != nil || string(item.Value) != "w" || item.Expires.IsZero() {
		t.Errorf("it is %q, until %v: %v", item.Value, item.Expires, err)
	}
}
