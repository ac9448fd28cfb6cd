package cleave

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// shardAt returns the shard of a key.
func shardAt(ks *Keyspace, key string) ShardID {
	return ks.db.Map().Find(ks.keyspace.AppendPosition(nil, []byte(key))).ID
}

func groupAt(ks *Keyspace, key string) GroupID {
	return ks.db.Map().Find(ks.keyspace.AppendPosition(nil, []byte(key))).Group
}

// groupOnOtherStore returns a group on another store than that of a key.
func groupOnOtherStore(ks *Keyspace, key string) (to GroupID) {
	groups := ks.db.Groups()
	for _, g := range groups {
		if g.ID == groupAt(ks, key) {
			for _, other := range groups {
				if other.Store != g.Store {
					to = other.ID
				}
			}
		}
	}
	return to
}

func mustStart(t testing.TB, db *DB, c MapChange) *Job {
	t.Helper()
	job, err := db.Start(ctx, c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return job
}

func mustJob(t testing.TB, db *DB, id JobID) *Job {
	t.Helper()
	job, err := db.Job(ctx, id)
	must(t, err)
	return job
}

func mustDo(t testing.TB, db *DB, c MapChange) JobStatus {
	t.Helper()
	s, err := mustStart(t, db, c).Wait(ctx)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return s
}

// What cannot be done is refused with a word for it, and nothing has changed.
func TestBadChangesOfTheMapAreRefused(t *testing.T) {
	o := memoryOptions(2)
	o.Groups = 4
	db := mustOpen(t, o)
	defer mustClose(t, db)
	ks := rangeSpace(t, db, "r")
	mustDo(t, db, SplitAtKeys(ks, []byte("f"), []byte("m"), []byte("t")))
	mustDo(t, db, Drain{Group: 4, Parallel: 8})
	first, second, third := shardAt(ks, "a"), shardAt(ks, "g"), shardAt(ks, "n")
	hash := db.Default()
	var apart [2]ShardID // neighbours of different groups
	var last Shard
	shards, err := db.Shards(ctx)
	must(t, err)
	for _, s := range shards {
		if last.ID != 0 && last.Group != s.Group && last.Keyspace == hash.Name() && s.Keyspace == hash.Name() {
			apart = [2]ShardID{last.ID, s.ID}
		}
		last = s
	}
	catalog := shards[0].ID
	before := db.Map()
	for name, x := range map[string]struct {
		change MapChange
		want   error
	}{
		"nothing":                       {nil, ErrOptions},
		"no keyspace":                   {SplitAtKeys(nil, []byte("x")), ErrOptions},
		"no constructor":                {Split{}, ErrOptions},
		"no keys":                       {SplitAtKeys(ks), ErrOptions},
		"no slots":                      {SplitAtSlots(hash), ErrOptions},
		"no pieces":                     {SplitEvenly(hash, 0), ErrBoundary},
		"pieces of a range keyspace":    {SplitEvenly(ks, 2), ErrOptions},
		"slots of a range keyspace":     {SplitAtSlots(ks, 1), ErrOptions},
		"the empty key of a hash":       {SplitAtKeys(hash, []byte{}), ErrBoundary},
		"at a boundary":                 {SplitAtKeys(ks, []byte("m")), ErrNoChange},
		"at boundaries, each twice":     {SplitAtKeys(ks, []byte("m"), []byte("f"), []byte("f"), []byte("m")), ErrNoChange},
		"at the start":                  {SplitAtSlots(hash, 0), ErrBoundary},
		"at the first key":              {SplitAtKeys(ks, []byte{}), ErrBoundary},
		"outside":                       {SplitAtSlots(hash, 16384), ErrBoundary},
		"below":                         {SplitAtSlots(hash, -1), ErrBoundary},
		"too many pieces":               {SplitEvenly(hash, 20000), ErrBoundary},
		"one piece":                     {SplitEvenly(hash, 1), ErrNoChange},
		"too long a key":                {SplitAtKeys(ks, make([]byte, 17<<10)), ErrTooLarge},
		"move to no group":              {Move{Shard: first, To: 99}, ErrNoGroup},
		"move to group 0":               {Move{Shard: first}, ErrNoGroup},
		"move of no shard":              {Move{Shard: 9999, To: 1}, ErrNoShard},
		"move to where it is":           {Move{Shard: first, To: groupAt(ks, "a")}, ErrNoChange},
		"move to a drained group":       {Move{Shard: first, To: 4}, ErrDraining},
		"too slow":                      {Move{Shard: first, To: groupOnOtherStore(ks, "a"), BytesPerSecond: 1}, ErrOptions},
		"merge of distant shards":       {Merge{Left: first, Right: third}, ErrNotNeighbours},
		"merge in the wrong order":      {Merge{Left: second, Right: first}, ErrNotNeighbours},
		"merge with itself":             {Merge{Left: first, Right: first}, ErrNotNeighbours},
		"merge of different groups":     {Merge{Left: apart[0], Right: apart[1]}, ErrDifferentGroups},
		"merge with nothing":            {Merge{Left: first, Right: 9999}, ErrNoShard},
		"move of the catalog":           {Move{Shard: catalog, To: 2}, ErrCatalog},
		"merge of the catalog":          {Merge{Left: catalog, Right: shards[1].ID}, ErrCatalog},
		"drain of the catalog's group":  {Drain{Group: 1}, ErrCatalog},
		"drain of no group":             {Drain{Group: 77}, ErrNoGroup},
		"drain of a drained group":      {Drain{Group: 4}, ErrNoChange},
		"drain of the last on its side": {Drain{Group: 2, Parallel: 65}, ErrOptions},
		"fewer groups than stores":      {Regroup{Groups: 1}, ErrOptions},
		"as many groups":                {Regroup{Groups: 4}, ErrNoChange},
		"too many groups":               {Regroup{Groups: 5000}, ErrOptions},
	} {
		if _, err := db.Plan(ctx, x.change); !errors.Is(err, x.want) {
			t.Errorf("plan of %s: %v, want %v", name, err, x.want)
		}
		if _, err := db.Start(ctx, x.change); !errors.Is(err, x.want) {
			t.Errorf("start of %s: %v, want %v", name, err, x.want)
		}
	}
	if db.Map() != before {
		t.Errorf("the map is another one: %v", db.Map().Version())
	}
	if _, err := db.Job(ctx, 999); !errors.Is(err, ErrNoJob) {
		t.Errorf("a job that never was: %v", err)
	}
	ended, err := db.Job(ctx, 1)
	must(t, err)
	for what, err := range map[string]error{
		"cancel": ended.Cancel(ctx), "pause": ended.Pause(ctx), "resume": ended.Resume(ctx), "throttle": ended.Throttle(ctx, 0),
	} {
		if !errors.Is(err, ErrJobEnded) {
			t.Errorf("%s of a job that has ended: %v", what, err)
		}
	}
}

// openWatched opens a store in memory whose jobs are interfered with.
func openWatched(t *testing.T, stores int, on func(mover.Job)) *DB {
	o := memoryOptions(stores)
	o.Groups = 2 * stores
	o.OnJob = on
	db := mustOpen(t, o)
	t.Cleanup(func() { mustClose(t, db) })
	return db
}

// A job can be taken back until its decision, in every phase, and is too late after
// it: then all is as before, or as it was to be.
func TestAJobIsCancelledAtEachPhase(t *testing.T) {
	var mu sync.Mutex
	at, hit := mover.Phase(0), false
	var answer error
	var db *DB
	db = openWatched(t, 2, func(j mover.Job) {
		mu.Lock()
		defer mu.Unlock()
		if j.Phase == at && !hit {
			hit = true
			answer = mustJob(t, db, JobID(j.ID)).Cancel(ctx)
		}
	})
	ks := rangeSpace(t, db, "r")
	keys := tally.Size(200, 50)
	for i := range keys {
		must(t, ks.Set(ctx, numberKey(i), []byte("v")))
	}
	phases := []mover.Phase{
		mover.Planned, mover.Preparing, mover.Clearing, mover.Locating, mover.Opening, mover.Copying, mover.CatchingUp, mover.Verifying,
		mover.Freezing, mover.Finishing, mover.Comparing, mover.Deciding,
		mover.Releasing, mover.Activating, mover.Publishing, mover.Dropping, mover.Forgetting,
	}
	for _, p := range phases {
		mu.Lock()
		at, hit, answer = p, false, nil
		mu.Unlock()
		from, to := groupAt(ks, "0"), groupOnOtherStore(ks, "0")
		s, err := mustStart(t, db, Move{Shard: shardAt(ks, "0"), To: to}).Wait(ctx)
		mu.Lock()
		hit, answer := hit, answer
		mu.Unlock()
		decided := p >= mover.Releasing
		switch now := groupAt(ks, "0"); {
		case !hit:
			t.Errorf("%v: the job was never there", p)
		case !decided && (answer != nil || !errors.Is(err, ErrJobUndone) || s.State != JobUndone || now != from):
			t.Errorf("%v: %v, then %v (%v), and the shard is with %v of %v", p, answer, s.State, err, now, from)
		case decided && (!errors.Is(answer, ErrTooLate) || err != nil || now != to):
			t.Errorf("%v: %v, then %v (%v), and the shard is with %v, not %v", p, answer, s.State, err, now, to)
		}
		for i := range keys {
			if v, err := ks.Get(ctx, numberKey(i)); err != nil || string(v) != "v" {
				t.Fatalf("%v: key %d: %q, %v", p, i, v, err)
			}
		}
		noLeftovers(t, db, ks)
	}
}

// noLeftovers fails if a store has rows of a keyspace that none of its groups serve.
func noLeftovers(t *testing.T, db *DB, ks *Keyspace) {
	t.Helper()
	s := ks.keyspace.Span()
	rows := 0
	for _, h := range db.node.StoreHosts() {
		must(t, h.Store.Scan(append([]byte{1}, s.Start...), append([]byte{1}, s.End...), false, func(_, _ []byte) bool {
			rows++
			return true
		}))
	}
	items := 0
	for _, err := range ks.Scan(ctx, ScanOptions{}) {
		must(t, err)
		items++
	}
	if rows != items {
		t.Errorf("the stores have %d rows for %d keys", rows, items)
	}
}

// A second job on a range that a job is at work on is refused, and the text names it.
// A pause holds, whatever time passes; a throttle can be changed.
func TestAJobIsPausedThrottledAndInTheWay(t *testing.T) {
	paused := make(chan struct{})
	var once sync.Once
	var db *DB
	db = openWatched(t, 2, func(j mover.Job) {
		if j.Phase == mover.Copying {
			once.Do(func() {
				must(t, mustJob(t, db, JobID(j.ID)).Pause(ctx))
				close(paused)
			})
		}
	})
	ks := rangeSpace(t, db, "r")
	for i := range 300 {
		must(t, ks.Set(ctx, numberKey(i), make([]byte, 1000)))
	}
	mustDo(t, db, SplitAtKeys(ks, numberKey(250)))
	shard, to := shardAt(ks, "0"), groupOnOtherStore(ks, "0")
	job := mustStart(t, db, Move{Shard: shard, To: to, BytesPerSecond: 64 << 10})
	<-paused
	for _, c := range []MapChange{
		Move{Shard: shard, To: to}, SplitAtKeys(ks, numberKey(10)), Merge{Left: shard, Right: shardAt(ks, "000251")},
	} {
		if _, err := db.Start(ctx, c); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), fmt.Sprint("job ", job.ID())) {
			t.Errorf("%+v at the same time: %v", c, err)
		}
	}
	// A keyspace that would be made elsewhere is not in the way.
	s, err := job.Status(ctx)
	must(t, err)
	if s.State != JobPaused || s.BytesPerSecond != 64<<10 || s.Expected.Moves != 1 || s.Expected.Rows != 250 {
		t.Errorf("the paused job is %+v", s)
	}
	if err := job.Throttle(ctx, 1); !errors.Is(err, ErrOptions) {
		t.Errorf("a byte a second: %v", err)
	}
	must(t, job.Throttle(ctx, 0))
	must(t, ks.Set(ctx, numberKey(0), []byte("written meanwhile")))
	late, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := job.Wait(late); !errors.Is(err, context.Canceled) {
		t.Errorf("an impatient wait: %v", err)
	}
	must(t, job.Resume(ctx))
	s, err = job.Wait(ctx)
	if err != nil || s.State != JobDone || groupAt(ks, "0") != to || s.Rows < 250 {
		t.Errorf("%+v, %v", s, err)
	}
	if v, err := ks.Get(ctx, numberKey(0)); err != nil || string(v) != "written meanwhile" {
		t.Errorf("%q, %v", v, err)
	}
}

