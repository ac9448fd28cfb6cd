package cleave

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

// crashables are disks that can crash, and the options of a store on them.
type crashables []*store.Crashable

func newCrashables(n int) (disks crashables) {
	for range n {
		disks = append(disks, store.NewCrashable())
	}
	return disks
}

func (disks crashables) options(d wal.Durability) node.Options {
	var all []store.FS
	for _, disk := range disks {
		all = append(all, disk.FS())
	}
	return tiny(d, nil, all...)
}

// crash returns the disks as a crash at this moment would leave them: without all that
// was not synced.
func (disks crashables) crash() (after crashables) {
	for _, disk := range disks {
		after = append(after, disk.Crash(0, nil))
	}
	return after
}

// groupOn returns a group of a store.
func groupOn(db *DB, store int) (id GroupID) {
	for _, g := range db.Groups() {
		if g.Store == store {
			id = g.ID
		}
	}
	return id
}

// What a crash takes back at the source of a move is not at its destination either: it
// must not be seen there, should all that compares both fail.
func TestACopyHasNothingThatACrashTakesBackAtItsSource(t *testing.T) {
	disks := newCrashables(3) // the catalog's store, source and destination
	o := disks.options(wal.Never)
	o.Groups = 3
	var db *DB
	var ks *Keyspace
	var wrote, crashed sync.Once
	var armed atomic.Bool
	hit := make(chan crashables, 1)
	o.OnJob = func(j mover.Job) {
		switch {
		case !armed.Load():
		case j.Phase == mover.Copying: // behind the place at which the copy begins
			wrote.Do(func() {
				for i := range 50 {
					must(t, ks.Set(ctx, number(i), []byte("not synced by itself")))
				}
			})
		case j.Phase == mover.Catching && j.Verified > 0:
			crashed.Do(func() {
				must(t, mustJob(t, db, JobID(j.ID)).Pause(ctx))
				hit <- disks.crash()
			})
		}
	}
	db = mustOpen(t, o)
	ks = rangeSpace(t, db, "r")
	for i := range 50 {
		must(t, ks.Set(ctx, number(i), []byte("v")))
	}
	if groupAt(ks, "0") != groupOn(db, 1) {
		mustDo(t, db, Move{Shard: shardAt(ks, "0"), To: groupOn(db, 1)})
	}
	armed.Store(true)
	to := groupOn(db, 2)
	job := mustStart(t, db, Move{Shard: shardAt(ks, "0"), To: to})
	disks = <-hit
	mustClose(t, db)

	db = mustOpen(t, disks.options(wal.Never))
	defer mustClose(t, db)
	ks, err := db.Keyspace("r")
	must(t, err)
	job, err = db.Job(ctx, job.ID())
	must(t, err)
	rows := func(store int) (all []string) {
		s := ks.space.Span()
		from, to := effect.Rows.AppendKey(nil, s.Start), effect.Rows.AppendKey(nil, s.End)
		must(t, db.node.Hosts()[store].Store.Scan(from, to, false, func(key, value []byte) bool {
			all = append(all, fmt.Sprintf("%q=%q", key, value))
			return true
		}))
		return all
	}
	if source, copied := rows(1), rows(2); len(copied) != 50 || !slices.Equal(source, copied) {
		t.Errorf("after a crash the copy has %q, and the source %q", copied, source)
	}
	must(t, job.Resume(ctx))
	if s, err := job.Wait(ctx); err != nil || groupAt(ks, "0") != to {
		t.Errorf("%+v, %v", s, err)
	}
	noLeftovers(t, db, ks)
}
