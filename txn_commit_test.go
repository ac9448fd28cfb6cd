package cleave

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// threeStores are three stores on one disk, which crash together.
func threeStores(disk *crashDisk) []store.FS {
	return slices.Repeat([]store.FS{disk.FS()}, 3)
}

// At everysec and no a crash may take back what was acknowledged, but not a half of it.
func TestATransactionAcrossStoresIsWholeAfterACrash(t *testing.T) {
	for _, d := range []wal.Durability{wal.EverySec, wal.Never} {
		t.Run(d.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seedOf(t), 3))
			disk := newCrashDisk()
			for round := range scaleRounds(8) {
				db := mustOpen(t, tinyOptions(d, nil, threeStores(disk)...))
				keys := keyPerStore(db)
				if round > 0 {
					checkSameNumber(t, db, keys)
				}
				var clients sync.WaitGroup
				stop := make(chan struct{})
				for range 2 {
					clients.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
								must(t, addAll(db, keys))
							}
						}
					})
				}
				time.Sleep(time.Duration(2+rng.IntN(20)) * time.Millisecond)
				next := disk.Crash([]int{0, 0, 50}[round%3], rng)
				close(stop)
				clients.Wait()
				mustClose(t, db)
				disk = next
			}
		})
	}
}

// addAll adds one to each key, together.
func addAll(db *DB, keys [][]byte) error {
	return db.Update(ctx, func(tx *Txn) error {
		for _, key := range keys {
			if _, err := tx.Add(db.Default(), key, 1); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkSameNumber checks that keys hold the same number, and that nothing is locked.
func checkSameNumber(t *testing.T, db *DB, keys [][]byte) {
	t.Helper()
	values, err := db.Default().GetMany(ctx, keys...)
	must(t, err)
	for i := range values {
		if string(values[i]) != string(values[0]) {
			t.Fatalf("key %d holds %q, the first %q", i, values[i], values[0])
		}
	}
	waitUnlocked(t, db)
}

// waitUnlocked waits until transactions have come to their end, which they do.
func waitUnlocked(t *testing.T, db *DB) {
	t.Helper()
	waitUntil(t, "no lock is left", func() bool {
		locks := 0
		for _, p := range db.node.GroupHosts() {
			locks += len(p.Group.ListLocks())
		}
		return locks == 0 && db.Metrics().Transactions.Open == 0
	})
}

// A caller that leaves a transaction gets its outcome, or the error that it is unknown; and it
// is one of the two.
func TestATransactionThatItsCallerLeavesIsWholeOrNothing(t *testing.T) {
	db := openSmall(t, 3)
	ks, keys := db.Default(), keyPerStore(db)
	rng := rand.New(rand.NewPCG(seedOf(t), 4))
	least, most := 0, 0
	for range scaleRounds(200) {
		limited, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(time.Duration(rng.IntN(400))*time.Microsecond, cancel)
		err := db.Update(limited, func(tx *Txn) error {
			for _, key := range keys {
				if _, err := tx.Add(ks, key, 1); err != nil {
					return err
				}
			}
			return nil
		})
		timer.Stop()
		cancel()
		switch {
		case err == nil:
			least, most = least+1, most+1
		case errors.Is(err, ErrUnknown):
			most++
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
	waitUnlocked(t, db)
	checkSameNumber(t, db, keys)
	text, err := ks.Get(ctx, keys[0])
	if least == 0 && errors.Is(err, ErrNotFound) {
		return
	}
	must(t, err)
	n, err := strconv.Atoi(string(text))
	must(t, err)
	if n < least || n > most {
		t.Errorf("%d happened, of %d that did and %d that may have", n, least, most)
	}
}

// addOrphanLock locks a key for a transaction that has no coordinator.
func addOrphanLock(t *testing.T, db *DB, key, decider []byte) {
	t.Helper()
	ks := db.Default()
	p := ks.keyspace.AppendPosition(nil, key)
	m := db.node.Map()
	part := db.node.GroupHostAt(p)
	reply, err := part.Group.Execute(ctx, group.Request{Command: &txn.Prepare{
		ID: txn.ID{1, 2, 3}, CoordinatorGroup: m.Owner(ks.keyspace.AppendPosition(nil, decider)).Group, DeadlineMS: part.Group.NowMS() + 5000,
		Participant: txn.Participant{Span: m.Find(p).Span, Writes: []command.Command{&command.Set{Key: p, Value: []byte("orphan")}}},
	}})
	must(t, errors.Join(err, reply.Err))
}

func TestWhatADeadTransactionHasLockedIsFreeAgain(t *testing.T) {
	clock, disk := newClock(), newCrashDisk()
	o := tinyOptions(wal.Always, clock, threeStores(disk)...)
	db := mustOpen(t, o)
	ks, keys := db.Default(), keyPerStore(db)
	must(t, ks.Set(ctx, keys[0], []byte("before")))
	read := func(what string) {
		t.Helper()
		if got, err := ks.Get(ctx, keys[0]); err != nil || string(got) != "before" {
			t.Errorf("%s: the key holds %q, %v", what, got, err)
		}
	}
	addOrphanLock(t, db, keys[0], keys[1])
	read("locked")
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	if err := ks.Set(short, keys[0], nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a key was written that a transaction has locked: %v", err)
	}
	cancel()
	clock.advance(6 * time.Second) // its deadline has passed
	must(t, ks.Set(ctx, keys[0], []byte("before")))
	waitUnlocked(t, db)
	// After a restart it is free at once: its coordinator is gone.
	addOrphanLock(t, db, keys[0], keys[2])
	mustClose(t, db)
	db = mustOpen(t, o)
	ks = db.Default()
	waitUnlocked(t, db)
	read("opened again")
	must(t, ks.Set(ctx, keys[0], nil))
	mustClose(t, db)
}

// A decision that was made is carried out by the next Open of the store.
func TestADecisionIsCarriedOutAfterARestart(t *testing.T) {
	disk := newCrashDisk()
	o := tinyOptions(wal.Always, nil, threeStores(disk)...)
	db := mustOpen(t, o)
	ks, keys := db.Default(), keyPerStore(db)
	addOrphanLock(t, db, keys[0], keys[1])
	decider := ks.keyspace.AppendPosition(nil, keys[1])
	m := db.node.Map()
	first := m.Find(ks.keyspace.AppendPosition(nil, keys[0])).Span
	part := db.node.GroupHostAt(decider)
	reply, err := part.Group.Execute(ctx, group.Request{Command: &txn.Decide{
		ID: txn.ID{1, 2, 3}, Commit: true, CoordinatorGroup: part.ID, DeadlineMS: part.Group.NowMS() + 5000, OtherSpans: []partition.Span{first},
		Participant: txn.Participant{Span: m.Find(decider).Span, Writes: []command.Command{&command.Set{Key: decider, Value: []byte("orphan")}}},
	}})
	must(t, errors.Join(err, reply.Err))
	check := func(what string) {
		t.Helper()
		values, err := ks.GetMany(ctx, keys[0], keys[1])
		must(t, err)
		got, err := ks.Get(ctx, keys[0])
		must(t, err)
		if fmt.Sprintf("%s %s %s", values[0], values[1], got) != "orphan orphan orphan" {
			t.Errorf("%s: %q and %q", what, values, got)
		}
	}
	check("decided")
	mustClose(t, db)
	db = mustOpen(t, o)
	ks = db.Default()
	check("opened again")
	waitUnlocked(t, db)
	check("carried out")
	mustClose(t, db)
}

// No transaction is turned away for ever: after three conflicts it is the next one.
func TestALongTransactionHasItsTurn(t *testing.T) {
	for _, stores := range []int{1, 3} {
		t.Run(fmt.Sprintf("stores=%d", stores), func(t *testing.T) {
			db := openSmall(t, stores)
			ks := db.Default()
			keys := make([][]byte, 12)
			for i := range keys {
				keys[i] = fmt.Append(nil, "key ", i)
			}
			stop := make(chan struct{})
			var writers sync.WaitGroup
			for w := range 3 {
				writers.Go(func() {
					for i := w; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						if _, err := ks.Add(ctx, keys[i%len(keys)], 1); err != nil {
							t.Error(err)
							return
						}
						must(t, addAll(db, [][]byte{keys[i%len(keys)], keys[(i+5)%len(keys)]}))
					}
				})
			}
			for range 5 {
				attempts := 0
				err := db.Update(ctx, func(tx *Txn) error {
					attempts++
					for _, key := range keys {
						if _, err := tx.Add(ks, key, 1); err != nil {
							return err
						}
						time.Sleep(200 * time.Microsecond)
					}
					return nil
				})
				if err != nil || attempts > attemptsBeforeReserve+1 {
					t.Errorf("%d attempts: %v", attempts, err)
				}
			}
			close(stop)
			writers.Wait()
			if db.Metrics().Transactions.InTurn == 0 {
				t.Error("nobody had to wait for a turn: this test is about that")
			}
		})
	}
}

// A transaction that waits for a range when the store is closed has not happened, and
// its caller gets that error.
func TestATransactionThatCloseInterruptsIsNotAcknowledged(t *testing.T) {
	frozen, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o := memoryOptions(2)
	o.OnJob = func(j mover.Job) {
		if j.Phase == mover.Finishing {
			once.Do(func() { close(frozen); <-goOn })
		}
	}
	db := mustOpen(t, o)
	ks, lo, hi := db.Default(), keyOn(db, 0), keyOn(db, 1)
	mustStart(t, db, Move{Shard: shardAt(ks, string(hi)), To: groupOnOtherStore(ks, string(hi))})
	<-frozen
	answer := make(chan error, 1)
	go func() {
		answer <- db.Update(ctx, func(tx *Txn) error { return errors.Join(tx.Set(ks, lo, nil), tx.Set(ks, hi, nil)) })
	}()
	waitUntil(t, "the transaction commits", func() bool { return db.Metrics().Transactions.Open > 0 })
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	err := <-answer
	close(goOn)
	must(t, <-closed)
	checkRefused(t, "a transaction that Close interrupts", err, ErrClosed)
	db = mustOpen(t, o)
	defer mustClose(t, db)
	for _, key := range [][]byte{lo, hi} {
		if ok, err := db.Default().Exists(ctx, key); ok || err != nil {
			t.Errorf("%s: %v, %v", key, ok, err)
		}
	}
}

// A batch whose caller has left may still be in the queue of a group. It can be used
// again at once all the same; the race detector looks on.
func TestABatchThatWasLeftMayBeUsedAgain(t *testing.T) {
	db := openSmall(t, 2)
	ks, a, b := db.Default(), keyOn(db, 0), keyOn(db, 1)
	release := blockGroup(t, db.node.StoreHosts()[1].GroupHosts()[0])
	var batch Batch
	fill := func() {
		batch.Set(ks, a, []byte("value"))
		batch.Set(ks, b, []byte("value"))
	}
	fill()
	limited, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	checkRefused(t, "whoever leaves", db.Write(limited, &batch), context.DeadlineExceeded)
	batch.Reset()
	fill()
	release()
	must(t, db.Write(ctx, &batch))
}

// A request that was executed is known as such from its decision on, also where its
// record is not more than an intent.
func TestARetryWaitsForTheRecordOfItsRequest(t *testing.T) {
	db := openSmall(t, 3)
	ks := db.Default()
	batch := Batch{Request: db.NewRequestID()}
	m := db.node.Map()
	participants := protocol.NewParticipants(m, nil)
	for _, store := range []int{2, 1, 0} { // the last part has the record
		key := keyOn(db, store)
		p := ks.keyspace.AppendPosition(nil, key)
		part := participants.ParticipantAt(p)
		if batch.Len() == 0 {
			once := group.Request{Key: p, ID: group.RequestID(batch.Request)}
			part.Writes = append(part.Writes, &group.RecordRequest{Request: once, Remember: db.node.Remember()})
		}
		part.Writes = append(part.Writes, &command.Set{Key: p, Condition: command.IfAbsent})
		batch.SetWith(ks, key, nil, SetOptions{IfAbsent: true})
	}
	parts := participants.Sorted()
	plan := txn.Plan{ID: txn.ID{7}, DeadlineMS: db.node.WallMS() + 5000, Participants: parts, CoordinatorGroup: m.Owner(parts[0].Span.Start).Group}
	c, _ := txn.NewCoordinator(plan)
	do := func(i int, command group.Request) {
		t.Helper()
		command.NoWait = true
		reply, err := db.node.GroupHostAt(parts[i].Span.Start).Group.Execute(ctx, command)
		must(t, errors.Join(err, reply.Err))
	}
	do(1, group.Request{Command: c.MakePrepare(txn.SendPrepare{Participant: 1})})
	do(2, group.Request{Command: c.MakePrepare(txn.SendPrepare{Participant: 2})})
	do(0, group.Request{Command: c.MakeDecide(txn.SendDecide{Commit: true})})
	do(1, group.Request{Command: &txn.Resolve{ID: plan.ID, Span: parts[1].Span, Commit: true, DeadlineMS: plan.DeadlineMS}})
	if err := db.Write(ctx, &batch); err != nil {
		t.Errorf("the retry of a request that was executed: %v", err)
	}
}

// A transaction whose turn has not come does not wait for a store that is closed.
func TestWhoWaitsForATurnIsToldOfClose(t *testing.T) {
	db := mustOpen(t, memoryOptions(2))
	a, b := keyOn(db, 0), keyOn(db, 1)
	addOrphanLock(t, db, b, a)
	claim := txn.ReservedSpan{Span: txn.KeySpan(db.Default().keyspace.AppendPosition(nil, b)), Write: true}
	answer := make(chan error, 1)
	go func() {
		_, _, err := db.node.Reserve(ctx, []txn.ReservedSpan{claim})
		answer <- err
	}()
	time.Sleep(10 * time.Millisecond) // so that it waits, mostly
	mustClose(t, db)
	checkRefused(t, "who waits for a turn", toPublicError(<-answer), ErrClosed)
}

// A caller that leaves a queue before anything was tried that changes data gets that error, and not
// the one that the outcome is unknown.
func TestWhoLeavesBeforeAnythingWasTriedIsInNoDoubt(t *testing.T) {
	db := openIdle(t)
	ks := db.Default()
	mustIndex(t, db, IndexOptions{Name: "mail", Columns: "mail"})
	key, id := []byte("k"), db.NewRequestID()
	calls := map[string]func(context.Context) error{
		"for its turn": func(c context.Context) error {
			claim := txn.ReservedSpan{Span: txn.KeySpan(ks.keyspace.AppendPosition(nil, key)), Write: true}
			_, release, err := db.node.Reserve(c, []txn.ReservedSpan{claim})
			if err == nil {
				release()
			}
			return toPublicError(err)
		},
		"for the record of its request": func(c context.Context) error {
			return secondError(ks.SetWith(c, key, nil, SetOptions{Request: id}))
		},
		"for the record of its batch": func(c context.Context) error {
			b := &Batch{Request: id}
			b.Set(ks, key, nil)
			return db.Write(c, b)
		},
	}
	release := blockGroup(t, db.node.StoreHosts()[0].GroupHosts()[0])
	leaving, cancel := context.WithCancel(ctx)
	answers := map[string]chan error{}
	for what, call := range calls {
		answer := make(chan error, 1)
		answers[what] = answer
		go func() { answer <- call(leaving) }()
	}
	waitQueued(t, db, len(calls))
	cancel()
	waitQueued(t, db, len(calls)+1) // a caller that has asked for a turn takes that back
	release()
	for what, answer := range answers {
		if err := <-answer; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
			t.Errorf("who waits %s and leaves: %v, want context.Canceled alone", what, err)
		}
	}
	if there, err := ks.Exists(ctx, key); there || err != nil {
		t.Errorf("something was written: %v, %v", there, err)
	}
}

// One of two stores has failed. What cannot be finished before the next Open is
// left to that: it takes up nothing meanwhile.
func TestTransactionsAtAFailedStoreLeaveNothingBehind(t *testing.T) {
	var broken atomic.Bool
	db := mustOpen(t, tinyOptions(wal.Always, newClock(), store.NewMemFS(), brokenFS{store.NewMemFS(), &broken}))
	defer db.Close()
	ks, lo, hi := db.Default(), keyOn(db, 0), keyOn(db, 1)
	broken.Store(true)
	var err error
	for i := 0; err == nil && i < 2000; i++ {
		err = ks.Set(ctx, hi, make([]byte, 10_000))
	}
	checkRefused(t, "a write", err, ErrFailed)
	for range 20 {
		var b Batch
		b.Set(ks, lo, nil)
		b.Set(ks, hi, nil)
		checkRefused(t, "a batch", db.Write(ctx, &b), ErrFailed)
	}
	waitUntil(t, "no transaction goes on", func() bool { return db.Metrics().Transactions.Open == 0 })
}

// BenchmarkCommit is a transaction of two keys, by how far they are apart, until
// nothing is left of it.
func BenchmarkCommit(b *testing.B) {
	for _, d := range []Durability{Always, EverySec} {
		db, err := Open(b.TempDir(), Options{Stores: 2, Groups: 4, Durability: d})
		if err != nil {
			b.Fatal(err)
		}
		ks := db.Default()
		keys := map[*node.GroupHost][][]byte{}
		var parts []*node.GroupHost
		for i := range 40000 {
			key := fmt.Appendf(nil, "%08d", i)
			p := db.node.GroupHostAt(ks.keyspace.AppendPosition(nil, key))
			if keys[p] == nil {
				parts = append(parts, p)
			}
			keys[p] = append(keys[p], key)
		}
		pair := func(how string) (x, y []byte) {
			p := parts[rand.N(len(parts))]
			q := p
			for how != "one-group" {
				q = parts[rand.N(len(parts))]
				if q != p && (q.Host == p.Host) == (how == "one-store") {
					break
				}
			}
			return keys[p][rand.N(len(keys[p]))], keys[q][rand.N(len(keys[q]))]
		}
		for _, clients := range []int{1, 64} {
			for _, how := range []string{"one-group", "one-store", "two-stores"} {
				b.Run(fmt.Sprintf("%v-x%d/%s", d, clients, how), func(b *testing.B) {
					var all sync.WaitGroup
					for c := range clients {
						n := b.N / clients
						if c < b.N%clients {
							n++
						}
						all.Go(func() {
							value := make([]byte, 100)
							for range n {
								x, y := pair(how)
								if err := db.Update(ctx, func(tx *Txn) error {
									for _, key := range [][]byte{x, y} {
										if _, err := tx.Get(ks, key); err != nil && !errors.Is(err, ErrNotFound) {
											return err
										}
										if err := tx.Set(ks, key, value); err != nil {
											return err
										}
									}
									return nil
								}); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					all.Wait()
					for db.Metrics().Transactions.Open > 0 {
						time.Sleep(20 * time.Microsecond)
					}
				})
			}
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
