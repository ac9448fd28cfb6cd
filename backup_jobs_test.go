package cleave

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/mover"
)

// A backup that is made while shards go from store to store, and keyspaces are made,
// has every key once.
func TestABackupIsWholeWhileShardsMove(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(filepath.Join(dir, "data"), Options{Stores: 2, Groups: 4, Durability: Never})
	must(t, err)
	ks := rangeSpace(t, db, "r")
	const keys = 300
	backups := min(soaking(2), 10)
	for i := range keys {
		must(t, ks.Set(ctx, number(i), []byte("v")))
	}
	var stop atomic.Bool
	moved := make(chan error, 1)
	go func() {
		for i := 0; !stop.Load(); i++ {
			job, err := db.Start(ctx, Move{Shard: shardAt(ks, "0"), To: elsewhere(ks, "0")})
			if err == nil {
				_, err = job.Wait(ctx)
			}
			if err == nil && i < 30 {
				_, err = db.CreateKeyspace(ctx, KeyspaceOptions{Name: fmt.Sprint("made", i), Kind: Range})
			}
			if err != nil {
				moved <- err
				return
			}
		}
		moved <- nil
	}()
	for i := range backups {
		must(t, db.Backup(ctx, filepath.Join(dir, fmt.Sprint(i))))
	}
	stop.Store(true)
	must(t, <-moved)
	mustClose(t, db)
	for i := range backups {
		db, err := Open(filepath.Join(dir, fmt.Sprint(i)), Options{})
		must(t, err)
		for _, k := range db.Keyspaces() {
			must(t, k.Set(ctx, []byte("z"), []byte("z")))
		}
		ks, err := db.Keyspace("r")
		must(t, err)
		for i := range keys {
			if v, err := ks.Get(ctx, number(i)); err != nil || string(v) != "v" {
				t.Fatalf("key %d: %q, %v", i, v, err)
			}
		}
		jobs, err := db.Jobs(ctx)
		must(t, err)
		for _, s := range jobs {
			job, err := db.Job(ctx, s.ID)
			must(t, err)
			_, err = job.Wait(ctx)
			must(t, err)
		}
		noLeftovers(t, db, ks)
		mustClose(t, db)
	}
}

// A backup that waits for a range on its way heeds its context, and is in nobody's way
// when it has left.
func TestABackupThatWaitsForAJobMayBeLeft(t *testing.T) {
	frozen, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o, err := Options{Stores: 2}.node(t.TempDir())
	must(t, err)
	o.OnJob = func(j mover.Job) {
		if j.Phase == mover.Finishing {
			once.Do(func() { close(frozen); <-goOn })
		}
	}
	db := mustOpen(t, o)
	defer mustClose(t, db)
	ks, key := db.Default(), string(keyOn(db, 1))
	job := mustStart(t, db, Move{Shard: shardAt(ks, key), To: elsewhere(ks, key)})
	<-frozen
	limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	refused(t, "a backup", db.Backup(limited, filepath.Join(t.TempDir(), "b")), context.DeadlineExceeded)
	close(goOn)
	_, err = job.Wait(ctx)
	must(t, err)
	must(t, db.Backup(ctx, filepath.Join(t.TempDir(), "b")))
}
