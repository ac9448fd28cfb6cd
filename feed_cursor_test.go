package cleave

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// What a View sees is what the feed yields up to its place, no more and no less, and
// ends there, while others write and shards move. Transactions across stores
// may be seen before they are in the feed, so they are compared at the end alone.
func TestTheFeedUpToAViewMakesWhatTheViewSees(t *testing.T) {
	seed := seedOf(t)
	db := openWatched(t, 3, nil)
	ks := rangeSpace(t, db, "r")
	mustDo(t, db, SplitAtKeys(ks, numberKey(5), numberKey(10), numberKey(15)))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	write := func(worker uint64, f func(rng *rand.Rand) error) {
		wg.Go(func() {
			for rng := rand.New(rand.NewPCG(seed, worker)); ; {
				select {
				case <-stop:
					return
				default:
				}
				time.Sleep(200 * time.Microsecond) // moves are to end
				if err := f(rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for w := range uint64(2) {
		write(w, func(rng *rand.Rand) error {
			if rng.IntN(3) == 0 {
				_, err := ks.Delete(ctx, numberKey(rng.IntN(20)))
				return err
			}
			return ks.Set(ctx, numberKey(rng.IntN(20)), fmt.Append(nil, rng.Uint32()))
		})
	}
	write(2, func(rng *rand.Rand) error {
		return db.Update(ctx, func(tx *Txn) error {
			_, err := tx.Delete(ks, fmt.Appendf(numberKey(rng.IntN(20)), "x"))
			if err == nil {
				err = tx.Set(ks, fmt.Appendf(numberKey(rng.IntN(20)), "x"), fmt.Append(nil, rng.Uint32()))
			}
			return err
		})
	})
	wg.Go(func() {
		defer close(stop)
		for rng, n := rand.New(rand.NewPCG(seed, 9)), 0; n < scaleRounds(4); n++ {
			at := string(numberKey(rng.IntN(20)))
			mustDo(t, db, Move{Shard: shardAt(ks, at), To: groupOnOtherStore(ks, at)})
		}
	})
	from, told := Cursor(""), map[string]string{}
	compare := func() (same bool) {
		seen := map[string]string{}
		var to Cursor
		must(t, db.View(ctx, func(tx *Txn) (err error) {
			for item, err := range tx.Scan(ks, ScanOptions{}) {
				must(t, err)
				seen[string(item.Key)] = string(item.Value)
			}
			to, err = tx.Cursor()
			return err
		}))
		for c, err := range db.Feed(ctx, FeedOptions{From: from, Until: to}) {
			must(t, err)
			if !c.Before(to) || c.Before(from) || !c.Before(c.After) || !to.Covers(c.After) {
				t.Fatalf("the change up to %s is not between %s and %s", c.After, from, to)
			}
			for _, op := range c.Ops {
				if told[string(op.Key)] = string(op.Item.Value); op.Deleted {
					delete(told, string(op.Key))
				}
			}
		}
		from, same = to, true
		for i := range 20 {
			key := string(numberKey(i))
			if seen[key] != told[key] {
				t.Fatalf("the feed makes %q of %s, the View sees %q", told[key], key, seen[key])
			}
			same = same && seen[key+"x"] == told[key+"x"]
		}
		return same
	}
	for done := false; !done; compare() {
		select {
		case <-stop:
			done = true
		case <-time.After(time.Millisecond):
		}
	}
	wg.Wait()
	waitUntil(t, "the feed has the transactions across stores", compare)
}

func TestAChangeIsBeforeAPlaceOfItsStore(t *testing.T) {
	change := Change{After: "t-5-7", store: 1}
	for place, want := range map[Cursor]bool{"t-0-7": true, "t-9-6": false, "u-9-9": false, "": false, "t-9": false, "t-0-10": true} {
		if change.Before(place) != want {
			t.Errorf("a change at 7 of store 1 is before %q: %v", place, !want)
		}
	}
}

func TestAKeyspaceTellsThatItWasDropped(t *testing.T) {
	db := openSmall(t, 1)
	ks := rangeSpace(t, db, "r")
	select {
	case <-ks.Dropped():
		t.Error("it was not dropped")
	default:
	}
	must(t, db.DropKeyspace(ctx, "r"))
	<-ks.Dropped()
	again := rangeSpace(t, db, "r")
	select {
	case <-again.Dropped():
		t.Error("the new one was not dropped")
	default:
	}
}

func TestTheFeedEndsAtItsPlaceWithoutWaiting(t *testing.T) {
	db := openSmall(t, 2)
	writeRandom(t, db, rand.New(rand.NewPCG(seedOf(t), 1)), 50)
	places := []Cursor{""}
	var all []Change
	end := db.Head()
	for c, err := range db.Feed(ctx, FeedOptions{Until: end}) {
		must(t, err)
		all, places = append(all, c), append(places, c.After)
	}
	if len(all) == 0 {
		t.Fatal("nothing was told")
	}
	for i := 1; i < len(places); i += 1 + len(places)/10 { // the beginning is no end
		n := 0
		for c, err := range db.Feed(ctx, FeedOptions{Until: places[i]}) {
			must(t, err)
			if !slices.ContainsFunc(all[:i], func(a Change) bool { return a.store == c.store && fmt.Sprint(a.Ops) == fmt.Sprint(c.Ops) }) {
				t.Errorf("%v is not before place %d", c, i)
			}
			n++
		}
		if n != i {
			t.Errorf("%d changes up to place %d", n, i)
		}
	}
	for _, err := range db.Feed(ctx, FeedOptions{From: end, Until: "nonsense"}) {
		checkRefused(t, "a bad end", err, ErrOptions)
	}
}

// A store that has no groups left is at its end after a restart, where nothing is committed:
// a read up to now ends there.
func TestTheFeedOfAStoreWithoutGroupsEnds(t *testing.T) {
	for _, d := range []wal.Durability{wal.Always, wal.Never} {
		o := tinyOptions(d, nil, store.NewMemFS(), store.NewMemFS())
		o.Groups = 4
		o.Store.RetainBytes = 64 << 20
		db := mustOpen(t, o)
		mustDo(t, db, Regroup{Groups: 2})
		before := db.Head()
		must(t, db.Default().Set(ctx, []byte("a"), nil))
		mustClose(t, db)
		o.Groups = 0
		for range 2 {
			db = mustOpen(t, o)
			limited, cancel := context.WithTimeout(ctx, hangTimeout())
			until, err := db.StableHead(limited)
			must(t, err)
			changes := 0
			for _, err := range db.Feed(limited, FeedOptions{From: before, Until: until}) {
				must(t, err)
				changes++
			}
			if changes != 1 {
				t.Errorf("%v: there are %d changes", d, changes)
			}
			cancel()
			mustClose(t, db)
		}
	}
}

func TestProgressReachesEveryPlaceOfNow(t *testing.T) {
	db := openSmall(t, 2)
	c, cancel := context.WithTimeout(ctx, hangTimeout())
	defer cancel()
	from := db.Head()
	for i := range 40 {
		// Half of the commits are the store's own, which the feed does not yield.
		if i%2 == 0 {
			rangeSpace(t, db, fmt.Sprint("space", i))
		} else {
			must(t, db.Default().Set(ctx, numberKey(i), []byte("value")))
		}
		now := db.Head()
		seen := 0
		for change, err := range db.Feed(c, FeedOptions{From: from, Progress: true}) {
			if err != nil {
				t.Fatalf("commit %d: at %s, waiting for %s: %v", i, from, now, err)
			}
			if !change.After.Covers(from) {
				t.Fatalf("the place went back from %s to %s", from, change.After)
			}
			from, seen = change.After, seen+len(change.Ops)
			if from.Covers(now) {
				break
			}
		}
		if seen != i%2 {
			t.Fatalf("commit %d: %d ops were told, want %d", i, seen, i%2)
		}
	}
}

func TestACursorCoversWhatIsBeforeItInEveryStore(t *testing.T) {
	for _, test := range []struct {
		have, want Cursor
		covers     bool
	}{
		{"", "", true},
		{"0123abcd-1-2", "", true},
		{"", "0123abcd-1-2", false},
		{"0123abcd-1-2", "0123abcd-1-2", true},
		{"0123abcd-ff-2", "0123abcd-1-2", true},
		{"0123abcd-10-2", "0123abcd-9-2", true}, // as numbers, not as text
		{"0123abcd-9-3", "0123abcd-10-2", false},
		{"0123abcd-9-1", "0123abcd-1-2", false},
		{"0123abcd-9-9", "0123abce-1-1", false},
		{"0123abcd-9", "0123abcd-9-0", false},
		{"0123abcd-x-9", "0123abcd-1-1", false},
		{"0123abcd-9-9", "0123abcd-y-1", false},
	} {
		if got := test.have.Covers(test.want); got != test.covers {
			t.Errorf("%q covers %q: %v", test.have, test.want, got)
		}
	}
	for _, strange := range []Cursor{"", "0123abce-1-1", "0123abcd-1", "0123abcd-1-x", "x"} {
		const here = Cursor("0123abcd-9-9")
		if got := here.Join(strange); got != here {
			t.Errorf("%q with %q is %q", here, strange, got)
		}
	}
	for range 1000 {
		a, b := rand.Uint64N(20), rand.Uint64N(20)
		c, d := rand.Uint64N(20), rand.Uint64N(20)
		have, want := Cursor(fmt.Sprintf("0123abcd-%x-%x", a, b)), Cursor(fmt.Sprintf("0123abcd-%x-%x", c, d))
		if got := have.Covers(want); got != (a >= c && b >= d) {
			t.Fatalf("%q covers %q: %v", have, want, got)
		}
		if got := have.Join(want); got != Cursor(fmt.Sprintf("0123abcd-%x-%x", max(a, c), max(b, d))) {
			t.Fatalf("%q and %q are %q", have, want, got)
		}
	}
}