// Groups come and go under the traffic of clients.
func TestGroupsComeAndGo(t *testing.T) {
	seed := seedOf(t)
	o := memoryOptions(2)
	o.Groups = 2
	db := mustOpen(t, o)
	w := newTraffic(t, db)
	w.simple = true
	w.start(seed)
	mustDo(t, db, SplitEvenly(w.hash, 16))
	mustDo(t, db, Regroup{Groups: 6, Parallel: 4})
	if n := len(db.Groups()); n != 6 {
		t.Errorf("%d groups, want 6", n)
	}
	for _, g := range db.Groups() {
		if g.Shards == 0 {
			t.Errorf("%v has no shards", g.ID)
		}
	}
	mustDo(t, db, Drain{Group: 2, Parallel: 4})
	mustDo(t, db, Regroup{Groups: 3, Parallel: 4})
	w.stopAndCheck()
	mustClose(t, db)
	if n := len(db.Groups()); n != 3 {
		t.Errorf("%d groups, want 3", n)
	}
}

// The feed yields what clients did to keys, each once and in order, and nothing of
// what jobs did to rows.
func TestTheFeedFollowsKeysFromStoreToStore(t *testing.T) {
	db := openWatched(t, 3, nil)
	ks := rangeSpace(t, db, "r")
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	const keys, rounds = 20, 12
	from := db.Head()
	wrote := map[string][]string{}
	for round := range rounds {
		for i := range keys {
			key, value := numberKey(i), fmt.Sprint(round)
			if rng.IntN(4) == 0 {
				_, err := ks.Delete(ctx, key)
				must(t, err)
				if n := len(wrote[string(key)]); n == 0 || wrote[string(key)][n-1] == "" {
					continue // there was nothing to delete
				}
				value = ""
			} else {
				must(t, ks.Set(ctx, key, []byte(value)))
			}
			wrote[string(key)] = append(wrote[string(key)], value)
		}
		mustDo(t, db, Move{Shard: shardAt(ks, "0"), To: groupOnOtherStore(ks, "0")})
	}
	must(t, ks.Set(ctx, []byte("end"), nil))
	told := map[string][]string{}
	for change, err := range db.Feed(ctx, FeedOptions{From: from}) {
		must(t, err)
		for _, op := range change.Ops {
			told[string(op.Key)] = append(told[string(op.Key)], string(op.Item.Value))
		}
		if told["end"] != nil {
			break
		}
	}
	for key, want := range wrote {
		if fmt.Sprint(told[key]) != fmt.Sprint(want) {
			t.Errorf("%s was told as %q, and was %q", key, told[key], want)
		}
	}
}

