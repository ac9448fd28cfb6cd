package cleave

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// Money goes from account to account, across groups, while others look: by
// transactions, by reads of several keys and by scans. No reader sees a transfer under way.
func TestTransfersAcrossGroupsAreSeenWhole(t *testing.T) {
	for _, o := range []Options{{Groups: 8}, {Stores: 3, Groups: 8}, {Stores: 3, Groups: 8, Durability: Never}} {
		t.Run(fmt.Sprintf("stores=%d,%v", max(o.Stores, 1), o.Durability), func(t *testing.T) {
			db, err := OpenMemory(o)
			if err != nil {
				t.Fatal(err)
			}
			transfersAreSeenWhole(t, db)
			m := db.Metrics().Transactions
			t.Logf("%+v", m)
			if two := m.TwoPhase > m.InTurn; two != (o.Stores > 1) || !testing.Short() && (m.Joint == 0 || m.Scattered == 0) {
				t.Errorf("counted %+v with %d stores", m, o.Stores)
			}
			mustClose(t, db)
		})
	}
}

func transfersAreSeenWhole(t *testing.T, db *DB) {
	const accounts, each = 40, 100
	ks := db.Default()
	var keys [][]byte
	var b Batch
	for i := range accounts {
		keys = append(keys, fmt.Append(nil, "account ", i))
		b.Set(ks, keys[i], []byte(strconv.Itoa(each)))
	}
	must(t, db.Write(ctx, &b))
	groups := map[any]bool{}
	for _, key := range keys {
		groups[ks.findGroupHost(ks.keyspace.AppendPosition(nil, key))] = true
	}
	if len(groups) < 4 {
		t.Fatalf("the accounts are in %d groups: this test is about several", len(groups))
	}
	var stop atomic.Bool
	var movers, readers sync.WaitGroup
	seed := seedOf(t)
	for m := range 4 {
		movers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(m)))
			for range scaleRounds(10) {
				from, to := keys[rng.IntN(accounts)], keys[rng.IntN(accounts)]
				must(t, db.Update(ctx, func(tx *Txn) error {
					if _, err := tx.Add(ks, from, -1); err != nil {
						return err
					}
					_, err := tx.Add(ks, to, 1)
					return err
				}))
				b := new(Batch)
				b.Add(ks, to, -2)
				b.Add(ks, from, 2)
				must(t, db.Write(ctx, b))
			}
		})
	}
	for how, look := range map[string]func() (int, error){
		"GetMany": func() (int, error) {
			values, err := ks.GetMany(ctx, keys...)
			return sumDecimals(values...), err
		},
		"View": func() (sum int, err error) {
			return sum, db.View(ctx, func(tx *Txn) error {
				for _, key := range keys {
					v, err := tx.Get(ks, key)
					if err != nil {
						return err
					}
					sum += sumDecimals(v)
				}
				return nil
			})
		},
		"Scan of a transaction": func() (sum int, err error) {
			return sum, db.Update(ctx, func(tx *Txn) error {
				sum = 0
				for item, err := range tx.Scan(ks, ScanOptions{}) {
					if err != nil {
						return err
					}
					sum += sumDecimals(item.Value)
				}
				return tx.Set(ks, []byte("0"), []byte("0")) // all of it is validated
			})
		},
		"Scan": func() (sum int, err error) {
			for item, err := range ks.Scan(ctx, ScanOptions{}) {
				if err != nil {
					return sum, err
				}
				sum += sumDecimals(item.Value)
			}
			return sum, nil
		},
	} {
		readers.Go(func() {
			for first := true; first || !stop.Load(); first = false {
				if sum, err := look(); err != nil || sum != accounts*each {
					t.Errorf("%s: the accounts hold %d, %v; want %d", how, sum, err, accounts*each)
					return
				}
				time.Sleep(5 * time.Millisecond) // there are few processors
			}
		})
	}
	movers.Wait()
	stop.Store(true)
	readers.Wait()
}

// sumDecimals is the sum of decimal numbers.
func sumDecimals(values ...[]byte) (sum int) {
	for _, v := range values {
		n, err := strconv.Atoi(string(v))
		if err != nil {
			return -1 << 40
		}
		sum += n
	}
	return sum
}

