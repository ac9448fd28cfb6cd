package queue

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/store"
)

// slowDisk has two stores, and crashes. When one of them is slow its syncs wait.
type slowDisk struct {
	*store.Crashable
	slow    atomic.Int32 // which one; -1 for none
	quicker chan struct{}
}

func newSlowDisk(c *store.Crashable) *slowDisk {
	d := &slowDisk{Crashable: c, quicker: make(chan struct{})}
	d.slow.Store(-1)
	return d
}

func (d *slowDisk) String() string { return "slow disk" }

// MaybeError implements [errorfs.Injector].
func (d *slowDisk) MaybeError(op errorfs.Op) error {
	sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
	if sync && strings.HasPrefix(op.Path, fmt.Sprintf("disk/%d/", d.slow.Load())) {
		<-d.quicker
	}
	return nil
}

func (d *slowDisk) open(t *testing.T) (*cleave.DB, *cleave.Keyspace) {
	t.Helper()
	db, err := inside.OpenSmall("disk", cleave.Options{Stores: 2, Groups: 2, Durability: cleave.Never}, errorfs.Wrap(d.FS(), d))
	must(t, err)
	ks, err := db.(*cleave.DB).OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	must(t, err)
	return db.(*cleave.DB), ks
}

// keyOn returns a key of the default keyspace that is on a store.
func keyOn(db *cleave.DB, store int) []byte {
	for i := 0; ; i++ {
		if k := fmt.Append(nil, "key", i); db.Default().Locate(k).Store == store {
			return k
		}
	}
}

// A message whose Ack was a part of a transaction that a crash takes back is delivered again,
// though its queue had seen that it was gone, and had gone on.
func TestAMessageWhoseAckIsTakenBackComesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		messages int
		close    func(*Queue) error
	}{
		"the head goes on":      {keepEvery, func(*Queue) error { return nil }},
		"the bucket is drained": {1, func(q *Queue) error { return q.Resize(ctx, 2) }},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newSlowDisk(store.NewCrashable())
			db, ks := disk.open(t)
			q := open(t, db, ks, "q", Options{Shards: 1})
			at := ks.Locate(nil).Store
			list := make([]Message, c.messages)
			for i := range list {
				list[i].Body = fmt.Append(nil, i)
			}
			must(t, q.Publish(ctx, list...))
			var all []*Delivery
			for len(all) < len(list) {
				got, err := q.Receive(ctx, maxClaim)
				must(t, err)
				all = append(all, got...)
			}
			must(t, c.close(q))
			last := all[len(all)-1]
			must(t, q.Ack(ctx, all[:len(all)-1]...))
			syncStores(t, db, 0, 1)

			disk.slow.Store(int32(1 - at))
			work := keyOn(db, 1-at)
			must(t, db.Update(ctx, func(tx *cleave.Txn) error {
				if err := tx.Set(db.Default(), work, last.Body); err != nil {
					return err
				}
				return q.AckTx(tx, last)
			}))
			received := make(chan error, 1)
			go func() {
				_, err := q.TryReceive(ctx, 1)
				received <- err
			}()
			select {
			case err := <-received:
				must(t, err)
				received <- nil
			case <-time.After(300 * time.Millisecond): // it waits for the slow disk
			}
			syncStores(t, db, at) // as any prepare of others does
			after := disk.Crash(0, nil)
			close(disk.quicker)
			must(t, <-received)
			must(t, q.Close())
			must(t, db.Close())

			db, ks = newSlowDisk(after).open(t)
			defer db.Close()
			if _, err := db.Default().Get(ctx, work); err == nil {
				t.Fatal("the crash took nothing back: the test shows nothing")
			}
			later := func() time.Time { return time.Now().Add(time.Hour) } // when all leases have ended
			q = open(t, db, ks, "q", Options{Now: later})
			got, err := q.TryReceive(ctx, 10)
			must(t, err)
			if len(got) != 1 || string(got[0].Body) != string(last.Body) {
				t.Errorf("after the crash %q come, not %q", bodies(got), last.Body)
			}
		})
	}
}

func syncStores(t *testing.T, db *cleave.DB, stores ...int) {
	t.Helper()
	for _, i := range stores {
		must(t, inside.Node(db).Hosts()[i].Store.Sync())
	}
}
