package cleave

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/mover"
)

// A keyspace that is made while groups are being added is given to those that there
// are.
func TestAKeyspaceIsMadeWhileGroupsAreAdded(t *testing.T) {
	var db *DB
	var once sync.Once
	made := make(chan error, 1)
	o := memory(2)
	o.OnJob = func(j mover.Job) {
		if j.Phase == mover.Hosting {
			once.Do(func() {
				_, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "h"})
				made <- err
			})
		}
	}
	db = mustOpen(t, o)
	defer mustClose(t, db)
	mustDo(t, db, Regroup{Groups: 5})
	must(t, <-made)
	ks, err := db.Keyspace("h")
	must(t, err)
	for i := range 50 {
		must(t, ks.Set(ctx, number(i), nil))
	}
}

// Who waits for a job to make a keyspace does not wait for a store that is closed.
func TestAKeyspaceThatWaitsForAJobIsRefusedAtClose(t *testing.T) {
	held, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o := memory(2)
	o.OnJob = func(j mover.Job) {
		if j.Phase == mover.Copying {
			once.Do(func() { close(held); <-goOn })
		}
	}
	db := mustOpen(t, o)
	shards, err := db.Shards(ctx)
	must(t, err)
	last := shards[len(shards)-1]
	mustStart(t, db, Move{Shard: last.ID, To: 3 - last.Group})
	<-held
	made := make(chan error, 1)
	go func() {
		_, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "late"})
		made <- err
	}()
	time.Sleep(10 * time.Millisecond) // so that it waits, mostly
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	refused(t, "a keyspace that waits", <-made, ErrClosed)
	close(goOn)
	must(t, <-closed)
}

// A keyspace of another DB may have the same number here, and another kind.
func TestASplitOfAnotherDBsKeyspaceIsRefused(t *testing.T) {
	db, other := small(t, 1), small(t, 1)
	_, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "h"})
	must(t, err)
	foreign := rangeSpace(t, other, "r")
	before := db.Map().Version()
	c := Split{Keyspace: foreign, At: [][]byte{[]byte("m")}}
	_, err = db.Plan(ctx, c)
	refused(t, "the plan", err, ErrOptions)
	_, err = db.Start(ctx, c)
	refused(t, "the split", err, ErrOptions)
	if db.Map().Version() != before {
		t.Error("the map has changed")
	}
}

// A shard of a keyspace that was dropped may be moved while it is cleared: no row of
// it is forgotten where it went.
func TestADroppedKeyspaceIsClearedWhereItWasMovedTo(t *testing.T) {
	for range soaking(1) {
		o := memory(2)
		o.TendEvery = 5 * time.Millisecond
		db := mustOpen(t, o)
		ks := rangeSpace(t, db, "r")
		var b Batch
		for i := range 10_000 {
			if b.Set(ks, number(i), nil); b.Len() == 5000 {
				must(t, db.Write(ctx, &b))
				b.Reset()
			}
		}
		must(t, ks.Set(ctx, []byte("z"), nil))
		mustDo(t, db, Split{Keyspace: ks, At: [][]byte{[]byte("z")}})
		shard := shardAt(ks, "z")
		must(t, db.DropKeyspace(ctx, "r"))
		for begun := time.Now(); time.Since(begun) < 100*time.Millisecond; {
			job, err := db.Start(ctx, Move{Shard: shard, To: elsewhere(ks, "z")})
			must(t, err)
			if _, err = job.Wait(ctx); err != nil && !errors.Is(err, ErrJobUndone) {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(20 * time.Second); rowsOf(t, ks) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d rows are never removed", rowsOf(t, ks))
			}
		}
		mustClose(t, db)
	}
}

// A shard that was split just now is another one: the next split finds the right one.
func TestSplitsMayFollowOneAnother(t *testing.T) {
	db := small(t, 1)
	ks := rangeSpace(t, db, "r")
	for i := 1; i <= 80; i++ {
		for {
			_, err := db.Start(ctx, Split{Keyspace: ks, At: [][]byte{number(i)}})
			if err == nil {
				break
			}
			refused(t, "a split", err, ErrBusy)
			time.Sleep(100 * time.Microsecond)
		}
	}
}