func TestGroups_OfAnotherNumberThanTheDirectoryHas_AreKept(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, Options{Groups: 4, Stores: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		must(t, db.Default().Set(ctx, fmt.Append(nil, i), nil))
	}
	mustClose(t, db)
	for _, asked := range []int{8, 0, 1} {
		if db, err = Open(dir, Options{Groups: asked}); err != nil {
			t.Fatalf("with %d groups: %v", asked, err)
		}
		if n := len(db.node.GroupHosts()); n != 4 {
			t.Errorf("%d groups, want the 4 of the directory", n)
		}
		for i := range 50 {
			if ok, err := db.Default().Exists(ctx, fmt.Append(nil, i)); err != nil || !ok {
				t.Errorf("key %d: %v, %v", i, ok, err)
			}
		}
		mustClose(t, db)
	}
}

// A machine that slept finds what has expired meanwhile gone at once.
func TestAClockThatJumpsLeavesNothingAliveThatIsDead(t *testing.T) {
	clock := newClock()
	o := memoryOptions(1)
	o.Wall, o.HousekeepInterval = clock.ms.Load, -1
	db := mustOpen(t, o)
	defer mustClose(t, db)
	ks := db.Default()
	for i, look := range []func() bool{
		func() bool { _, err := ks.Get(ctx, []byte("k")); return err == nil },
		func() bool { v, _ := ks.GetMany(ctx, []byte("k")); return v[0] != nil },
		func() bool { p, _ := ks.ScanPage(ctx, ScanOptions{}); return len(p.Items) > 0 },
	} {
		_, err := ks.SetWith(ctx, []byte("k"), []byte("v"), SetOptions{TTL: time.Hour})
		must(t, err)
		clock.ms.Add(time.Hour.Milliseconds())
		if look() {
			t.Errorf("way %d: the key is still there", i)
		}
	}
}

// Options.Groups is for a new directory: one that has groups keeps them, also those of a Regroup.
func TestOptions_GroupsOfAnExistingDirectory_AreKept(t *testing.T) {
	dir := t.TempDir()
	for i, groups := range []int{2, 2, 1, 7, 0} {
		db, err := Open(dir, Options{Groups: groups})
		must(t, err)
		want := 2
		if i > 0 {
			want = 3
		}
		if n := len(db.Groups()); n != want {
			t.Errorf("opened with Groups %d it has %d, want %d", groups, n, want)
		}
		if i == 0 {
			mustDo(t, db, Regroup{Groups: 3})
		}
		must(t, db.Close())
	}
}

// New groups get a fair share although there are fewer shards than groups: those that
// are too large are split, by their bytes, and no collection is.
func TestNewGroupsGetAFairShareOfFewShards(t *testing.T) {
	for stores := 1; stores <= min(2, scaleRounds(1)); stores++ {
		t.Run(fmt.Sprintf("stores=%d", stores), func(t *testing.T) {
			o := memoryOptions(stores)
			o.Groups = stores
			db := mustOpen(t, o)
			defer mustClose(t, db)
			ks := rangeSpace(t, db, "r")
			const rows = 1200
			noise := make([]byte, 1<<10) // which cannot be compressed
			_, err := rand.NewChaCha8([32]byte{}).Read(noise)
			must(t, err)
			for i := 0; i < rows; i += 100 {
				var b Batch
				for j := i; j < i+100; j++ {
					b.Set(ks, numberKey(j), noise[:200+i/5])
				}
				must(t, db.Write(ctx, &b))
			}
			hash := []byte("000600 a hash of many fields")
			var fields []Field
			for i := range 300 {
				fields = append(fields, Field{Name: numberKey(i), Value: noise[:500]})
			}
			_, err = ks.HSet(ctx, hash, fields...)
			must(t, err)
			price, err := db.Plan(ctx, Regroup{Groups: 4})
			must(t, err)
			if price.Moves < 3 || stores == 1 && price.SkewAfter > 1.5 {
				t.Errorf("the plan is %+v", price)
			}
			mustDo(t, db, Regroup{Groups: 4, Parallel: 4})
			bytes, sum := map[GroupID]uint64{}, uint64(0)
			shards, err := db.Shards(ctx)
			must(t, err)
			for _, s := range shards {
				bytes[s.Group] += s.Bytes
				sum += s.Bytes
			}
			for _, g := range db.Groups() {
				if stores == 2 && g.ID <= 2 {
					continue // those that are added are filled, not those that were empty before
				}
				if share := float64(4*bytes[g.ID]) / float64(sum); share < 0.5 || share > 1.6 {
					t.Errorf("%v has %.2f of the mean: %v", g.ID, share, bytes)
				}
			}
			span := ks.keyspace.KeySpan(hash)
			if m := db.Map(); m.Find(span.Start).ID != m.Find(append(slices.Clip(span.Start), 0xff)).ID {
				t.Error("a collection is in two shards")
			}
			found := 0
			for _, err := range ks.Scan(ctx, ScanOptions{}) {
				must(t, err)
				found++
			}
			if found != rows+1 {
				t.Errorf("there are %d keys, want %d", found, rows+1)
			}
		})
	}
}

