package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// A transaction that wrote a row before there was an index writes it again, with its
// entries, if it comes to its end after.
func TestAWriteThatBeganBeforeAnIndexMaintainsIt(t *testing.T) {
	for _, stores := range []int{1, 2} {
		db := openSmall(t, stores)
		ks := rangeSpace(t, db, "k")
		must(t, ks.Set(ctx, []byte("a"), []byte("1")))
		var ix *Index
		must(t, db.Update(ctx, func(tx *Txn) error {
			err := tx.Set(ks, []byte("a"), []byte("2"))
			if err == nil {
				err = tx.Set(db.Default(), []byte("elsewhere"), nil)
			}
			if ix == nil {
				ix = mustIndex(t, db, IndexOptions{Name: "all", Keyspace: ks, Function: "all", Extract: extractAll})
			}
			return err
		}))
		if _, err := saysAsRows(db, ix, extractAll); err != nil {
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
	node.UnindexedGate
	db     *DB
	passed chan struct{}
}

// CheckOpen implements [group.Gate].
func (g *slowGate) CheckOpen() error {
	if err := g.UnindexedGate.CheckOpen(); err != nil {
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
	db := openSmall(t, 4) // entries and rows apart: a build waits for nothing but on purpose
	ks, p := awayFromTheCatalog(t, db)
	gate := &slowGate{node.UnindexedGate{Keyspace: ks.keyspace}, db, make(chan struct{})}
	written := make(chan error)
	go func() {
		reply, err := ks.findGroupHost(p).Group.Execute(ctx, group.Request{Command: &command.Set{Key: p, Value: []byte("1")}, Key: p, Gate: gate})
		written <- errors.Join(err, reply.Err)
	}()
	<-gate.passed
	ix := mustIndex(t, db, IndexOptions{Name: "all", Keyspace: ks, Function: "all", Extract: extractAll})
	must(t, <-written)
	if n, err := saysAsRows(db, ix, extractAll); err != nil || n != 1 {
		t.Errorf("%d entries: %v", n, err)
	}
}

// randomWriter writes rows at random, by all ways that there are.
type randomWriter struct {
	db   *DB
	ks   *Keyspace
	rng  *rand.Rand
	rows int
}

func (s *randomWriter) drawKey() []byte { return fmt.Appendf(nil, "row %03d", s.rng.IntN(s.rows)) }

func (s *randomWriter) drawValue() []byte { return fmt.Append(nil, s.rng.IntN(50)) }

// writeRandom writes once. Errors about the types of rows are none.
func (s *randomWriter) writeRandom() (err error) {
	key, value := s.drawKey(), s.drawValue()
	switch s.rng.IntN(12) {
	case 0, 1:
		err = s.ks.Set(ctx, key, value)
	case 2:
		_, err = s.ks.SetWith(ctx, key, value, SetOptions{TTL: time.Duration(1+s.rng.IntN(40)) * time.Millisecond})
	case 3:
		_, err = s.ks.Delete(ctx, key, s.drawKey(), s.drawKey())
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
		b.Delete(s.ks, s.drawKey())
		b.HSet(s.ks, fmt.Appendf(nil, "hash %d", s.rng.IntN(20)), Field{value, value})
		err = s.db.Write(ctx, &b)
	default:
		err = s.db.Update(ctx, func(tx *Txn) error {
			if _, err := tx.Delete(s.ks, s.drawKey()); err != nil {
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
			o := memoryOptions(size.stores)
			o.Groups = size.groups
			o.Store.CacheBytes, o.Store.BlockCacheBytes = 8<<20, 8<<20
			db := mustOpen(t, o)
			defer mustClose(t, db)
			ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "k", Slots: 64})
			must(t, err)
			var did tally.Counts
			rows := tally.Size(150, 60)
			first := randomWriter{db, ks, rand.New(rand.NewPCG(seed, 99)), rows}
			for range rows + 50 {
				must(t, first.writeRandom())
			}
			stop, all := make(chan struct{}), sync.WaitGroup{}
			for i := range 2 {
				s := randomWriter{db, ks, rand.New(rand.NewPCG(seed, uint64(i))), rows}
				all.Go(func() {
					for !t.Failed() {
						select {
						case <-stop:
							return
						default:
						}
						if err := s.writeRandom(); err != nil {
							t.Error(err)
						}
						did.Add("writes", 1)
						if testing.Short() {
							time.Sleep(200 * time.Microsecond) // whoever reads meanwhile begins again less often
						}
					}
				})
			}
			all.Go(func() { moveShards(t, db, rand.New(rand.NewPCG(seed, 7)), stop, &did) })
			for round := range scaleRounds(2) + 1 {
				mode := []IndexMode{Transactional, Asynchronous}[round%2]
				name := fmt.Sprint("all", round)
				ix := mustIndex(t, db, IndexOptions{Name: name, Keyspace: ks, Mode: mode, Function: "all", Extract: extractAll})
				if mode == Transactional {
					for range 3 {
						n, err := saysAsRows(db, ix, extractAll)
						must(t, err)
						did.Add("entries compared", n)
					}
				}
				mustVerify(t, ix)
				if round > 0 {
					must(t, db.DropIndex(ctx, "k", name))
				}
			}
			close(stop)
			all.Wait()
			ix, err := db.Index("k", "all0")
			must(t, err)
			_, err = saysAsRows(db, ix, extractAll)
			must(t, err)
			did.Log(t, "writes", "entries compared", "moves")
		})
	}
}

// A writer that was about to write the entries of an index gets no error from its end.
func TestAnIndexThatIsDroppedIsNoErrorToWhoWrites(t *testing.T) {
	db := mustOpen(t, memoryOptions(1))
	defer mustClose(t, db)
	ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "k"})
	must(t, err)
	mustIndex(t, db, IndexOptions{Name: "all", Keyspace: ks, Function: "all", Extract: extractAll})
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

// mustVerify fails the test if an index is not clean.
func mustVerify(t *testing.T, ix *Index) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, hangTimeout())
	defer cancel()
	report, err := ix.Verify(limited)
	if err != nil || !report.Clean() {
		t.Errorf("%s: %+v: %v", ix.Name(), report, err)
	}
}