// A crash at any phase of a job loses nothing: when the store is open again the job
// is brought to its end, or taken back.
func TestJobsSurviveACrashAtEachPhase(t *testing.T) {
	phases := []mover.Phase{
		mover.Planned, mover.Preparing, mover.Clearing, mover.Locating, mover.Opening, mover.Copying, mover.CatchingUp,
		mover.Verifying, mover.Freezing, mover.Finishing, mover.Comparing, mover.Deciding,
		mover.Releasing, mover.Activating, mover.Publishing, mover.Dropping, mover.Forgetting, mover.Done,
	}
	within := []mover.Phase{mover.Planned, mover.Deciding, mover.Releasing, mover.Publishing, mover.Done}
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	for range scaleRounds(1) {
		crashInPhases(t, rng, "between stores", phases)
		crashInPhases(t, rng, "within a store", within)
		crashInPhases(t, rng, "to a new group", within)
	}
}

// crashInPhases plays one move, and looks at what a crash in each of its phases would
// have left.
func crashInPhases(t *testing.T, rng *rand.Rand, how string, phases []mover.Phase) {
	d := []wal.Durability{wal.Always, wal.Never}[rng.IntN(2)]
	disks := newCrashables(2)
	if how == "to a new group" {
		disks = disks[:1] // so that the group has nothing before it is given something
	}
	o := disks.options(d)
	o.Groups = 4
	crashes := map[mover.Phase]crashDisks{}
	kept := map[mover.Phase]int{}
	var mu sync.Mutex
	o.OnJob = func(j mover.Job) {
		mu.Lock()
		defer mu.Unlock()
		if j.Kind == mover.Move && crashes[j.Phase] == nil && slices.Contains(phases, j.Phase) {
			kept[j.Phase] = []int{0, 50, 100}[rng.IntN(3)]
			for _, disk := range disks {
				crashes[j.Phase] = append(crashes[j.Phase], disk.Crash(kept[j.Phase], rng))
			}
		}
	}
	db := mustOpen(t, o)
	ks := rangeSpace(t, db, "r")
	for i := range movedKeys() {
		must(t, ks.Set(ctx, numberKey(i), []byte("v")))
	}
	for _, h := range db.node.StoreHosts() {
		must(t, h.Store.Sync())
	}
	from, to := groupAt(ks, "0"), groupOnOtherStore(ks, "0")
	if how == "within a store" {
		for _, g := range db.Groups() {
			if g.Store == db.Groups()[from-1].Store && g.ID != from {
				to = g.ID
			}
		}
	}
	change := MapChange(Move{Shard: shardAt(ks, "0"), To: to})
	if how == "to a new group" {
		change, to = Regroup{Groups: 5}, 0
	}
	job := mustStart(t, db, change)
	_, err := job.Wait(ctx)
	must(t, err)
	mustClose(t, db)
	for _, p := range phases {
		if crashes[p] == nil {
			t.Fatalf("the move was never %v", p)
		}
		when := fmt.Sprintf("%s, %v, %v%% kept, crash at %v", how, d, kept[p], p)
		goOnAfterACrash(t, when, crashes[p].options(d), job.ID(), to)
	}
}

