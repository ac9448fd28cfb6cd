package cleave

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/internal/wal"
)

// A transaction that wrote a row before there was an index writes it again, with its
// entries, if it comes to its end after.
func TestAWriteThatBeganBeforeAnIndexMaintainsIt(t *testing.T) {
	for _, stores := range []int{1, 2} {
		db := small(t, stores)
		ks := rangeSpace(t, db, "k")
		must(t, ks.Set(ctx, []byte("a"), []byte("1")))
		var ix *Index
		must(t, db.Update(ctx, func(tx *Txn) error {
			err := tx.Set(ks, []byte("a"), []byte("2"))
			if err == nil {
				err = tx.Set(db.Default(), []byte("elsewhere"), nil)
			}
			if ix == nil {
				ix = mustIndex(t, db, IndexOptions{Name: "all", Keyspace: ks, Function: "all", Extract: everything})
			}
			return err
		}))
		if _, err := saysAsRows(db, ix, everything); err != nil {
			t.Error(err)
		}
		// And the other way round.
		must(t, db.Update(ctx, func(tx *Txn) error {
			err := tx.Set(ks, []byte("a"), []byte("3"))
			if ix != nil {
				must(t, db.DropIndex(ctx, "k", "all"))
				ix = nil
			}
			return err
		}))
	}
}

// slowGate lets a plain write pass, and holds it up behind the gate until an index is
// ready, but not for long.
type slowGate struct {
	node.Plain
	db     *DB
	passed chan struct{}
}

// Check implements [group.Gate].
func (g *slowGate) Check() error {
	if err := g.Plain.Check(); err != nil {
		return err
	}
	close(g.passed)
	for range 300 {
		if x, err := g.db.node.Index(g.Name, "all"); err == nil && x.IsReady() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// A row that passed the gate before there was an index, and is on its way when it is
// made, is not missed.
func TestAnIndexMissesNoRowThatWasOnItsWay(t *testing.T) {
	db := small(t, 4) // entries and rows apart: who builds waits for nobody but on purpose
	ks, p := awayFromTheCatalog(t, db)
	gate := &slowGate{node.Plain{Space: ks.space}, db, make(chan struct{})}
	written := make(chan error)
	go func() {
		reply, err := ks.part(p).Group.Do(ctx, group.Request{Command: &command.Set{Key: p, Value: []byte("1")}, Key: p, Gate: gate})
		written <- errors.Join(err, reply.Err)
	}()
	<-gate.passed
	ix := mustIndex(t, db, IndexOptions{Name: "all", Keyspace: ks, Function: "all", Extract: everything})
	must(t, <-written)
	if n, err := saysAsRows(db, ix, everything); err != nil || n != 1 {
		t.Errorf("%d entries: %v", n, err)
	}
}

// scribbler writes rows at random, by all ways that there are.
type scribbler struct {
	db   *DB
	ks   *Keyspace
	rng  *rand.Rand
	rows int
}

func (s *scribbler) key() []byte { return fmt.Appendf(nil, "row %03d", s.rng.IntN(s.rows)) }

func (s *scribbler) value() []byte { return fmt.Append(nil, s.rng.IntN(50)) }

// write writes once. Errors about the types of rows are none.
func (s *scribbler) write() (err error) {
	key, value := s.key(), s.value()
	switch s.rng.IntN(12) {
	case 0, 1:
		err = s.ks.Set(ctx, key, value)
	case 2:
		_, err = s.ks.SetWith(ctx, key, value, SetOptions{TTL: time.Duration(1+s.rng.IntN(40)) * time.Millisecond})
	case 3:
		_, err = s.ks.Delete(ctx, key, s.key(), s.key())
	case 4:
		_, err = s.ks.Add(ctx, key, 1)
	case 5:
		_, err = s.ks.HSet(ctx, key, Field{value, value})
	case 6:
		_, err = s.ks.HDel(ctx, key, value)
	case 7:
		_, err = s.ks.Expire(ctx, key, time.Duration(s.rng.IntN(40))*time.Millisecond)
	case 8:
		_, err = s.ks.Persist(ctx, key)
	case 9:
		var b Batch
		b.Set(s.ks, key, value)
		b.Delete(s.ks, s.key())
		b.HSet(s.ks, fmt.Appendf(nil, "hash %d", s.rng.IntN(20)), Field{value, value})
		err = s.db.Write(ctx, &b)
	default:
		err = s.db.Update(ctx, func(tx *Txn) error {
			if _, err := tx.Delete(s.ks, s.key()); err != nil {
				return err
			}
			return tx.SetWith(s.ks, key, value, SetOptions{KeepTTL: s.rng.IntN(2) == 0})
		})
	}
	if errors.Is(err, ErrWrongType) || errors.Is(err, ErrNotInteger) {
		return nil
	}
	return err
}

// Whatever is written, by whichever way, while indexes are made, dropped and moved about:
// each of them says what its rows say, at every moment from when it is ready on.
func TestIndexesAreBuiltWhileOthersWrite(t *testing.T) {
	for _, size := range []struct{ stores, groups int }{{1, 4}, {3, 5}} {
		t.Run(fmt.Sprintf("stores=%d,groups=%d", size.stores, size.groups), func(t *testing.T) {
			seed := seedOf(t)
			o := memory(size.stores)
			o.Groups = size.groups
			o.Store.CacheBytes, o.Store.BlockCacheBytes = 8<<20, 8<<20
			db := mustOpen(t, o)
			defer mustClose(t, db)
			ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "k", Slots: 64})
			must(t, err)
			var did tally.Counts
			first := scribbler{db, ks, rand.New(rand.NewPCG(seed, 99)), 150}
			for range 200 {
				must(t, first.write())
			}
			stop, all := make(chan struct{}), sync.WaitGroup{}
			for i := range 2 {
				s := scribbler{db, ks, rand.New(rand.NewPCG(seed, uint64(i))), 150}
				all.Go(func() {
					for !t.Failed() {
						select {
						case <-stop:
							return
						default:
						}
						if err := s.write(); err != nil {
							t.Error(err)
						}
						did.Add("writes", 1)
					}
				})
			}
			all.Go(func() { shuffle(t, db, rand.New(rand.NewPCG(seed, 7)), stop, &did) })
			for round := range soaking(2) + 1 {
				mode := []IndexMode{Transactional, Asynchronous}[round%2]
				name := fmt.Sprint("all", round)
				ix := mustIndex(t, db, IndexOptions{Name: name, Keyspace: ks, Mode: mode, Function: "all", Extract: everything})
				if mode == Transactional {
					for range 3 {
						n, err := saysAsRows(db, ix, everything)
						must(t, err)
						did.Add("entries compared", n)
					}
				}
				verified(t, ix)
				if round > 0 {
					must(t, db.DropIndex(ctx, "k", name))
				}
			}
			close(stop)
			all.Wait()
			ix, err := db.Index("k", "all0")
			must(t, err)
			_, err = saysAsRows(db, ix, everything)
			must(t, err)
			did.Log(t, "writes", "entries compared", "moves")
		})
	}
}

