package cleave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/txn"
)

// inTurns is a store of four groups, and keys of each, in the order of groups.
func inTurns(t *testing.T) (db *DB, keys [][]byte) {
	o := memoryOptions(1)
	o.Groups, o.Wall = 4, newClock().ms.Load
	db = mustOpen(t, o)
	t.Cleanup(func() { must(t, db.Close()) })
	of := map[*node.GroupHost][]byte{}
	for i := 0; len(of) < o.Groups; i++ {
		key := fmt.Appendf(nil, "key %d", i)
		of[partOf(db, key)] = key
	}
	for _, p := range slices.SortedFunc(slices.Values(db.node.GroupHosts()), func(a, b *node.GroupHost) int { return int(a.ID) - int(b.ID) }) {
		keys = append(keys, of[p])
	}
	return db, keys
}

func partOf(db *DB, key []byte) *node.GroupHost {
	return db.node.GroupHostAt(db.Default().keyspace.AppendPosition(nil, key))
}

func claimsOf(db *DB, keys ...[]byte) (claims []txn.ReservedSpan) {
	for _, key := range keys {
		claims = append(claims, txn.ReservedSpan{Span: txn.KeySpan(db.Default().keyspace.AppendPosition(nil, key)), Write: true})
	}
	return claims
}

// countReservations is how many have asked for a turn in the group of a key.
func countReservations(t *testing.T, db *DB, key []byte) int64 {
	t.Helper()
	reply, err := partOf(db, key).Group.Execute(ctx, group.Request{NoWait: true, Command: &txn.Release{}}) // of no transaction
	must(t, err)
	return reply.Int
}

// setAll writes keys at once.
func setAll(ctx context.Context, db *DB, keys ...[]byte) error {
	var b Batch
	for _, key := range keys {
		b.Set(db.Default(), key, nil)
	}
	return db.Write(ctx, &b)
}

// There is always one more transaction that has asked for a turn. A plain write of the same key
// has its own turn, after those that were there before it.
func TestAPlainWriteHasItsTurnAmongTransactions(t *testing.T) {
	const most = 100 // transactions may come before it; without a turn, all do
	for name, write := range map[string]func(*DB, [][]byte) error{
		"one key":        func(db *DB, keys [][]byte) error { return db.Default().Set(ctx, keys[0], nil) },
		"several groups": func(db *DB, keys [][]byte) error { return setAll(ctx, db, keys...) },
		"a transaction that reads nothing": func(db *DB, keys [][]byte) error {
			return db.Update(ctx, func(tx *Txn) error { return tx.Set(db.Default(), keys[0], nil) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, keys := inTurns(t)
			type turn struct {
				release func()
				err     error
			}
			_, release, err := db.node.Reserve(ctx, claimsOf(db, keys...))
			must(t, err)
			written := make(chan error, 1)
			go func() { written <- write(db, keys) }()
			for range most {
				next := make(chan turn, 1)
				go func() {
					_, release, err := db.node.Reserve(ctx, claimsOf(db, keys...))
					next <- turn{release, err}
				}()
				waitUntil(t, "the next has asked", func() bool { return countReservations(t, db, keys[0]) > 1 })
				release()
				now := <-next
				must(t, now.err)
				release = now.release
				select {
				case err := <-written:
					must(t, err)
					release()
					return
				case <-time.After(time.Millisecond):
				}
			}
			release()
			t.Errorf("%d transactions that came later came first", most)
			must(t, <-written)
		})
	}
}

// A write has its turn at one key, and meets a lock at the other that stays. Others go on.
func TestATurnThatIsOfNoUseIsGivenUp(t *testing.T) {
	db, keys := inTurns(t)
	_, release, err := db.node.Reserve(ctx, claimsOf(db, keys[0]))
	must(t, err)
	leaving, leave := context.WithCancel(ctx)
	written := make(chan error, 1)
	go func() { written <- setAll(leaving, db, keys[0], keys[1]) }()
	waitUntil(t, "the write asks", func() bool { return countReservations(t, db, keys[0]) > 1 })
	locked := claimsOf(db, keys[1])[0].Span
	must(t, tryAt(db, keys[1], &txn.Prepare{ID: txn.ID{9}, CoordinatorGroup: partOf(db, keys[0]).ID, DeadlineMS: db.node.NowMS() + 60_000,
		Participant: txn.Participant{Span: locked, Writes: []command.Command{&command.Set{Key: locked.Start}}}}))
	release()
	limited, stop := context.WithTimeout(ctx, hangTimeout()) // the clock stands still, so a place is kept
	defer stop()
	for range 3 {
		_, release, err := db.node.Reserve(limited, claimsOf(db, keys[0]))
		if err != nil {
			t.Fatalf("a key of a write that waits for another: %v", err)
		}
		time.Sleep(20 * time.Millisecond) // so that it asks again
		release()
	}
	leave()
	if err := <-written; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func tryAt(db *DB, key []byte, c command.Command) error {
	reply, err := partOf(db, key).Group.Execute(ctx, group.Request{NoWait: true, Command: c})
	return errors.Join(err, reply.Err)
}

// A transaction at its turn finds that it needs another key, too. The owner of that waits for
// the turn of the transaction.
func TestNobodyAtItsTurnWaitsForOneWhoWaitsForIt(t *testing.T) {
	db, keys := inTurns(t)
	ks, low, high := db.Default(), keys[0], keys[1]
	_, release, err := db.node.Reserve(ctx, claimsOf(db, low))
	must(t, err)
	inTurn, goOn := make(chan struct{}), make(chan struct{})
	updated, written := make(chan error, 1), make(chan error, 1)
	limited, stop := context.WithTimeout(ctx, hangTimeout()) // the clock stands still, so a place is kept
	defer stop()
	go func() {
		attempt := 0
		updated <- db.Update(limited, func(tx *Txn) error {
			_, _ = tx.Get(ks, high)
			switch attempt++; {
			case attempt <= attemptsBeforeReserve: // another one is faster
				must(t, ks.Set(ctx, high, fmt.Append(nil, attempt)))
			case attempt == attemptsBeforeReserve+1:
				close(inTurn)
				<-goOn
				fallthrough
			default:
				if err := tx.Set(ks, low, nil); err != nil {
					return err
				}
			}
			return tx.Set(ks, high, nil)
		})
	}()
	<-inTurn
	go func() { written <- setAll(limited, db, low, high) }()
	waitUntil(t, "the write asks", func() bool { return countReservations(t, db, low) > 1 })
	release()
	waitUntil(t, "the write has its turn at one key, and waits for it at the other", func() bool { return countReservations(t, db, high) > 1 })
	close(goOn)
	if err := errors.Join(<-updated, <-written); err != nil {
		t.Errorf("they wait for each other: %v", err)
	}
}

// A group stands still, as it does while its disk is slow.
func TestWhoLeavesAQueueForATurnIsNotKept(t *testing.T) {
	db, keys := inTurns(t)
	_, release, err := db.node.Reserve(ctx, claimsOf(db, keys[0]))
	must(t, err)
	defer release()
	leaving, leave := context.WithCancel(ctx)
	written := make(chan error, 1)
	go func() { written <- db.Default().Set(leaving, keys[0], nil) }()
	waitUntil(t, "the write asks", func() bool { return countReservations(t, db, keys[0]) > 1 })
	goOn := blockGroup(t, partOf(db, keys[0]))
	leave()
	select {
	case err := <-written:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(hangTimeout()):
		t.Error("it is kept though it has left")
	}
	goOn()
}