// moveShards moves and splits shards until stop is closed.
func moveShards(t *testing.T, db *DB, rng *rand.Rand, stop <-chan struct{}, did *tally.Counts) {
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
				c = SplitAtKeys(ks, []byte{5, 2, 'v', byte(rng.IntN(256))})
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
			for round := range max(scaleRounds(4), 3) {
				o := tinyOptions(d, nil, threeStores(disk)...)
				o.Store.RetainBytes = []int64{-1, 1 << 20}[round%2]
				db := mustOpen(t, o)
				ks := db.Default()
				for i, mode := range []IndexMode{Transactional, Asynchronous} {
					ix, err := db.OpenIndex(ctx, IndexOptions{Name: fmt.Sprint(i), Keyspace: ks, Mode: mode, Function: "all", Extract: extractAll})
					must(t, err)
					if round%3 == 2 {
						must(t, ix.Wait(ctx))
						// What is asynchronous may find that it has to be built anew.
						must(t, ix.index.WaitCaughtUp(ctx))
						mustVerify(t, ix)
					}
				}
				stop, writers := make(chan struct{}), sync.WaitGroup{}
				for i := range 2 {
					s := randomWriter{db, ks, rand.New(rand.NewPCG(seed, uint64(10*round+i))), 100}
					writers.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
								if err := s.writeRandom(); err != nil {
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

// A caller that opens an index while another goroutine makes it may use it at once.
func TestAnIndexThatSeveralOpenAtOnceMayBeUsedByAll(t *testing.T) {
	db := openSmall(t, 2)
	ks := rangeSpace(t, db, "k")
	for round := range 20 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				limited, cancel := context.WithTimeout(ctx, hangTimeout())
				defer cancel()
				ix, err := db.OpenIndex(ctx, IndexOptions{Name: fmt.Sprint("i", round), Keyspace: ks, Mode: IndexMode(round % 2), Columns: "a"})
				if err == nil {
					_, err = ix.Status()
				}
				if err == nil {
					err = ix.Wait(limited)
				}
				if err == nil {
					err = ix.index.WaitCaughtUp(limited)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		must(t, db.DropIndex(ctx, "k", fmt.Sprint("i", round)))
	}
}

// A row whose entries do not fit has none in an index that follows, and is counted. It
// does not keep others from theirs.
func TestAnIndexThatFollowsPassesOverRowsThatDoNotFit(t *testing.T) {
	for name, row := range map[string]struct {
		key   []byte
		value string
	}{
		"long key":             {bytes.Repeat([]byte("k"), 16<<10), "de"},
		"long key of zeros":    {make([]byte, 16<<10), "de"},
		"half a key of zeros":  {make([]byte, 8<<10), "de"},
		"long field":           {[]byte("a"), string(make([]byte, 9<<10))},
		"large entry":          {[]byte("a"), "large"},
		"too large an entry":   {[]byte("a"), "too large"},
		"many entries":         {[]byte("a"), "many"},
		"many entries and big": {[]byte("a"), "many big"},
		"many long entries":    {[]byte("a"), "many long"},
		"panics":               {[]byte("a"), "panic"},
		"error":                {[]byte("a"), "error"},
		"bad type":             {[]byte("a"), "type"},
	} {
		t.Run(name, func(t *testing.T) {
			db := openSmall(t, 1)
			ks := rangeSpace(t, db, "k")
			ix := mustIndex(t, db, IndexOptions{Name: "i", Keyspace: ks, Mode: Asynchronous, Function: "f", Extract: hostileEntries})
			_, err := ks.HSet(ctx, row.key, newFields("f", row.value)...)
			must(t, err)
			_, err = ks.HSet(ctx, []byte("z"), newFields("f", "nz")...)
			must(t, err)
			limited, cancel := context.WithTimeout(ctx, hangTimeout())
			defer cancel()
			if err := ix.index.WaitCaughtUp(limited); err != nil {
				t.Fatal(err)
			}
			expectFound(t, ix, IndexScanOptions{Prefix: key.Tuple{"nz"}}, `("nz")=z`)
			report, err := ix.Verify(limited)
			if err != nil || !report.Clean() {
				t.Errorf("%+v %v", report, err)
			}
		})
	}
}

func hostileEntries(r IndexRow) (all []IndexEntry, _ error) {
	text := string(r.Field("f"))
	switch text {
	case "large":
		return []IndexEntry{{key.Tuple{text}, make([]byte, 7<<20)}}, nil
	case "too large":
		return []IndexEntry{{key.Tuple{text}, make([]byte, 65<<20)}}, nil
	case "many", "many big", "many long":
		big := make([]byte, 1<<20)
		for i := range 1000 {
			e := IndexEntry{Entry: key.Tuple{text, i}}
			if text == "many big" {
				e.Value = big
			}
			if text == "many long" {
				e.Entry = append(e.Entry, bytes.Repeat([]byte("x"), 15<<10))
			}
			all = append(all, e)
		}
		return all, nil
	case "panic":
		panic("no")
	case "error":
		return nil, errors.New("no")
	case "type":
		return []IndexEntry{{Entry: key.Tuple{struct{}{}}}}, nil
	}
	return []IndexEntry{{Entry: key.Tuple{text}}}, nil
}

// A caller that makes an index and does not wait for the end of that leaves one behind that is
// built all the same, and misses no row that was on its way.
func TestAnIndexWhoseMakerHasLeftMissesNoRowThatWasOnItsWay(t *testing.T) {
	db := openSmall(t, 4) // entries and rows apart
	ks, p := awayFromTheCatalog(t, db)
	gate := &slowGate{node.UnindexedGate{Keyspace: ks.keyspace}, db, make(chan struct{})}
	written := make(chan error)
	go func() {
		reply, err := ks.findGroupHost(p).Group.Execute(ctx, group.Request{Command: &command.Set{Key: p, Value: []byte("1")}, Key: p, Gate: gate})
		written <- errors.Join(err, reply.Err)
	}()
	<-gate.passed
	leaving, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	o := IndexOptions{Name: "all", Keyspace: ks, Function: "all", Extract: extractAll}
	if _, err := db.CreateIndex(leaving, o); err == nil {
		t.Fatal("the row was not on its way")
	}
	ix := mustIndex(t, db, o)
	must(t, <-written)
	if n, err := saysAsRows(db, ix, extractAll); err != nil || n != 1 {
		t.Errorf("%d entries: %v", n, err)
	}
}

// awayFromTheCatalog makes a keyspace whose first key is not where keyspaces are made:
// a call that makes one would wait for what is done there.
func awayFromTheCatalog(t *testing.T, db *DB) (ks *Keyspace, p partition.Position) {
	for i := 0; ks == nil || ks.findGroupHost(p).ID == 1; i++ {
		ks = rangeSpace(t, db, fmt.Sprint("k", i))
		p = ks.keyspace.AppendPosition(nil, []byte("a"))
	}
	return ks, p
}

// A build that was interrupted behind its last page ends when the store is opened again.
func TestABuildThatLacksNothingButTheNoteEnds(t *testing.T) {
	dir := t.TempDir()
	db := onDisk(t, dir, 1)
	must(t, db.Default().Set(ctx, []byte("a"), []byte("1")))
	o := IndexOptions{Name: "i", Keyspace: db.Default(), Columns: "a"}
	mustIndex(t, db, o)
	x, err := db.node.Index("default", "i")
	must(t, err)
	must(t, db.node.SetIndexReady(ctx, x, false))
	mustClose(t, db)
	db = onDisk(t, dir, 1)
	defer mustClose(t, db)
	o.Keyspace = db.Default()
	mustVerify(t, mustIndex(t, db, o))
}

// Groups have clocks of their own, which are apart after a crash. An entry that follows its
// row is gone by the clock of its group while the row is there by that of its own, or the
// other way round: that is no fault of the index.
func TestAnIndexThatFollowsIsWellWhileClocksDiffer(t *testing.T) {
	for _, ahead := range []string{"entries", "rows"} {
		db := openSmall(t, 2)
		ks, p := awayFromTheCatalog(t, db)
		rows := ks.findGroupHost(p).Group
		var ix *Index
		var entries *group.Group
		for i := 0; entries == nil || entries == rows; i++ {
			ix = mustIndex(t, db, IndexOptions{Name: fmt.Sprint(i), Keyspace: ks, Mode: Asynchronous, Function: "all", Extract: extractAll})
			start, _ := index.EntriesSpan()
			entries = ix.Entries().findGroupHost(ix.Entries().keyspace.AppendPosition(nil, start)).Group
		}
		key, _, err := ks.keyspace.Split(nil, p)
		must(t, err)
		_, err = ks.SetWith(ctx, key, []byte("1"), SetOptions{TTL: 4 * time.Second})
		must(t, err)
		must(t, ix.index.WaitCaughtUp(ctx))
		turned := entries
		if ahead == "rows" {
			turned = rows
		}
		reply, err := turned.Execute(ctx, group.Request{Command: &ownership.ChangeOwnership{ClockFloorMS: turned.NowMS() + 6000}})
		must(t, errors.Join(err, reply.Err))
		report, err := ix.Verify(ctx)
		must(t, err)
		if !report.Clean() {
			t.Errorf("the clock of the %s is ahead: %+v", ahead, report)
		}
	}
}

// A write while a unique index is dropped gets no error from that.
func TestAWriteOutlivesItsUniqueIndex(t *testing.T) {
	db := openSmall(t, 2)
	ks := db.Default()
	ix, err := db.CreateIndex(ctx, IndexOptions{Name: "mail", Keyspace: ks, Columns: "mail", Unique: true})
	must(t, err)
	must(t, ix.Wait(ctx))
	attempts := 0
	must(t, db.Update(ctx, func(tx *Txn) error {
		if _, err := tx.HSet(ks, []byte("a"), newFields("mail", "a@example.org")...); err != nil {
			return err
		}
		if attempts++; attempts > 1 {
			return nil
		}
		for _, err := range tx.ScanIndex(ix, IndexScanOptions{}) { // its entry is written with that
			if err != nil {
				return err
			}
		}
		return db.DropIndex(ctx, ks.Name(), "mail")
	}))
	if mail, err := ks.HGet(ctx, []byte("a"), []byte("mail")); err != nil || string(mail) != "a@example.org" || attempts != 2 {
		t.Errorf("%q, %v, after %d attempts", mail, err, attempts)
	}
}
