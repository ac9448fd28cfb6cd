package cleave

import (
	"testing"

	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/partition"
)

// A transaction may scan more shards than it may read keys: those of one group count
// as one read.
func TestAScanOfManyShardsIsOneRead(t *testing.T) {
	db := small(t, 2)
	ks := rangeSpace(t, db, "r")
	var at [][]byte
	for i := range 10_000 {
		at = append(at, number(i))
	}
	mustDo(t, db, Split{Keyspace: ks, At: at})
	must(t, db.Update(ctx, func(tx *Txn) error {
		for _, err := range tx.Scan(ks, ScanOptions{}) {
			if err != nil {
				return err
			}
		}
		return tx.Set(ks, number(5), nil)
	}))
}

// So it is if others were in its way so often that it waits for its turn, and then
// commits in two phases: in one group, and in several.
func TestAScanOfManyShardsInItsTurnIsAReadForEachOwner(t *testing.T) {
	for _, apart := range []bool{false, true} {
		db := small(t, 2)
		ks := rangeSpace(t, db, "r")
		var at [][]byte
		for i := range 10_000 {
			at = append(at, number(i))
		}
		mustDo(t, db, Split{Keyspace: ks, At: at})
		if apart {
			mustDo(t, db, Move{Shard: shardAt(ks, string(number(5000))), To: elsewhere(ks, string(number(0)))})
		}
		attempts, seen := 0, 0
		must(t, db.Update(ctx, func(tx *Txn) error {
			attempts++
			seen = 0
			for _, err := range tx.Scan(ks, ScanOptions{}) {
				if seen++; err != nil {
					return err
				}
			}
			if attempts <= patientAttempts {
				must(t, ks.Set(ctx, number(100+attempts), []byte("in the way")))
			}
			return tx.Set(ks, number(5), nil)
		}))
		if n := db.Metrics().Transactions; attempts != patientAttempts+1 || seen != patientAttempts || n.TwoPhase == 0 {
			t.Errorf("apart %v: %d keys in attempt %d, %+v", apart, seen, attempts, n)
		}
	}
}

// Whatever a scan has met of shards, and however they are cut before the commit: a key
// that comes into any of them is noticed, whether the commit takes one phase or two.
func TestWhatComesIntoAnyShardOfAScanIsNoticed(t *testing.T) {
	for _, apart := range []bool{false, true} {
		db := small(t, 2)
		ks := rangeSpace(t, db, "r")
		mustDo(t, db, Split{Keyspace: ks, At: [][]byte{number(100), number(200), number(300)}})
		home := elsewhere(ks, string(number(0)))
		if apart {
			mustDo(t, db, Move{Shard: shardAt(ks, string(number(300))), To: home})
		}
		for i, come := range []int{50, 120, 180, 250, 350} {
			attempts, seen := 0, 0
			must(t, db.Update(ctx, func(tx *Txn) error {
				attempts++
				seen = 0
				for _, err := range tx.Scan(ks, ScanOptions{}) {
					if seen++; err != nil {
						return err
					}
				}
				if attempts == 1 {
					must(t, ks.Set(ctx, number(come), nil))
					mustDo(t, db, Split{Keyspace: ks, At: [][]byte{number(140 + i)}})
				}
				return tx.Set(ks, number(999), nil)
			}))
			if want := i + 1 + min(i, 1); attempts < 2 || seen != want {
				t.Errorf("apart %v, %d: %d keys in attempt %d, want %d in a later one", apart, come, seen, attempts, want)
			}
		}
		two := db.Metrics().Transactions.TwoPhase
		if (two > 0) != apart {
			t.Errorf("apart %v: %d transactions took two phases", apart, two)
		}
	}
}

// A map that was cut anew since the scan is no conflict.
func TestAShardThatIsCutIsNoConflictOfAScan(t *testing.T) {
	db := small(t, 2)
	ks := rangeSpace(t, db, "r")
	mustDo(t, db, Split{Keyspace: ks, At: [][]byte{number(100), number(200)}})
	mustDo(t, db, Move{Shard: shardAt(ks, string(number(200))), To: elsewhere(ks, string(number(0)))})
	attempts := 0
	must(t, db.Update(ctx, func(tx *Txn) error {
		attempts++
		for _, err := range tx.Scan(ks, ScanOptions{}) {
			if err != nil {
				return err
			}
		}
		if attempts == 1 {
			mustDo(t, db, Split{Keyspace: ks, At: [][]byte{number(150)}})
		}
		return tx.Set(ks, number(5), nil)
	}))
	if attempts != 1 {
		t.Errorf("%d attempts", attempts)
	}
}

// Maps from before may have a shard with what comes before the first slot of a hash keyspace, which
// is nothing. A transaction that has scanned the keyspace leaves no lock there.
func TestAScanOfAHashKeyspaceBeginsWithItsFirstSlot(t *testing.T) {
	db := small(t, 2)
	ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "h", Slots: 1})
	must(t, err)
	must(t, ks.Set(ctx, number(0), nil))
	begin, first := ks.space.Span().Start, ks.space.SlotSpan(0).Start
	ordered := partition.Keyspace{ID: ks.space.ID, Kind: Range} // of a hash keyspace it would be refused
	job, err := db.node.StartJob(ctx, mover.Request{
		Kind: mover.Split, Shard: db.node.Map().Find(begin).ID, In: &ordered, At: []partition.Position{first},
	})
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
	mustDo(t, db, Move{Shard: db.node.Map().Find(first).ID, To: elsewhere(ks, string(number(0)))})
	for i := range 2 {
		must(t, db.Update(ctx, func(tx *Txn) error {
			for _, err := range tx.Scan(ks, ScanOptions{}) {
				if err != nil {
					return err
				}
			}
			return tx.Set(db.Default(), keyOn(db, i), nil)
		}))
	}
	must(t, db.node.SettleDecided(ctx))
	for _, p := range db.node.Parts() {
		for _, l := range p.Group.Locks() {
			t.Errorf("%v is locked in %v, and nobody ends that", l.Span(), p.ID)
		}
	}
}
