package counter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/splitcount"
	"github.com/cleavekv/cleave/internal/testkit/caller"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// While there are adds, the sum lies between what was acknowledged when it was asked for
// and what was begun when it was returned, while the counter grows and shrinks and its shards move.
func TestSumsAreExactWhileCountersChange(t *testing.T) {
	for i, o := range []cleave.Options{{Groups: 4}, {Stores: 2, Groups: 4}} {
		for j, kind := range []string{"hash", "range"} {
			if i != j && os.Getenv("CLEAVE_SOAK") == "" {
				continue // one of each is enough for every day
			}
			t.Run(fmt.Sprintf("%s/stores=%d", kind, o.Stores), func(t *testing.T) {
				db := openMemory(t, o)
				ks := db.Default()
				if kind == "range" {
					ks = createRangeKeyspace(t, db, kind)
				}
				checkExactSums(t, db, ks)
			})
		}
	}
}

// addsPerWriter is how many each writer makes.
func addsPerWriter() int { return tally.Size(150, 60) }

func checkExactSums(t *testing.T, db *cleave.DB, ks *cleave.Keyspace) {
	c := newCounters(t, ks, db, unwatchedOptions)
	var begun, added, ended atomic.Int64
	var writers, others sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range addsPerWriter() {
				for i == addsPerWriter()/2 && ended.Load() == 0 {
					runtime.Gosched() // so that some sums come between adds
				}
				begun.Add(1)
				var err error
				switch (w + i) % 3 {
				case 0:
					err = c.Add(ctx, "n", 1)
				case 1:
					err = addTwice(c, "n")
				default:
					err = c.Write(ctx, "n", 1, func(b *cleave.Batch) { b.Set(ks, fmt.Appendf(nil, "row/%d/%d", w, i), []byte("x")) })
				}
				if err != nil {
					t.Error(err)
				}
				added.Add(1)
			}
		})
	}
	over := make(chan struct{})
	until := func(f func(i int) error) {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				if err := f(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	until(func(i int) error { return c.Resize(ctx, "n", []int{4, 1, 8, 2, 16, 2}[i%6]) })
	until(func(int) error {
		low := added.Load()
		sum, err := c.Sum(ctx, "n")
		if high := begun.Load(); err == nil && (sum < low || sum > high) {
			err = fmt.Errorf("the sum is %d, at least %d were acknowledged and %d begun", sum, low, high)
		}
		ended.Add(1)
		return err
	})
	until(func(i int) error { return moveShard(db, ks, i) })
	writers.Wait()
	close(over)
	others.Wait()
	wantSum(t, c, "n", int64(4*addsPerWriter()))
}

// addTwice adds once, though it asks twice.
func addTwice(c *Counters, name string) error {
	id, err := c.NewRequestID(ctx, name)
	return errors.Join(err, c.AddOnce(ctx, id, name, 1), c.AddOnce(ctx, id, name, 1))
}

// moveShard gives a shard of the keyspace to another group.
func moveShard(db *cleave.DB, ks *cleave.Keyspace, i int) error {
	shards, err := db.Shards(ctx)
	if err != nil {
		return err
	}
	groups := db.Groups()
	s := shards[1+i%(len(shards)-1)]
	to := groups[(i/3)%len(groups)].ID
	if s.Keyspace != ks.Name() || to == s.Group {
		return nil
	}
	job, err := db.Start(ctx, cleave.Move{Shard: s.ID, To: to})
	if err == nil {
		_, err = job.Wait(ctx)
	}
	if errors.Is(err, cleave.ErrBusy) || errors.Is(err, cleave.ErrJobUndone) || errors.Is(err, cleave.ErrNoShard) {
		err = nil
	}
	return err
}

// A request adds once, wherever its part is by then: closed, folded, opened again, deleted.
func TestARetryDoesNotAddAgainWhateverTheCounterBecame(t *testing.T) {
	db := openMemory(t, cleave.Options{Groups: 4})
	c := newCounters(t, db.Default(), db, unwatchedOptions)
	sizes := []int{1, 2, 8, 16}
	for _, first := range sizes {
		for _, second := range sizes {
			for _, third := range sizes {
				name := fmt.Sprintf("%d-%d-%d", first, second, third)
				must(t, c.Resize(ctx, name, first))
				ids := make([]cleave.RequestID, 6)
				for i := range ids {
					var err error
					ids[i], err = c.NewRequestID(ctx, name)
					must(t, err)
					ids[i][requestPartByte] = byte(i * 3) // also of parts that are not there
				}
				for _, n := range []int{second, third, first} {
					must(t, c.Resize(ctx, name, n))
					for _, id := range ids {
						must(t, c.AddOnce(ctx, id, name, 10))
					}
				}
				wantSum(t, c, name, int64(10*len(ids)))
			}
		}
	}
	must(t, c.Add(ctx, "gone", 1))
	id, err := c.NewRequestID(ctx, "gone")
	must(t, err)
	must(t, c.AddOnce(ctx, id, "gone", 1))
	if found, err := c.Delete(ctx, "gone"); !found || err != nil {
		t.Fatal(found, err)
	}
	must(t, c.AddOnce(ctx, id, "gone", 1))
	wantSum(t, c, "gone", 0)
}

func TestWhatIsTooOldIsReadAgain(t *testing.T) {
	db := openMemory(t, cleave.Options{})
	var mu sync.Mutex
	now := time.Unix(1e9, 0)
	step := time.Duration(0) // each look at the clock takes that long
	pass := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	o := unwatchedOptions
	o.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(step)
		return now
	}
	c := newCounters(t, db.Default(), db, o)
	want := func(bound time.Duration, sum int64, age time.Duration) {
		t.Helper()
		if r, err := c.Fast(ctx, "n", bound); err != nil || r.Sum != sum || r.Age != age {
			t.Fatalf("%+v, %v; want %d of %v ago", r, err, sum, age)
		}
	}
	want(time.Minute, 0, 0)
	must(t, c.Add(ctx, "n", 5))
	want(time.Minute, 0, 0)
	pass(time.Minute)
	want(time.Minute, 0, time.Minute)
	want(time.Second, 5, 0)
	must(t, c.Add(ctx, "n", 5))
	pass(time.Minute + 1)
	want(time.Minute, 10, 0)
	must(t, c.Add(ctx, "n", 5))
	pass(-time.Hour) // a clock that goes back makes nothing young
	want(time.Minute, 15, 0)
	must(t, c.Add(ctx, "n", 5))
	pass(1)
	want(-1, 20, 0)
	// The age counts from before the read, not from after it: the clock is looked at
	// when the call begins, before it reads, and when it says how old that is.
	pass(time.Hour)
	mu.Lock()
	step = time.Second
	began := now
	mu.Unlock()
	r, err := c.Fast(ctx, "n", time.Minute)
	must(t, err)
	mu.Lock()
	defer mu.Unlock()
	if at := now.Add(-r.Age); at.After(began.Add(2 * step)) {
		t.Errorf("a sum that was read %v after the start is said to be of %v after it", 2*step, at.Sub(began))
	}
}