// A writer who was about to write the entries of an index hears nothing of its end.
func TestAnIndexThatIsDroppedIsNoErrorToWhoWrites(t *testing.T) {
	db := mustOpen(t, memory(1))
	defer mustClose(t, db)
	ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "k"})
	must(t, err)
	mustIndex(t, db, IndexOptions{Name: "all", Keyspace: ks, Function: "all", Extract: everything})
	must(t, ks.Set(ctx, []byte("a"), []byte("before")))
	tries := 0
	must(t, db.Update(ctx, func(tx *Txn) error {
		if err := tx.Set(ks, []byte("a"), []byte("after")); err != nil {
			return err
		}
		if tries++; tries == 1 {
			return db.DropIndex(ctx, "k", "all")
		}
		return nil
	}))
	if got, err := ks.Get(ctx, []byte("a")); err != nil || string(got) != "after" || tries != 2 {
		t.Errorf("%q, %v after %d tries", got, err, tries)
	}
}

// verified fails the test if an index is not clean.
func verified(t *testing.T, ix *Index) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, hanging())
	defer cancel()
	report, err := ix.Verify(limited)
	if err != nil || !report.Clean() {
		t.Errorf("%s: %+v: %v", ix.Name(), report, err)
	}
}

// shuffle moves and splits shards until it is told to stop.
func shuffle(t *testing.T, db *DB, rng *rand.Rand, stop <-chan struct{}, did *tally.Counts) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		shards, err := db.Shards(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		groups := db.Groups()
		var c MapChange = Move{Shard: shards[rng.IntN(len(shards))].ID, To: groups[rng.IntN(len(groups))].ID}
		if spaces := db.Keyspaces(); rng.IntN(4) == 0 && len(shards) < 30 {
			if ks := spaces[rng.IntN(len(spaces))]; ks.Options().Kind == Range {
				c = Split{Keyspace: ks, At: [][]byte{{5, 2, 'v', byte(rng.IntN(256))}}}
			}
		}
		job, err := db.Start(ctx, c)
		if err != nil {
			time.Sleep(time.Millisecond)
			continue // busy, or the catalog, or where it is
		}
		time.Sleep(5 * time.Millisecond)
		if _, err := job.Wait(ctx); err == nil {
			did.Add("moves", 1)
		}
	}
}

// A build goes on where it was after a crash, and a crash leaves no row without its
// entries and no entries without their row.
func TestIndexesAreRightAfterCrashes(t *testing.T) {
	for _, d := range []wal.Durability{wal.Always, wal.Never} {
		t.Run(d.String(), func(t *testing.T) {
			seed := seedOf(t)
			rng := rand.New(rand.NewPCG(seed, 3))
			disk := newCrashDisk()
			for round := range max(soaking(4), 3) {
				o := tiny(d, nil, apart(disk)...)
				o.Store.RetainBytes = []int64{-1, 1 << 20}[round%2]
				db := mustOpen(t, o)
				ks := db.Default()
				for i, mode := range []IndexMode{Transactional, Asynchronous} {
					ix, err := db.OpenIndex(ctx, IndexOptions{Name: fmt.Sprint(i), Keyspace: ks, Mode: mode, Function: "all", Extract: everything})
					must(t, err)
					if round%3 == 2 {
						must(t, ix.Wait(ctx))
						// What is asynchronous may find that it has to be built anew.
						must(t, ix.waitNow(ctx))
						verified(t, ix)
					}
				}
				stop, writers := make(chan struct{}), sync.WaitGroup{}
				for i := range 2 {
					s := scribbler{db, ks, rand.New(rand.NewPCG(seed, uint64(10*round+i))), 100}
					writers.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
								if err := s.write(); err != nil {
									t.Error(err)
									return
								}
							}
						}
					})
				}
				time.Sleep(time.Duration(2+rng.IntN(30)) * time.Millisecond)
				if round%3 == 1 {
					must(t, db.DropIndex(ctx, "default", "0"))
				}
				next := disk.Crash([]int{0, 0, 50}[rng.IntN(3)], rng)
				close(stop)
				writers.Wait()
				mustClose(t, db)
				disk = next
			}
		})
	}
}
