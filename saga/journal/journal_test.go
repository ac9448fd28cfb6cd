package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// A journal on a store answers as one in memory does, whatever is asked.
func TestAJournalOnAStoreIsAJournal(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	db := openMemory(t, cleave.Options{})
	ours, err := journal.Open(t.Context(), db, journal.Options{Keyspace: "j"})
	must(t, err)
	model := saga.NewMemoryJournal()
	steps := []saga.Planned{{Name: "a", Atomic: true}, {Name: "b"}, {Name: "c", Lasting: true}}
	now := int64(1)
	const rounds = 1500
	for range rounds {
		now += rng.Int64N(3)
		id := fmt.Sprintf("id-%d%s", rng.IntN(12), []string{"", "/", "\x00é"}[rng.IntN(3)])
		draw := rng.Uint64()
		do := func(j saga.Journal) (any, error) {
			r := rand.New(rand.NewPCG(seed, draw)) // the same for both
			after, limit := fmt.Sprintf("id-%d", r.IntN(14)), 1+r.IntN(5)
			switch r.IntN(9) {
			case 0:
				return nil, j.Create(t.Context(), saga.Begin(id, "d", steps, []byte{1, 2}, "me", now, r.Int64N(3)))
			case 1:
				return j.Load(t.Context(), id)
			case 2:
				return j.Open(t.Context(), "", 100)
			case 3:
				return j.Open(t.Context(), after, limit)
			case 4:
				return j.Ended(t.Context(), after, limit)
			case 5:
				page, err := j.Before(t.Context(), now-r.Int64N(10), saga.Record{}, limit)
				if err == nil && len(page) > 0 {
					return j.Before(t.Context(), now, page[0], limit)
				}
				return page, err
			case 6:
				rec, err := j.Load(t.Context(), id)
				if err == nil && rec.State.Ended() && r.IntN(2) == 0 {
					err = j.Remove(t.Context(), rec)
				}
				return nil, err
			}
			rec, err := j.Load(t.Context(), id)
			if err != nil {
				return nil, err
			}
			rec.Revision -= uint64(r.IntN(8) / 7) // a late writer
			events := []saga.Event{{Kind: saga.Did}, {Kind: saga.DoFailed, Why: "x"}, {Kind: saga.DoRefused}, {Kind: saga.Undid}, {Kind: saga.Cancelled}}
			e := events[r.IntN(len(events))]
			e.Step, e.NowMS, e.Data = rec.At, now, []byte{byte(now)}
			next, err := saga.Next(rec, e)
			if err != nil {
				return nil, err
			}
			return nil, j.Save(t.Context(), next)
		}
		want, wantErr := do(model)
		got, err := do(ours)
		same := reflect.DeepEqual(got, want) || fmt.Sprint(got) == fmt.Sprint(want)
		for _, e := range []error{nil, saga.ErrNotFound, saga.ErrExists, saga.ErrConflict, saga.ErrTurn, saga.ErrEnded} {
			same = same && errors.Is(err, e) == errors.Is(wantErr, e)
		}
		if !same {
			t.Fatalf("seed %d: %v, %v; in memory %v, %v", seed, got, err, want, wantErr)
		}
	}
	tally.Add(t, "operations on journals", rounds)
}

// transfer is a saga between two accounts of a store.
type transfer struct {
	From, To string
	Amount   int64
}

var errFunds = errors.New("not enough money")

// newMoveStep is a step that adds to an account, and refuses to leave it with less than nothing.
func newMoveStep(accounts *cleave.Keyspace, delta func(*transfer) (string, int64)) func(tx *cleave.Txn, s *transfer) error {
	return func(tx *cleave.Txn, s *transfer) error {
		name, by := delta(s)
		sum, err := tx.Add(accounts, []byte(name), by)
		if err == nil && sum < 0 {
			err = saga.Permanent(errFunds)
		}
		return err
	}
}

func registerTransfers(t *testing.T, r *saga.Runner, accounts *cleave.Keyspace) *saga.Sagas[transfer] {
	t.Helper()
	g, err := saga.Register(r, saga.Definition[transfer]{
		Name: "transfer",
		Steps: []saga.Step[transfer]{
			journal.Step("debit",
				newMoveStep(accounts, func(s *transfer) (string, int64) { return s.From, -s.Amount }),
				newMoveStep(accounts, func(s *transfer) (string, int64) { return s.From, s.Amount })),
			journal.Step("credit", func(tx *cleave.Txn, s *transfer) error {
				if s.To == "closed" {
					return saga.Permanent(errors.New("the account is closed"))
				}
				return newMoveStep(accounts, func(s *transfer) (string, int64) { return s.To, s.Amount })(tx, s)
			}, nil),
		},
	})
	must(t, err)
	return g
}

