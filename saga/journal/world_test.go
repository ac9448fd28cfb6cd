package journal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// value is what the sagas of these tests carry: the steps that were done.
type value struct{ Done []string }

// world is where steps take effect and the journal is kept, whoever dies.
type world interface {
	journal() saga.Together
	// step makes a step that counts itself. told is asked before the effect and may
	// refuse it.
	step(atomic bool, id, name string, told func(undo bool) error) saga.Step[value]
	// counts says how often a step took effect, and was taken back.
	counts(t *testing.T, id, name string) (did, undid int)
}

// note keeps the value in step with what was done, so that a value that is lost is seen.
func note(s *value, name string, undo bool) error {
	if !undo {
		s.Done = append(s.Done, name)
		return nil
	}
	if n := len(s.Done); n > 0 && s.Done[n-1] == name {
		s.Done = s.Done[:n-1]
	}
	return nil
}

// memoryWorld has all in memory.
type memoryWorld struct {
	saga.Journal
	mu     sync.Mutex
	effect map[string]int
	marks  map[string]bool
}

func newMemoryWorld() *memoryWorld {
	return &memoryWorld{Journal: saga.Memory(), effect: map[string]int{}, marks: map[string]bool{}}
}

// memoryTxn gathers effects.
type memoryTxn struct{ counts []string }

func (w *memoryWorld) journal() saga.Together { return w }

func (w *memoryWorld) Fits(tx any) bool { _, ok := tx.(*memoryTxn); return ok }

func (w *memoryWorld) SaveWith(ctx context.Context, old saga.Record, f func(tx any) (saga.Record, error)) error {
	var tx memoryTxn
	next, err := f(&tx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	save := w.Save
	if old.Revision == 0 {
		save = w.Create
	}
	if err := save(ctx, next); err != nil {
		return err
	}
	for _, c := range tx.counts {
		w.effect[c]++
	}
	return nil
}

func which(id, name string, undo bool) string { return fmt.Sprintf("%s/%s/%t", id, name, undo) }

func (w *memoryWorld) step(atomic bool, id, name string, told func(undo bool) error) saga.Step[value] {
	if atomic {
		f := func(undo bool) func(tx *memoryTxn, s *value) error {
			return func(tx *memoryTxn, s *value) error {
				tx.counts = append(tx.counts, which(id, name, undo))
				return errors.Join(told(undo), note(s, name, undo))
			}
		}
		return saga.Transactional(name, f(false), f(true))
	}
	f := func(_ context.Context, c saga.Call, s *value) error {
		if err := told(c.Undo); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		do, undo := which(id, name, false), which(id, name, true)
		switch saga.Judge(c.Undo, w.marks[do], w.marks[undo]) {
		case saga.Execute:
			w.effect[which(id, name, c.Undo)]++
			fallthrough
		case saga.Note:
			w.marks[which(id, name, c.Undo)] = true
		case saga.Refuse:
			return saga.Permanent(saga.ErrUndone)
		}
		return note(s, name, c.Undo)
	}
	return saga.Step[value]{Name: name, Do: f, Undo: f}
}

func (w *memoryWorld) counts(_ *testing.T, id, name string) (did, undid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.effect[which(id, name, false)], w.effect[which(id, name, true)]
}

// storeWorld has the journal and the atomic steps in one store, the others in another.
type storeWorld struct {
	db, other     *cleave.DB
	j             *journal.Journal
	effect        *cleave.Keyspace
	effect2, mark *cleave.Keyspace
}

func newStoreWorld(t *testing.T, db, other *cleave.DB) *storeWorld {
	t.Helper()
	w := &storeWorld{db: db, other: other, effect: db.Default(), effect2: other.Default()}
	var err error
	w.j, err = journal.Open(t.Context(), db, journal.Options{})
	must(t, err)
	w.mark, err = other.OpenKeyspace(t.Context(), cleave.KeyspaceOptions{Name: "marks"})
	must(t, err)
	return w
}

func openMemory(t *testing.T, o cleave.Options) *cleave.DB {
	t.Helper()
	db, err := cleave.OpenMemory(o)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *storeWorld) journal() saga.Together { return w.j }

func (w *storeWorld) step(atomic bool, id, name string, told func(undo bool) error) saga.Step[value] {
	if atomic {
		f := func(undo bool) func(tx *cleave.Txn, s *value) error {
			return func(tx *cleave.Txn, s *value) error {
				_, err := tx.Add(w.effect, []byte(which(id, name, undo)), 1)
				return errors.Join(err, told(undo), note(s, name, undo))
			}
		}
		return journal.Step(name, f(false), f(true))
	}
	f := func(ctx context.Context, c saga.Call, s *value) error {
		if err := told(c.Undo); err != nil {
			return err
		}
		err := w.other.Update(ctx, func(tx *cleave.Txn) error {
			return journal.Once(tx, w.mark, c, func() error {
				_, err := tx.Add(w.effect2, []byte(which(id, name, c.Undo)), 1)
				return err
			})
		})
		if err != nil {
			return err
		}
		return note(s, name, c.Undo)
	}
	return saga.Step[value]{Name: name, Do: f, Undo: f}
}

func (w *storeWorld) counts(t *testing.T, id, name string) (did, undid int) {
	count := func(undo bool) (n int) {
		for _, ks := range []*cleave.Keyspace{w.effect, w.effect2} {
			sum, err := ks.Add(t.Context(), []byte(which(id, name, undo)), 0)
			must(t, err)
			n += int(sum)
		}
		return n
	}
	return count(false), count(true)
}