// A group that was drained can be used again, but not while it is drained: to return to use, cancel
// the drain.
func TestADrainedGroupCanBeUsedAgain(t *testing.T) {
	var once sync.Once
	var early error
	var db *DB
	db = openWatched(t, 2, func(j mover.Job) {
		if j.Kind == mover.Drain && j.Phase == mover.Surveying {
			once.Do(func() { _, early = db.Start(ctx, Undrain{Group: 4}) })
		}
	})
	drain := mustDo(t, db, Drain{Group: 4, Parallel: 4})
	if !errors.Is(early, ErrBusy) {
		t.Errorf("while the group is drained: %v", early)
	}
	shard := db.Map().Find(db.Default().keyspace.Span().Start).ID
	if _, err := db.Start(ctx, Move{Shard: shard, To: 4}); !errors.Is(err, ErrDraining) {
		t.Errorf("a move to a group that was drained by job %d: %v", drain.ID, err)
	}
	if p, err := db.Plan(ctx, Undrain{Group: 4}); err != nil || p.Moves > 0 {
		t.Errorf("the plan is %+v, %v", p, err)
	}
	if s := mustDo(t, db, Undrain{Group: 4}); s.Kind != "undrain" || db.Groups()[3].Draining || db.Groups()[3].Shards > 0 {
		t.Errorf("%+v, and the group is %+v", s, db.Groups()[3])
	}
	mustDo(t, db, Move{Shard: shard, To: 4})
	for group, want := range map[GroupID]error{4: ErrNoChange, 9: ErrNoGroup} {
		if _, err := db.Start(ctx, Undrain{Group: group}); !errors.Is(err, want) {
			t.Errorf("an undrain of %v: %v, want %v", group, err, want)
		}
	}
}

// Cancelling a Regroup takes back what that has done, not what a Drain has done before.
func TestACancelledRegroupLeavesGroupsDrainedThatWereSo(t *testing.T) {
	var once sync.Once
	var cancelled error
	var db *DB
	db = openWatched(t, 2, func(j mover.Job) {
		if j.Kind == mover.Regroup && j.Phase == mover.Surveying {
			once.Do(func() { cancelled = mustJob(t, db, JobID(j.ID)).Cancel(ctx) })
		}
	})
	mustDo(t, db, Drain{Group: 4})
	job := mustStart(t, db, Regroup{Groups: 2})
	if s, _ := job.Wait(ctx); cancelled != nil || s.Phase != "rolled back" {
		t.Fatalf("the regroup is %+v, cancelled: %v", s, cancelled)
	}
	for _, g := range db.Groups() {
		if want := g.ID == 4; g.Draining != want {
			t.Errorf("%v drains: %v, want %v", g.ID, g.Draining, want)
		}
	}
}

