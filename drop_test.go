package cleave

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/caller"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/mover"
)

// openHalfway opens a store with a keyspace that has the keys a and z, and stops where the shard of z
// is between two stores, until goOn is called.
func openHalfway(t *testing.T) (ks *Keyspace, goOn func()) {
	o := memory(2)
	o.Groups, o.TendEvery = 2, time.Millisecond
	between, after := make(chan struct{}), make(chan struct{})
	reached := sync.OnceFunc(func() { close(between) })
	o.OnJob = func(j mover.Job) {
		if j.Kind == mover.Move && j.Phase == mover.Activating {
			reached()
			<-after
		}
	}
	db := mustOpen(t, o)
	ks = rangeSpace(t, db, "s")
	var b Batch
	b.Set(ks, []byte("a"), []byte("v"))
	for i := range 1200 { // more than are cleared in one step
		b.Set(ks, append([]byte("b"), number(i)...), nil)
	}
	b.Set(ks, []byte("z"), []byte("v"))
	must(t, db.Write(ctx, &b))
	_, err := mustStart(t, db, Split{Keyspace: ks, At: [][]byte{[]byte("m")}}).Wait(ctx)
	must(t, err)
	job := mustStart(t, db, Move{Shard: shardAt(ks, "z"), To: elsewhere(ks, "z")})
	<-between
	goOn = sync.OnceFunc(func() { close(after) })
	t.Cleanup(func() {
		goOn()
		_, _ = job.Wait(ctx)
		mustClose(t, db)
	})
	return ks, goOn
}

// A keyspace is dropped while somebody waits for a shard of it, to read keys as of one moment. He
// sees all of them or none, or hears that it is gone: its rows go piece by piece.
func TestWhoReadsADroppedKeyspaceSeesNoHalfOfIt(t *testing.T) {
	count := func(item Item, err error) int {
		if err == nil && len(item.Key) == 1 {
			return 1
		}
		return 0
	}
	for how, read := range map[string]func(ctx context.Context, ks *Keyspace) (seen int, err error){
		"GetMany": func(ctx context.Context, ks *Keyspace) (seen int, err error) {
			values, err := ks.GetMany(ctx, []byte("a"), []byte("z"))
			for _, v := range values {
				seen += len(v)
			}
			return seen, err
		},
		"All": func(ctx context.Context, ks *Keyspace) (seen int, err error) {
			for item, failed := range ks.All(ctx, ScanOptions{}) {
				seen, err = seen+count(item, failed), failed
			}
			return seen, err
		},
		"Scan in a View": func(ctx context.Context, ks *Keyspace) (seen int, err error) {
			return seen, ks.db.View(ctx, func(tx *Txn) error {
				for item, failed := range tx.Scan(ks, ScanOptions{}) {
					seen, err = seen+count(item, failed), failed
				}
				return err
			})
		},
	} {
		t.Run(how, func(t *testing.T) {
			seen, err := readDropped(t, read)
			if err == nil && seen == 1 {
				t.Error("one of two keys was seen")
			}
			if err != nil && !errors.Is(err, ErrNoKeyspace) {
				t.Error(err)
			}
		})
	}
}

// What was written after a keyspace was dropped is not seen together with a key of that.
func TestWhoReadsADroppedKeyspaceSeesNothingThatCameLater(t *testing.T) {
	for how, read := range map[string]func(ctx context.Context, ks *Keyspace) (seen int, err error){
		"Get in a View": func(ctx context.Context, ks *Keyspace) (seen int, err error) {
			err = ks.db.View(ctx, func(tx *Txn) error {
				was, err1 := tx.Get(ks, []byte("z"))
				later, err2 := tx.Get(ks.db.Default(), []byte("later"))
				seen = len(was) + len(later)
				return errors.Join(err1, err2)
			})
			return seen, err
		},
		"commands of the server": func(ctx context.Context, ks *Keyspace) (seen int, err error) {
			err = inside.View(ctx, ks.db, func(tx inside.Txn) {
				was, later := ks.space.AppendPosition(nil, []byte("z")), ks.db.Default().After([]byte("later"))
				seen += len(tx.Do(ks.space, was, &command.Get{Key: was}, false).Bytes)
				seen += len(tx.Do(ks.db.Default().space, later, &command.Get{Key: later}, false).Bytes)
			})
			return seen, err
		},
	} {
		t.Run(how, func(t *testing.T) {
			if seen, err := readDropped(t, read); !errors.Is(err, ErrNoKeyspace) {
				t.Errorf("%d of two keys were seen: %v", seen, err)
			}
		})
	}
}

// readDropped calls read, and drops the keyspace when it waits for a shard of that. It goes on when a
// part of the keyspace is cleared, and something was written elsewhere.
func readDropped(t *testing.T, read func(ctx context.Context, ks *Keyspace) (seen int, err error)) (seen int, err error) {
	ks, goOn := openHalfway(t)
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		seen, err = read(caller.Notices(ctx, sync.OnceFunc(func() { close(begun) })), ks)
	}()
	<-begun
	must(t, ks.db.DropKeyspace(ctx, "s"))
	first := ks.space.AppendPosition(nil, []byte("a"))
	for there := true; there; time.Sleep(time.Millisecond) {
		var failed error
		_, there, failed = ks.part(first).Group.Read(ctx, first, nil)
		must(t, failed)
	}
	must(t, ks.db.Default().Set(ctx, []byte("later"), []byte("v")))
	goOn()
	<-done
	return seen, err
}
