package journal_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

const (
	accounts      = 8
	initialCredit = 100
)

// remittance is money on its way.
type remittance struct{ From, To, Amount int }

func accountKey(n int) []byte { return fmt.Appendf(nil, "account %d", n) }

// openRemittances has sagas that move money in two steps, some of which are taken back.
func openRemittances(t *testing.T, dir string) (*cleave.DB, *saga.Runner, *saga.Sagas[remittance]) {
	t.Helper()
	db, err := cleave.Open(dir, cleave.Options{Stores: 2, Groups: 3})
	must(t, err)
	j, err := journal.Open(t.Context(), db, journal.Options{})
	must(t, err)
	r, err := saga.NewRunner(j, saga.Options{})
	must(t, err)
	give := func(n func(*remittance) int, sign int64) func(*cleave.Txn, *remittance) error {
		return func(tx *cleave.Txn, s *remittance) error {
			_, err := tx.Add(db.Default(), accountKey(n(s)), sign*int64(s.Amount))
			return err
		}
	}
	from, to := func(s *remittance) int { return s.From }, func(s *remittance) int { return s.To }
	g, err := saga.Register(r, saga.Definition[remittance]{Name: "transfer", Steps: []saga.Step[remittance]{
		journal.Step("take", give(from, -1), give(from, 1)),
		{Name: "rest", Do: func(context.Context, saga.Call, *remittance) error { time.Sleep(time.Millisecond); return nil }},
		journal.Step("give", give(to, 1), give(to, -1)),
		{Name: "judge", Do: func(_ context.Context, _ saga.Call, s *remittance) error {
			if s.Amount%3 == 0 {
				return saga.Permanent(errors.New("refused"))
			}
			return nil
		}},
	}})
	must(t, err)
	return db, r, g
}

// A backup that is taken while sagas are under way opens as a store whose sagas go on: each
// ends whole or undone there too, and no money is lost or made.
func TestABackupHasSagasThatGoOn(t *testing.T) {
	dir := t.TempDir()
	db, r, g := openRemittances(t, filepath.Join(dir, "db"))
	for n := range accounts {
		must(t, db.Default().Set(t.Context(), accountKey(n), []byte(strconv.Itoa(initialCredit))))
	}
	stop, all := make(chan struct{}), sync.WaitGroup{}
	for w := range 3 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				s := remittance{From: (w + i) % accounts, To: (w * i) % accounts, Amount: 1 + i%5}
				if _, err := g.Run(t.Context(), fmt.Sprintf("%d-%d", w, i), s); err != nil && !errors.Is(err, saga.ErrCompensated) {
					t.Error(err)
					return
				}
			}
		})
	}
	under := 0
	for i := range 2 {
		time.Sleep(50 * time.Millisecond)
		to := filepath.Join(dir, fmt.Sprint("backup", i))
		must(t, db.Backup(t.Context(), to))
		under += resumeAndCheck(t, to)
	}
	close(stop)
	all.Wait()
	must(t, errors.Join(r.Close(), db.Close()))
	if under == 0 {
		t.Error("no saga was under way: the test shows nothing")
	}
}

// resumeAndCheck opens a backup, waits until its sagas have ended, and counts the money.
func resumeAndCheck(t *testing.T, dir string) (running int) {
	t.Helper()
	db, r, g := openRemittances(t, dir)
	found, err := r.Resume(t.Context())
	if must(t, err); len(found.Stuck) > 0 {
		t.Errorf("stuck: %+v", found.Stuck)
	}
	for i, err := range r.List(t.Context(), saga.Filter{}) {
		must(t, err)
		if _, err := g.Wait(t.Context(), i.ID); err != nil && !errors.Is(err, saga.ErrCompensated) {
			t.Errorf("%s: %v", i.ID, err)
		}
	}
	sum := 0
	for n := range accounts {
		b, err := db.Default().Get(t.Context(), accountKey(n))
		must(t, err)
		v, err := strconv.Atoi(string(b))
		must(t, err)
		sum += v
	}
	if sum != accounts*initialCredit {
		t.Errorf("%d are left of %d", sum, accounts*initialCredit)
	}
	must(t, errors.Join(r.Close(), db.Close()))
	return found.Running
}
