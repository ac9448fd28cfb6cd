package cleave_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave"
)

// Whoever has read one write of a transaction reads all of them from then on,
// also with single reads that are no transaction themselves.
func TestATransactionAppearsAtOnceToSingleReads(t *testing.T) {
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, ks := context.Background(), db.Default()
	const keys = 64
	key := func(i int) []byte { return fmt.Appendf(nil, "k%02d", i) }
	write := func(n int) error {
		return db.Update(ctx, func(tx *cleave.Txn) error {
			for i := range keys {
				if err := tx.Set(ks, key(i), strconv.AppendInt(nil, int64(n), 10)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	read := func(i int) int {
		v, err := ks.Get(ctx, key(i))
		if err != nil {
			t.Error(err)
		}
		n, _ := strconv.Atoi(string(v))
		return n
	}
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				// The first key is published first, the last one last.
				if first, last := read(0), read(keys-1); last < first {
					t.Errorf("read %d, and then %d of the transaction that had written both", first, last)
					return
				}
			}
		})
	}
	for n := 2; n < 500 && !t.Failed(); n++ {
		if err := write(n); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
}