// A keyspace that is made while groups are being added is given to those that there
// are.
func TestAKeyspaceIsMadeWhileGroupsAreAdded(t *testing.T) {
	var db *DB
	var once sync.Once
	made := make(chan error, 1)
	o := memoryOptions(2)
	o.OnJob = func(j mover.Job) {
		if j.Phase == mover.Hosting {
			once.Do(func() {
				_, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "h"})
				made <- err
			})
		}
	}
	db = mustOpen(t, o)
	defer mustClose(t, db)
	mustDo(t, db, Regroup{Groups: 5})
	must(t, <-made)
	ks, err := db.Keyspace("h")
	must(t, err)
	for i := range 50 {
		must(t, ks.Set(ctx, numberKey(i), nil))
	}
}

// A call that waits for a job to make a keyspace does not wait for a store that is closed.
func TestAKeyspaceThatWaitsForAJobIsRefusedAtClose(t *testing.T) {
	held, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o := memoryOptions(2)
	o.OnJob = func(j mover.Job) {
		if j.Phase == mover.Copying {
			once.Do(func() { close(held); <-goOn })
		}
	}
	db := mustOpen(t, o)
	shards, err := db.Shards(ctx)
	must(t, err)
	last := shards[len(shards)-1]
	mustStart(t, db, Move{Shard: last.ID, To: 3 - last.Group})
	<-held
	made := make(chan error, 1)
	go func() {
		_, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "late"})
		made <- err
	}()
	time.Sleep(10 * time.Millisecond) // so that it waits, mostly
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	checkRefused(t, "a keyspace that waits", <-made, ErrClosed)
	close(goOn)
	must(t, <-closed)
}

// A keyspace of another DB may have the same number here, and another kind.
func TestASplitOfAnotherDBsKeyspaceIsRefused(t *testing.T) {
	db, other := openSmall(t, 1), openSmall(t, 1)
	_, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "h"})
	must(t, err)
	foreign := rangeSpace(t, other, "r")
	before := db.Map().Version()
	c := SplitAtKeys(foreign, []byte("m"))
	_, err = db.Plan(ctx, c)
	checkRefused(t, "the plan", err, ErrOptions)
	_, err = db.Start(ctx, c)
	checkRefused(t, "the split", err, ErrOptions)
	if db.Map().Version() != before {
		t.Error("the map has changed")
	}
}

// A shard of a keyspace that was dropped may be moved while it is cleared: no row of
// it is forgotten where it went.
func TestADroppedKeyspaceIsClearedWhereItWasMovedTo(t *testing.T) {
	for range scaleRounds(1) {
		o := memoryOptions(2)
		o.HousekeepInterval = 5 * time.Millisecond
		db := mustOpen(t, o)
		ks := rangeSpace(t, db, "r")
		var b Batch
		for i := range 10_000 {
			if b.Set(ks, numberKey(i), nil); b.Len() == 5000 {
				must(t, db.Write(ctx, &b))
				b.Reset()
			}
		}
		must(t, ks.Set(ctx, []byte("z"), nil))
		mustDo(t, db, SplitAtKeys(ks, []byte("z")))
		shard := shardAt(ks, "z")
		must(t, db.DropKeyspace(ctx, "r"))
		for begun := time.Now(); time.Since(begun) < 100*time.Millisecond; {
			job, err := db.Start(ctx, Move{Shard: shard, To: groupOnOtherStore(ks, "z")})
			must(t, err)
			if _, err = job.Wait(ctx); err != nil && !errors.Is(err, ErrJobUndone) {
				t.Fatal(err)
			}
		}
		waitUntil(t, "no row is left", func() bool { return rowsOf(t, ks) == 0 })
		mustClose(t, db)
	}
}

// A shard that was split just now is another one: the next split finds the right one.
func TestSplitsMayFollowOneAnother(t *testing.T) {
	db := openSmall(t, 1)
	ks := rangeSpace(t, db, "r")
	for i := 1; i <= tally.Size(80, 40); i++ {
		waitUntil(t, "the split is started", func() bool {
			_, err := db.Start(ctx, SplitAtKeys(ks, numberKey(i)))
			if err != nil {
				checkRefused(t, "a split", err, ErrBusy)
			}
			return err == nil
		})
	}
}
