package cleave

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// keyOn returns a key of the default keyspace that is on a store.
func keyOn(db *DB, store int) []byte {
	for i := 0; ; i++ {
		key := fmt.Appendf(nil, "key %d", i)
		if db.node.PartOf(db.Default().space.AppendPosition(nil, key)).Host == db.node.Hosts()[store] {
			return key
		}
	}
}

// A loop that reads from another store makes the transaction's state a newer one:
// what the scan has read ahead of the loop must be so there too.
func TestAScanIsOfOneStateWithWhatItsLoopReads(t *testing.T) {
	db := small(t, 2)
	ks := rangeSpace(t, db, "r")
	for i := range 2*txnPage + 10 {
		must(t, ks.Set(ctx, number(i), []byte("old")))
	}
	other := keyOn(db, 0)
	if groupAt(ks, "0") == groupAt(db.Default(), string(other)) {
		other = keyOn(db, 1)
	}
	for name, o := range map[string]ScanOptions{"forward": {}, "reverse": {Reverse: true}, "limited": {Limit: 20}} {
		for _, changed := range []int{0, 9, txnPage + 5, 2*txnPage + 9} {
			must(t, ks.Set(ctx, number(changed), []byte("old")))
			runs := 0
			var stale string
			must(t, db.Update(ctx, func(tx *Txn) error {
				runs++
				n := 0
				stale = ""
				for item, err := range tx.Scan(ks, o) {
					if err != nil {
						return err
					}
					if n++; n == 5 && runs == 1 {
						must(t, ks.Set(ctx, number(changed), []byte("new")))
						if _, err := tx.Exists(db.Default(), other); err != nil {
							return err
						}
					}
					if string(item.Key) == string(number(changed)) && string(item.Value) == "old" {
						stale = string(item.Key)
					}
				}
				return tx.Set(ks, []byte("result"), nil)
			}))
			if stale != "" {
				t.Errorf("%s: %s was committed as it was before the transaction took place", name, stale)
			}
		}
	}
}

// What a loop does to the keys that it was given is its own business.
func TestALoopMayChangeTheKeysOfAScan(t *testing.T) {
	db := small(t, 1)
	ks := rangeSpace(t, db, "r")
	for i := range 2*txnPage + 10 {
		must(t, ks.Set(ctx, number(i), nil))
	}
	must(t, db.Update(ctx, func(tx *Txn) error {
		n := 0
		for item, err := range tx.Scan(ks, ScanOptions{}) {
			if err != nil {
				return err
			}
			clear(item.Key)
			if n++; n > 3*txnPage {
				break
			}
		}
		if n != 2*txnPage+10 {
			t.Errorf("%d keys, want %d", n, 2*txnPage+10)
		}
		return nil
	}))
}

// An expiry that a Set keeps is one that the transaction has read.
func TestAnExpiryThatIsKeptIsRead(t *testing.T) {
	db := small(t, 1)
	ks, key := db.Default(), []byte("k")
	_, err := ks.SetWith(ctx, key, nil, SetOptions{TTL: time.Hour})
	must(t, err)
	runs, forever := 0, false
	must(t, db.Update(ctx, func(tx *Txn) error {
		if err := tx.SetWith(ks, key, nil, SetOptions{KeepTTL: true}); err != nil {
			return err
		}
		item, err := tx.Item(ks, key)
		forever = item.Expires.IsZero()
		if runs++; runs == 1 {
			_, err := ks.Persist(ctx, key)
			must(t, err)
		}
		return err
	}))
	if !forever {
		t.Error("the transaction saw an expiry that the key did not have when it took place")
	}
}

// A conflict that a function meets half way is not its error, whatever it makes of it.
func TestAFunctionCannotHideAConflict(t *testing.T) {
	db := small(t, 2)
	ks, a, b := db.Default(), keyOn(db, 0), keyOn(db, 1)
	mine := errors.New("mine")
	runs := 0
	err := db.Update(ctx, func(tx *Txn) error {
		if _, err := tx.Exists(ks, a); err != nil {
			return mine
		}
		if runs++; runs == 1 {
			must(t, ks.Set(ctx, a, nil))
		}
		if _, err := tx.Exists(ks, b); err != nil {
			return mine
		}
		return tx.Set(ks, b, nil)
	})
	if err != nil || runs != 2 {
		t.Errorf("%d runs, %v", runs, err)
	}
}