func TestASumThatDoesNotFitSaysSo(t *testing.T) {
	db := openMemory(t, cleave.Options{Groups: 2})
	c := newCounters(t, db.Default(), db, unwatchedOptions)
	must(t, c.Resize(ctx, "n", 2))
	l := c.layout
	set := func(a, b int64) {
		must(t, db.Default().Set(ctx, l.Part("n", 0), fmt.Append(nil, a)))
		must(t, db.Default().Set(ctx, l.Part("n", 1), fmt.Append(nil, b)))
	}
	set(math.MaxInt64, 1)
	_, err := c.Sum(ctx, "n")
	wantError(t, "a sum", err, cleave.ErrOverflow)
	_, err = c.Reset(ctx, "n")
	wantError(t, "a reset", err, cleave.ErrOverflow)
	wantError(t, "a fold", c.Resize(ctx, "n", 1), cleave.ErrOverflow)
	wantParts(t, c, "n", 2)
	must(t, c.Add(ctx, "n", -1))
	wantSum(t, c, "n", math.MaxInt64)
	must(t, c.Resize(ctx, "n", 1))
	wantError(t, "an add", c.Add(ctx, "n", 1), cleave.ErrOverflow)
	wantSum(t, c, "n", math.MaxInt64)
	must(t, c.Resize(ctx, "n", 2))
	// A part that is full is no reason if the sum is not.
	set(math.MaxInt64, math.MinInt64)
	for i := range int64(20) {
		must(t, c.Add(ctx, "n", 5))
		wantSum(t, c, "n", -1+5*(i+1))
		set(math.MaxInt64-5*(i+1), math.MinInt64+10*(i+1))
	}
}