// movedKeys is how many keys there are in the shard that is moved.
func movedKeys() int { return tally.Size(40, 10) }

// goOnAfterACrash opens what a crash has left, and waits for the job.
func goOnAfterACrash(t *testing.T, when string, o node.Options, id JobID, to GroupID) {
	t.Helper()
	db := mustOpen(t, o)
	defer mustClose(t, db)
	ks, err := db.Keyspace("r")
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	job, err := db.Job(ctx, id)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	within, cancel := context.WithTimeout(ctx, hangTimeout())
	defer cancel()
	if s, err := job.Wait(within); err != nil || to != 0 && groupAt(ks, "0") != to {
		t.Fatalf("%s: %+v, %v", when, s, err)
	}
	for i := range movedKeys() {
		if v, err := ks.Get(ctx, numberKey(i)); err != nil || string(v) != "v" {
			t.Fatalf("%s: key %d: %q, %v", when, i, v, err)
		}
		must(t, ks.Set(ctx, numberKey(i), []byte("w")))
	}
	noLeftovers(t, db, ks)
}

// A keyspace can be made while its place is being moved, and a place be moved while
// a keyspace is made: one waits for the other, or says what is in its way.
func TestKeyspacesAreMadeWhileTheirPlaceMoves(t *testing.T) {
	stop := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(stop) })
	var once sync.Once
	held := make(chan struct{})
	db := openWatched(t, 2, func(j mover.Job) {
		if j.Kind == mover.Move && j.Phase == mover.Copying {
			once.Do(func() {
				close(held)
				<-stop
			})
		}
	})
	defer goOn()
	// The last shard has the positions of keyspaces to come.
	shards, err := db.Shards(ctx)
	must(t, err)
	last := shards[len(shards)-1]
	to := GroupID(1)
	if last.Store == 0 {
		to = GroupID(len(db.Groups()))
	}
	job := mustStart(t, db, Move{Shard: last.ID, To: to})
	<-held
	hurried, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := db.CreateKeyspace(hurried, KeyspaceOptions{Name: "hurried"}); !errors.Is(err, context.Canceled) {
		t.Errorf("who cannot wait is told %v", err)
	}
	made := make(chan error, 1)
	go func() {
		_, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "patient", Kind: Range})
		made <- err
	}()
	must(t, job.Pause(ctx))
	if err := <-made; !errors.Is(err, ErrBusy) {
		t.Fatalf("a job that is paused is in the way: %v", err)
	}
	go func() {
		_, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "patient", Kind: Range})
		made <- err
	}()
	must(t, job.Resume(ctx))
	goOn()
	_, err = job.Wait(ctx)
	must(t, err)
	if err := <-made; err != nil && !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	} else if err != nil { // it looked before the job was resumed
		rangeSpace(t, db, "patient")
	}
	ks, err := db.Keyspace("patient")
	must(t, err)
	must(t, ks.Set(ctx, []byte("k"), []byte("v")))
	mustDo(t, db, Move{Shard: shardAt(ks, "k"), To: groupOnOtherStore(ks, "k")})
	if v, err := ks.Get(ctx, []byte("k")); err != nil || string(v) != "v" {
		t.Errorf("%q, %v", v, err)
	}
}