func sumAccounts(t *testing.T, accounts *cleave.Keyspace) (sum int64) {
	t.Helper()
	for i := range 8 {
		n, err := accounts.Add(t.Context(), fmt.Appendf(nil, "a%d", i), 0)
		must(t, err)
		if n < 0 {
			t.Errorf("a%d has %d", i, n)
		}
		sum += n
	}
	return sum
}

func TestTransfersConserveMoney(t *testing.T) {
	db := openMemory(t, cleave.Options{Stores: 2, Groups: 4})
	accounts := db.Default()
	for i := range 8 {
		must(t, accounts.Set(t.Context(), fmt.Appendf(nil, "a%d", i), []byte("100")))
	}
	j, err := journal.Open(t.Context(), db, journal.Options{})
	must(t, err)
	r, err := saga.NewRunner(j, saga.Options{})
	must(t, err)
	g := registerTransfers(t, r, accounts)
	var wg sync.WaitGroup
	var done, undone atomic.Int64
	for w := range 8 {
		rng := rand.New(rand.NewPCG(uint64(w), 1))
		wg.Go(func() {
			for n := range 25 {
				s := transfer{fmt.Sprintf("a%d", rng.IntN(8)), fmt.Sprintf("a%d", rng.IntN(8)), rng.Int64N(90)}
				if rng.IntN(4) == 0 {
					s.To = "closed"
				}
				_, err := g.Run(t.Context(), fmt.Sprintf("%d-%d", w, n/2), s) // each twice
				switch {
				case err == nil:
					done.Add(1)
				case errors.Is(err, saga.ErrCompensated):
					undone.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, r.Close())
	if done.Load() == 0 || undone.Load() == 0 {
		t.Errorf("%d completed, %d taken back: the test shows nothing", done.Load(), undone.Load())
	}
	if sum := sumAccounts(t, accounts); sum != 800 {
		t.Errorf("all accounts together have %d", sum)
	}
}

// A runner that stood still while another one took over has no effect any more, not
// even with what it had begun.
func TestARunnerThatWasOvertakenChangesNothing(t *testing.T) {
	w := newStoreWorld(t, openMemory(t, cleave.Options{Stores: 2, Groups: 4}), openMemory(t, cleave.Options{}))
	inside, resume := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	define := func() saga.Definition[sagaValue] {
		return saga.Definition[sagaValue]{Name: "race", Steps: []saga.Step[sagaValue]{
			w.newStep(true, "1", "a", func(bool) error { return nil }), // done by Start
			w.newStep(true, "1", "b", func(bool) error {
				if calls.Add(1) == 1 {
					close(inside)
					<-resume
				}
				return nil
			}),
		}}
	}
	start := func() (*saga.Runner, *saga.Sagas[sagaValue]) {
		r, err := saga.NewRunner(w.j, saga.Options{})
		must(t, err)
		g, err := saga.Register(r, define())
		must(t, err)
		return r, g
	}
	old, oldSagas := start()
	must(t, oldSagas.Start(t.Context(), "1", sagaValue{}))
	<-inside
	r, g := start()
	_, err := r.Resume(t.Context())
	must(t, err)
	_, err = g.Wait(t.Context(), "1")
	must(t, err)
	close(resume)
	v, err := oldSagas.Wait(t.Context(), "1")
	must(t, errors.Join(err, old.Close(), r.Close()))
	for _, name := range []string{"a", "b"} {
		if did, undid := w.countEffects(t, "1", name); did != 1 || undid != 0 {
			t.Errorf("%s was done %d times and undone %d times", name, did, undid)
		}
	}
	if len(v.Done) != 2 || calls.Load() < 2 {
		t.Errorf("value %v after %d calls", v, calls.Load())
	}
}

func TestMarkersAreForgottenWithTheirSaga(t *testing.T) {
	var offset atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	db, other := openMemory(t, cleave.Options{}), openMemory(t, cleave.Options{})
	w := newStoreWorld(t, db, other)
	r, err := saga.NewRunner(w.j, saga.Options{Retention: time.Hour, Now: now})
	must(t, err)
	g, err := saga.Register(r, saga.Definition[sagaValue]{
		Name: "elsewhere", Steps: []saga.Step[sagaValue]{w.newStep(false, "1", "a", func(bool) error { return nil })},
		Forget: func(ctx context.Context, id string) error { return journal.Forget(ctx, w.mark, id) },
	})
	must(t, err)
	_, err = g.Run(t.Context(), "1", sagaValue{})
	must(t, err)
	there := func() bool {
		found, err := w.mark.Exists(t.Context(), []byte("1"))
		must(t, err)
		return found
	}
	n, err := r.Sweep(t.Context())
	if n != 0 || err != nil || !there() {
		t.Errorf("%d removed at once, %v", n, err)
	}
	offset.Store(int64(2 * time.Hour))
	if n, err = r.Sweep(t.Context()); n != 1 || err != nil || there() {
		t.Errorf("%d removed later, %v", n, err)
	}
	must(t, r.Close())
	ks, err := db.Keyspace("sagas")
	must(t, err)
	if page, err := ks.ScanPage(t.Context(), cleave.ScanOptions{}); err != nil || len(page.Items) != 0 {
		t.Errorf("left in the journal: %v %v", page, err)
	}
}

func TestADoThatComesAfterItsUndoIsRefused(t *testing.T) {
	db := openMemory(t, cleave.Options{})
	ks := db.Default()
	ran := 0
	call := func(undo bool) error {
		return db.Update(t.Context(), func(tx *cleave.Txn) error {
			return journal.Once(tx, ks, saga.Call{Saga: "1", Step: "a", Undo: undo}, func() error { ran++; return nil })
		})
	}
	must(t, call(true))
	if err := call(false); !errors.Is(err, saga.ErrUndone) || !saga.IsPermanent(err) {
		t.Error(err)
	}
	must(t, call(true))
	if ran != 0 {
		t.Errorf("something ran %d times", ran)
	}
}

func TestADamagedRecordIsReported(t *testing.T) {
	db := openMemory(t, cleave.Options{})
	j, err := journal.Open(t.Context(), db, journal.Options{})
	must(t, err)
	ks, err := db.Keyspace("sagas")
	must(t, err)
	for _, text := range []string{"", "x", `{"format":2}`, `{"format":1,"id":"1"}`, `{"format":1,"id":"1","state":"asleep"}`} {
		must(t, ks.Set(t.Context(), []byte("o/1"), []byte(text)))
		if _, err := j.Load(t.Context(), "1"); !errors.Is(err, saga.ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := j.Open(t.Context(), "", 10); !errors.Is(err, saga.ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
		if err := j.Save(t.Context(), saga.Record{ID: "1", Revision: 2}); !errors.Is(err, saga.ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
	hash, err := db.CreateKeyspace(t.Context(), cleave.KeyspaceOptions{Name: "hash"})
	must(t, err)
	if _, err := journal.Open(t.Context(), db, journal.Options{Keyspace: hash.Name()}); !errors.Is(err, cleave.ErrKeyspaceExists) {
		t.Error(err)
	}
}

// A saga goes on where it was when its store is opened again.
func TestASagaOutlivesItsStoreBeingClosed(t *testing.T) {
	dir := t.TempDir()
	inside := make(chan struct{})
	open := func(wait bool) (*cleave.DB, *saga.Runner, *saga.Sagas[sagaValue]) {
		db, err := cleave.Open(dir, cleave.Options{})
		must(t, err)
		j, err := journal.Open(t.Context(), db, journal.Options{})
		must(t, err)
		r, err := saga.NewRunner(j, saga.Options{})
		must(t, err)
		count := func(tx *cleave.Txn, s *sagaValue) error {
			_, err := tx.Add(db.Default(), []byte("count"), 1)
			return errors.Join(err, recordStep(s, "count", false))
		}
		g, err := saga.Register(r, saga.Definition[sagaValue]{Name: "long", Steps: []saga.Step[sagaValue]{
			journal.Step("count", count, nil),
			{Name: "wait", Do: func(ctx context.Context, _ saga.Call, s *sagaValue) error {
				if wait {
					close(inside)
					<-ctx.Done()
					return ctx.Err()
				}
				return recordStep(s, "wait", false)
			}},
		}})
		must(t, err)
		return db, r, g
	}
	db, r, g := open(true)
	must(t, g.Start(t.Context(), "1", sagaValue{}))
	<-inside
	must(t, errors.Join(r.Close(), db.Close()))

	db, r, g = open(false)
	found, err := r.Resume(t.Context())
	if err != nil || found.Running != 1 {
		t.Errorf("%+v %v", found, err)
	}
	v, err := g.Wait(t.Context(), "1")
	if err != nil || len(v.Done) != 2 {
		t.Errorf("%v %v", v, err)
	}
	if n, err := db.Default().Get(t.Context(), []byte("count")); err != nil || string(n) != "1" {
		t.Errorf("%s %v", n, err)
	}
	must(t, errors.Join(r.Close(), db.Close()))
}
