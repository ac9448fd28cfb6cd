package journal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// A saga goes on where it was when its store is opened again.
func TestASagaOutlivesItsStoreBeingClosed(t *testing.T) {
	dir := t.TempDir()
	inside := make(chan struct{})
	open := func(wait bool) (*cleave.DB, *saga.Runner, *saga.Sagas[value]) {
		db, err := cleave.Open(dir, cleave.Options{})
		must(t, err)
		j, err := journal.Open(t.Context(), db, journal.Options{})
		must(t, err)
		r, err := saga.NewRunner(j, saga.Options{})
		must(t, err)
		count := func(tx *cleave.Txn, s *value) error {
			_, err := tx.Add(db.Default(), []byte("count"), 1)
			return errors.Join(err, note(s, "count", false))
		}
		g, err := saga.Register(r, saga.Definition[value]{Name: "long", Steps: []saga.Step[value]{
			journal.Step("count", count, nil),
			{Name: "wait", Do: func(ctx context.Context, _ saga.Call, s *value) error {
				if wait {
					close(inside)
					<-ctx.Done()
					return ctx.Err()
				}
				return note(s, "wait", false)
			}},
		}})
		must(t, err)
		return db, r, g
	}
	db, r, g := open(true)
	must(t, g.Start(t.Context(), "1", value{}))
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
