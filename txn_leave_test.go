package cleave

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/internal/wal"
)

// A transaction that waits for a range when the store is closed has not happened, and
// its caller is told so.
func TestATransactionThatCloseInterruptsIsNotAcknowledged(t *testing.T) {
	frozen, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o := memory(2)
	o.OnJob = func(j mover.Job) {
		if j.Phase == mover.Finishing {
			once.Do(func() { close(frozen); <-goOn })
		}
	}
	db := mustOpen(t, o)
	ks, lo, hi := db.Default(), keyOn(db, 0), keyOn(db, 1)
	mustStart(t, db, Move{Shard: shardAt(ks, string(hi)), To: elsewhere(ks, string(hi))})
	<-frozen
	answer := make(chan error, 1)
	go func() {
		answer <- db.Update(ctx, func(tx *Txn) error { return errors.Join(tx.Set(ks, lo, nil), tx.Set(ks, hi, nil)) })
	}()
	for db.Metrics().Transactions.Open == 0 {
		time.Sleep(time.Millisecond)
	}
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	err := <-answer
	close(goOn)
	must(t, <-closed)
	refused(t, "a transaction that Close interrupts", err, ErrClosed)
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
	db := small(t, 2)
	ks, a, b := db.Default(), keyOn(db, 0), keyOn(db, 1)
	release := blockGroup(t, db.node.Hosts()[1].Parts()[0])
	var batch Batch
	fill := func() {
		batch.Set(ks, a, []byte("value"))
		batch.Set(ks, b, []byte("value"))
	}
	fill()
	limited, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	refused(t, "whoever leaves", db.Write(limited, &batch), context.DeadlineExceeded)
	batch.Reset()
	fill()
	release()
	must(t, db.Write(ctx, &batch))
}

// A request that was executed is known as such from its decision on, also where its
// record is not more than an intent.
func TestARetryWaitsForTheRecordOfItsRequest(t *testing.T) {
	db := small(t, 3)
	ks := db.Default()
	batch := Batch{Request: db.NewRequestID()}
	for _, store := range []int{2, 1, 0} { // the last part has the record
		batch.SetWith(ks, keyOn(db, store), nil, SetOptions{IfAbsent: true})
	}
	parts, m := batch.parts(db), db.node.Map()
	plan := txn.Plan{ID: txn.ID{7}, DeadlineMS: db.node.WallMS() + 5000, Parts: parts, Decider: m.Owner(parts[0].Span.Start).Group}
	c, _ := txn.NewCoordinator(plan)
	do := func(i int, command group.Request) {
		t.Helper()
		reply, err := db.node.PartOf(parts[i].Span.Start).Group.Try(ctx, command)
		must(t, errors.Join(err, reply.Err))
	}
	do(1, group.Request{Command: c.Prepare(txn.SendPrepare{Part: 1})})
	do(2, group.Request{Command: c.Prepare(txn.SendPrepare{Part: 2})})
	do(0, group.Request{Command: c.Decide(txn.SendDecide{Commit: true})})
	do(1, group.Request{Command: &txn.Resolve{ID: plan.ID, Span: parts[1].Span, Commit: true, DeadlineMS: plan.DeadlineMS}})
	if err := db.Write(ctx, &batch); err != nil {
		t.Errorf("the retry of a request that was executed: %v", err)
	}
}

// A transaction whose turn has not come does not wait for a store that is closed.
func TestWhoWaitsForATurnIsToldOfClose(t *testing.T) {
	db := mustOpen(t, memory(2))
	a, b := keyOn(db, 0), keyOn(db, 1)
	orphan(t, db, b, a)
	claim := txn.Claim{Span: txn.KeySpan(db.Default().space.AppendPosition(nil, b)), Write: true}
	answer := make(chan error, 1)
	go func() {
		_, _, err := db.node.Hold(ctx, []txn.Claim{claim})
		answer <- err
	}()
	time.Sleep(10 * time.Millisecond) // so that it waits, mostly
	mustClose(t, db)
	refused(t, "who waits for a turn", public(<-answer), ErrClosed)
}

// Who leaves a queue before anything was tried that changes data is told that, and not
// that the outcome is unknown.
func TestWhoLeavesBeforeAnythingWasTriedIsInNoDoubt(t *testing.T) {
	db := idle(t)
	ks := db.Default()
	mustIndex(t, db, IndexOptions{Name: "mail", Columns: "mail"})
	key, id := []byte("k"), db.NewRequestID()
	calls := map[string]func(context.Context) error{
		"for its turn": func(c context.Context) error {
			claim := txn.Claim{Span: txn.KeySpan(ks.space.AppendPosition(nil, key)), Write: true}
			return db.holding(c, []txn.Claim{claim}, func(txn.ID) error { return nil })
		},
		"for the record of its request": func(c context.Context) error {
			return second(ks.SetWith(c, key, nil, SetOptions{Request: id}))
		},
		"for the record of its batch": func(c context.Context) error {
			b := &Batch{Request: id}
			b.Set(ks, key, nil)
			return db.Write(c, b)
		},
	}
	release := blockGroup(t, db.node.Hosts()[0].Parts()[0])
	leaving, cancel := context.WithCancel(ctx)
	answers := map[string]chan error{}
	for what, call := range calls {
		answer := make(chan error, 1)
		answers[what] = answer
		go func() { answer <- call(leaving) }()
	}
	waiting(db, len(calls))
	cancel()
	waiting(db, len(calls)+1) // who has asked for a turn takes that back
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

// One of two stores has failed. What nobody can bring to its end before the next Open is
// left to that: it takes up nothing meanwhile.
func TestTransactionsAtAFailedStoreLeaveNothingBehind(t *testing.T) {
	var broken atomic.Bool
	db := mustOpen(t, tiny(wal.Always, nil, store.Memory(), brokenFS{store.Memory(), &broken}))
	defer db.Close()
	ks, lo, hi := db.Default(), keyOn(db, 0), keyOn(db, 1)
	broken.Store(true)
	var err error
	for i := 0; err == nil && i < 2000; i++ {
		err = ks.Set(ctx, hi, make([]byte, 10_000))
	}
	refused(t, "a write", err, ErrFailed)
	for range 20 {
		var b Batch
		b.Set(ks, lo, nil)
		b.Set(ks, hi, nil)
		refused(t, "a batch", db.Write(ctx, &b), ErrFailed)
	}
	for began := time.Now(); db.Metrics().Transactions.Open > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Second {
			t.Fatalf("%d transactions go on", db.Metrics().Transactions.Open)
		}
	}
}