func TestMisuseIsRefusedAndSaysWhatIsWrong(t *testing.T) {
	db := openMemory(t, cleave.Options{})
	ks := db.Default()
	for _, o := range []Options{{Max: 3}, {Max: 512}, {Max: -1}, {Window: 1}, {Watched: -1}} {
		_, err := Open(db, ks, o)
		wantError(t, fmt.Sprintf("%+v", o), err, cleave.ErrOptions)
	}
	_, err := Open(openMemory(t, cleave.Options{}), ks, Options{})
	wantError(t, "a keyspace of another store", err, cleave.ErrOptions)
	c := newCounters(t, ks, db, unwatchedOptions)
	long := strings.Repeat("x", maxNameBytes+1)
	_, sumErr := c.Sum(ctx, long)
	_, deleteErr := c.Delete(ctx, long)
	_, partsErr := c.Parts(ctx, long)
	_, fastErr := c.Fast(ctx, long, 0)
	_, resetErr := c.Reset(ctx, long)
	txErr := db.Update(ctx, func(tx *cleave.Txn) error { return c.AddTx(tx, long, 1) })
	for _, err := range []error{c.Add(ctx, long, 1), c.Resize(ctx, long, 2), sumErr, deleteErr, partsErr, fastErr, resetErr, txErr} {
		wantError(t, "a long name", err, ErrName)
	}
	must(t, c.Add(ctx, long[1:], 1))
	wantError(t, "no request id", c.AddOnce(ctx, cleave.RequestID{}, "n", 1), cleave.ErrOptions)
	wantError(t, "three parts", c.Resize(ctx, "n", 3), cleave.ErrOptions)
	wantError(t, "a request of nothing", c.Write(ctx, "n", 1, func(b *cleave.Batch) { b.Request = db.NewRequestID() }), cleave.ErrOptions)

	// Another program writes to the keys of counters.
	must(t, ks.Set(ctx, c.layout.Part("text", 0), []byte("five")))
	_, err = ks.HSet(ctx, c.layout.Part("hash", 0), cleave.Field{Name: []byte("f"), Value: []byte("v")})
	must(t, err)
	must(t, ks.Set(ctx, c.layout.Manifest("manifest"), []byte("3")))
	for name, want := range map[string]error{"text": cleave.ErrNotInteger, "hash": cleave.ErrWrongType, "manifest": cleave.ErrWrongType} {
		wantError(t, name+": add", c.Add(ctx, name, 1), want)
		_, err := c.Sum(ctx, name)
		wantError(t, name+": sum", err, want)
		if found, err := c.Delete(ctx, name); !found || err != nil {
			t.Fatalf("%s cannot be deleted: %v, %v", name, found, err)
		}
		must(t, c.Add(ctx, name, 1))
		wantSum(t, c, name, 1)
	}
}

func TestAWriteHappensWithItsAddOrNotAtAll(t *testing.T) {
	db := openMemory(t, cleave.Options{Groups: 4})
	ks := db.Default()
	c := newCounters(t, ks, db, unwatchedOptions)
	other := newCounters(t, ks, db, unwatchedOptions) // its views are old
	like := func(user string) error {
		return other.Write(ctx, "n", 1, func(b *cleave.Batch) {
			b.SetWith(ks, []byte("like/"+user), []byte("1"), cleave.SetOptions{IfAbsent: true})
		})
	}
	for i := range 60 {
		must(t, c.Resize(ctx, "n", []int{16, 1, 2}[i%3]))
		user := fmt.Sprint(i)
		must(t, like(user))
		wantError(t, "a second like", like(user), cleave.ErrNotStored)
		if i%7 == 0 {
			must(t, c.Resize(ctx, "n", 8)) // between two refusals
		}
		wantError(t, "a third like", like(user), cleave.ErrNotStored)
		wantSum(t, c, "n", int64(i+1))
	}
	// A request is executed once, also if the counter has changed.
	id := db.NewRequestID()
	for _, parts := range []int{16, 1, 4} {
		must(t, c.Resize(ctx, "once", parts))
		must(t, other.Write(ctx, "once", 1, func(b *cleave.Batch) {
			b.Request = id
			b.Set(ks, []byte("row"), []byte("x"))
		}))
	}
	wantSum(t, c, "once", 1)
}

// What a counter does by the load alone: many waiting adds make it grow if that helps.
func TestACounterFollowsItsLoad(t *testing.T) {
	db := openMemory(t, cleave.Options{Groups: 4})
	var changes []string
	o := Options{Window: time.Hour, Max: 4, Watched: 2, Resized: func(name string, from, to int, err error) {
		changes = append(changes, fmt.Sprint(name, " ", from, " ", to, " ", err))
	}}
	c := newCounters(t, db.Default(), db, o)
	must(t, c.Add(ctx, "n", 1))
	must(t, c.Add(ctx, "cold", 1))
	must(t, c.Add(ctx, "unwatched", 1))
	s := c.states["n"]
	// As if 64 had waited all the time, for a time that falls with the parts.
	for range 12 {
		parts := int64(len(s.view.Load().partKeys))
		s.adds.Store(6400 * parts)
		s.addTime.Store(int64(64 * time.Second))
		s.recentlyUsed.Store(true)
		c.stepSizers(ctx, time.Second)
	}
	wantParts(t, c, "n", 4)
	wantParts(t, c, "cold", 1)
	wantSum(t, c, "n", 1)
	for range 2 * maxIdleWindows {
		c.stepSizers(ctx, time.Second)
	}
	if len(c.states) != 0 {
		t.Errorf("%d are still watched though nobody uses them", len(c.states))
	}
	wantParts(t, c, "n", 1)
	wantSum(t, c, "n", 1)
	if want := []string{"n 1 2 <nil>", "n 2 4 <nil>", "n 4 2 <nil>", "n 2 1 <nil>"}; fmt.Sprint(changes) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", changes, want)
	}
}

func TestAResizeThatIsDoneIsNoError(t *testing.T) {
	db := openMemory(t, cleave.Options{})
	ks := db.Default()
	c := newCounters(t, ks, db, Options{})
	done := func() bool {
		value, err := ks.Get(ctx, c.layout.Manifest("n"))
		return err == nil && bytes.Equal(value, splitcount.AppendManifest(nil, 4))
	}
	if err := c.Resize(caller.WithCancelWhen(ctx, done), "n", 4); err != nil || !done() {
		t.Errorf("done: %v, and the error is %v", done(), err)
	}
}

var ctx = context.Background()

// tester is what the checks need of a test.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unwatchedOptions never watches: tests resize by themselves.
var unwatchedOptions = Options{Window: time.Hour}

func newCounters(t testing.TB, ks *cleave.Keyspace, db *cleave.DB, o Options) *Counters {
	t.Helper()
	c, err := Open(db, ks, o)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func openMemory(t testing.TB, o cleave.Options) *cleave.DB {
	t.Helper()
	db, err := cleave.OpenMemory(o)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// testKeyspaces are keyspaces of each kind, the ranged one cut into four and given to
// all groups.
func testKeyspaces(t testing.TB, db *cleave.DB) map[string]*cleave.Keyspace {
	t.Helper()
	few, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "few", Slots: 4})
	must(t, err)
	return map[string]*cleave.Keyspace{"hash": db.Default(), "few": few, "range": createRangeKeyspace(t, db, "range")}
}

func createRangeKeyspace(t testing.TB, db *cleave.DB, name string) *cleave.Keyspace {
	t.Helper()
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: name, Kind: cleave.Range})
	must(t, err)
	job, err := db.Start(ctx, cleave.SplitAtKeys(ks, SplitKeys(4)...))
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
	shards, err := db.Shards(ctx)
	must(t, err)
	groups, n := db.Groups(), 0
	for _, s := range shards {
		if s.Keyspace != name {
			continue
		}
		to := groups[n%len(groups)].ID
		if n++; to == s.Group {
			continue
		}
		job, err := db.Start(ctx, cleave.Move{Shard: s.ID, To: to})
		must(t, err)
		_, err = job.Wait(ctx)
		must(t, err)
	}
	return ks
}

func wantSum(t tester, c *Counters, name string, want int64) {
	t.Helper()
	if got, err := c.Sum(ctx, name); err != nil || got != want {
		t.Fatalf("the sum of %q is %d, %v; want %d", name, got, err, want)
	}
}

func wantError(t tester, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v; want %v", what, err, want)
	}
}

func wantParts(t tester, c *Counters, name string, want int) {
	t.Helper()
	if got, err := c.Parts(ctx, name); err != nil || got != want {
		t.Fatalf("%q has %d parts, %v; want %d", name, got, err, want)
	}
}

// counterNames are some that could be in the way of hash tags.
func counterNames(n int) []string {
	list := []string{"", "a", "{", "}", "{}", "a{b}c", "}{", "0:a", "m", "\x00", "\xff"}
	for i := range n {
		list = append(list, fmt.Sprintf("post/%d", i))
	}
	return list
}
