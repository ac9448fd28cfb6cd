package cleave

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// newFilledKeyspace makes a range keyspace of ten shards with rows of a kilobyte, all with one group.
func newFilledKeyspace(t *testing.T, db *DB, rows int) *Keyspace {
	t.Helper()
	ks := rangeSpace(t, db, "filled")
	var at [][]byte
	for i := rows / 10; i < rows; i += rows / 10 {
		at = append(at, numberKey(i))
	}
	mustDo(t, db, SplitAtKeys(ks, at...))
	for i := range rows {
		must(t, ks.Set(ctx, numberKey(i), make([]byte, 1<<10)))
	}
	return ks
}

// What a move, a Drain and a Regroup have carried is what they report: rows that were
// compared too count once.
func TestAJobReportsWhatItCarried(t *testing.T) {
	db := openWatched(t, 2, nil)
	const rows = 300
	ks := newFilledKeyspace(t, db, rows)
	shard, to := shardAt(ks, "000000"), groupOnOtherStore(ks, "000000")
	if s := mustDo(t, db, Move{Shard: shard, To: to}); s.Rows != rows/10 || s.Bytes < rows/10<<10 {
		t.Errorf("a move of %d rows says %d rows, %d bytes", rows/10, s.Rows, s.Bytes)
	}
	for _, c := range []MapChange{Regroup{Groups: 6, Parallel: 3}, Regroup{Groups: 3, Parallel: 2}} {
		parent := mustDo(t, db, c)
		jobs, err := db.Jobs(ctx)
		must(t, err)
		var want JobStatus
		expected := uint64(0)
		for _, s := range jobs {
			if s.Parent == parent.ID {
				want.Rows, want.Bytes, want.Children = want.Rows+s.Rows, want.Bytes+s.Bytes, want.Children+1
				want.Pause, want.PauseTotal = max(want.Pause, s.Pause), want.PauseTotal+s.PauseTotal
				if expected += s.Expected.Rows; s.Kind == "move" && s.Expected.Moves != 1 {
					t.Errorf("job %d was expected to cost %+v", s.ID, s.Expected)
				}
			}
		}
		if parent.Rows != want.Rows || parent.Bytes != want.Bytes || parent.Pause != want.Pause || parent.PauseTotal != want.PauseTotal {
			t.Errorf("%+v says %d rows, %d bytes, pauses %v %v; its jobs %+v", c, parent.Rows, parent.Bytes, parent.Pause, parent.PauseTotal, want)
		}
		if want.Rows == 0 || expected == 0 {
			t.Errorf("%+v carried nothing: this test is about what is carried", c)
		}
	}
}

// A plan knows on which stores groups will be: what stays on its store is not carried.
func TestAPlanOfMoreGroupsCountsOnlyWhatChangesItsStore(t *testing.T) {
	db := openWatched(t, 1, nil)
	newFilledKeyspace(t, db, 300)
	p, err := db.Plan(ctx, Regroup{Groups: 6})
	must(t, err)
	if p.Moves == 0 || p.Rows != 0 || p.Bytes != 0 || p.Pause != 0 {
		t.Errorf("on one store: %+v", p)
	}
}

// The status of a job that is done by others has the reason why it has ended, or does not go on.
func TestAJobThatIsDoneByOthersSaysWhy(t *testing.T) {
	var once sync.Once
	var db *DB
	db = openWatched(t, 2, func(j mover.Job) {
		if j.Kind == mover.Move && j.Phase == mover.Copying {
			once.Do(func() { must(t, mustJob(t, db, JobID(j.ID)).Pause(ctx)) })
		}
	})
	ks := newFilledKeyspace(t, db, 100)
	to := groupOnOtherStore(ks, "000000")
	move := mustStart(t, db, Move{Shard: shardAt(ks, "000000"), To: to})
	for s, err := move.Status(ctx); s.State != JobPaused; s, err = move.Status(ctx) {
		must(t, err)
	}
	drain := mustStart(t, db, Drain{Group: to, Parallel: 64})
	want := fmt.Sprintf("waits for job %d, which is paused", move.ID())
	for s, err := drain.Status(ctx); !strings.Contains(s.Why, want); s, err = drain.Status(ctx) {
		must(t, err)
		if s.State != JobRunning {
			t.Fatalf("the drain is %+v", s)
		}
	}
	for _, c := range []MapChange{Drain{Group: to}, Undrain{Group: to}} {
		text := fmt.Sprintf("job %d, a drain of %v: wait for it or cancel it", drain.ID(), to)
		if _, err := db.Start(ctx, c); !errors.Is(err, ErrBusy) || !strings.HasSuffix(err.Error(), text) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	text := fmt.Sprintf("job %d, a move of %v, is paused: resume or cancel it", move.ID(), shardAt(ks, "000000"))
	if _, err := db.Start(ctx, SplitAtKeys(ks, []byte("000001"))); !errors.Is(err, ErrBusy) || !strings.HasSuffix(err.Error(), text) {
		t.Errorf("a split in the way of a paused move: %v", err)
	}
	must(t, drain.Cancel(ctx))
	if s, err := drain.Wait(ctx); !errors.Is(err, ErrJobUndone) || s.Why != "cancelled" || !strings.HasSuffix(err.Error(), ": cancelled") {
		t.Errorf("cancelled: %q, %v", s.Why, err)
	}
	must(t, move.Resume(ctx))
	if s, err := move.Wait(ctx); err != nil || s.Why != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

// A crash when a job that was begun for another has ended, or is about to, neither
// forgets what it has cost nor counts it twice.
func TestWhatJobsCostSurvivesACrash(t *testing.T) {
	disks := newCrashables(2)
	o := disks.options(wal.Never)
	o.Groups = 2
	crashes := map[mover.Phase]crashDisks{}
	var mu sync.Mutex
	o.OnJob = func(j mover.Job) {
		mu.Lock()
		defer mu.Unlock()
		if p := j.Phase; j.Parent != 0 && crashes[p] == nil && (p == mover.Forgetting || p == mover.Done) {
			crashes[p] = disks.crash()
		}
	}
	db := mustOpen(t, o)
	for i := range 200 {
		must(t, db.Default().Set(ctx, numberKey(i), []byte("v")))
	}
	drain := mustStart(t, db, Drain{Group: 2, Parallel: 2})
	_, err := drain.Wait(ctx)
	must(t, err)
	mustClose(t, db)
	for _, p := range []mover.Phase{mover.Forgetting, mover.Done} {
		db := mustOpen(t, crashes[p].options(wal.Never))
		s, err := mustJob(t, db, drain.ID()).Wait(ctx)
		must(t, err)
		jobs, err := db.Jobs(ctx)
		must(t, err)
		rows, bytes := uint64(0), uint64(0)
		for _, child := range jobs {
			if child.Parent == s.ID {
				rows, bytes = rows+child.Rows, bytes+child.Bytes
			}
		}
		if s.Rows != rows || s.Bytes != bytes || rows == 0 {
			t.Errorf("crash at %v: the drain says %d rows, %d bytes; its jobs %d, %d", p, s.Rows, s.Bytes, rows, bytes)
		}
		mustClose(t, db)
	}
}

// The reason why a job was taken back is in the words of this package, whatever its origin.
func TestAJobThatIsTakenBackSaysWhyInTheUsersWords(t *testing.T) {
	var once sync.Once
	var db *DB
	db = openWatched(t, 2, func(j mover.Job) {
		if j.Kind == mover.Move && j.Phase == mover.Copying {
			once.Do(func() { must(t, mustJob(t, db, JobID(j.ID)).Pause(ctx)) })
		}
	})
	ks := newFilledKeyspace(t, db, 100)
	to := groupOnOtherStore(ks, "000000")
	move := mustStart(t, db, Move{Shard: shardAt(ks, "000000"), To: to})
	for s, err := move.Status(ctx); s.State != JobPaused; s, err = move.Status(ctx) {
		must(t, err)
	}
	drain := mustStart(t, db, Drain{Group: to, Parallel: 64})
	for s, err := drain.Status(ctx); s.Why == ""; s, err = drain.Status(ctx) { // the group is marked by then
		must(t, err)
	}
	must(t, move.Resume(ctx))
	s, err := move.Wait(ctx)
	if !errors.Is(err, ErrJobUndone) || strings.Contains(err.Error(), "partition") ||
		!strings.HasPrefix(s.Why, "the group is draining: ") || !strings.HasSuffix(s.Why, ": undrain it, or choose another") {
		t.Errorf("%q, %v", s.Why, err)
	}
	if _, err := drain.Wait(ctx); err != nil {
		t.Error(err)
	}
	for why, want := range map[string]string{
		"cancelled": "cancelled",
		"waits for job 3, which is paused: resume or cancel it":        "waits for job 3, which is paused: resume or cancel it",
		mover.ErrNowhere.Error() + ": shard 3 of group 1":              strings.TrimPrefix(ErrNowhere.Error(), "cleave: ") + ": shard 3 of group 1: add a group, or undrain one",
		"ownership: the group's list has changed: group 1 has nothing": "the group's list has changed: group 1 has nothing",
	} {
		if got := toPublicReason(why); got != want {
			t.Errorf("%q is %q, want %q", why, got, want)
		}
	}
}

// The holder of a job learns how it ended, however many jobs have ended since.
func TestAJobThatIsHeldIsNotForgotten(t *testing.T) {
	db := openSmall(t, 1)
	ks := rangeSpace(t, db, "r")
	var jobs []*Job
	for i := 1; i <= 130; i++ {
		var job *Job
		var err error
		waitUntil(t, "the split is started", func() bool {
			job, err = db.Start(ctx, SplitAtKeys(ks, numberKey(i)))
			return !errors.Is(err, ErrBusy)
		})
		must(t, err)
		jobs = append(jobs, job)
	}
	for _, job := range jobs {
		s, err := job.Wait(ctx)
		if err != nil || s.State != JobDone || s.ID != job.ID() {
			t.Fatalf("job %d: %v, %v", job.ID(), s.State, err)
		}
	}
	if _, err := db.Job(ctx, jobs[0].ID()); !errors.Is(err, ErrNoJob) {
		t.Fatalf("the first is still there: %v", err)
	}
	if s, err := jobs[0].Status(ctx); err != nil || s.State != JobDone {
		t.Errorf("the status of the first: %v, %v", s.State, err)
	}
	for what, err := range map[string]error{"pause": jobs[0].Pause(ctx), "cancel": jobs[0].Cancel(ctx)} {
		if !errors.Is(err, ErrJobEnded) {
			t.Errorf("%s of the first: %v", what, err)
		}
	}
}

// A job that was found by its id is held like one that was begun.
func TestAJobThatWasFoundIsHeld(t *testing.T) {
	db := openSmall(t, 1)
	ks := rangeSpace(t, db, "r")
	id := mustDo(t, db, SplitAtKeys(ks, numberKey(500))).ID
	job, err := db.Job(ctx, id)
	must(t, err)
	for i := range 110 {
		mustDo(t, db, SplitAtKeys(ks, numberKey(i)))
	}
	if s, err := job.Wait(ctx); err != nil || s.State != JobDone || s.ID != id {
		t.Errorf("%+v, %v", s, err)
	}
}

// crashDisks are disks that can crash, and the options of a store on them.
type crashDisks []*store.CrashableFS

func newCrashables(n int) (disks crashDisks) {
	for range n {
		disks = append(disks, store.NewCrashableFS())
	}
	return disks
}

func (disks crashDisks) options(d wal.Durability) node.Options {
	var all []store.FS
	for _, disk := range disks {
		all = append(all, disk.FS())
	}
	return tinyOptions(d, nil, all...)
}

// crash returns the disks as a crash at this moment would leave them: without all that
// was not synced.
func (disks crashDisks) crash() (after crashDisks) {
	for _, disk := range disks {
		after = append(after, disk.Crash(0, nil))
	}
	return after
}

// groupOn returns a group of a store.
func groupOn(db *DB, store int) (id GroupID) {
	for _, g := range db.Groups() {
		if g.Store == store {
			id = g.ID
		}
	}
	return id
}

// What a crash takes back at the source of a move is not at its destination either: it
// must not be seen there, should all that compares both fail.
func TestACopyHasNothingThatACrashTakesBackAtItsSource(t *testing.T) {
	disks := newCrashables(3) // the catalog's store, source and destination
	o := disks.options(wal.Never)
	o.Groups = 3
	var db *DB
	var ks *Keyspace
	var wrote, crashed sync.Once
	var armed atomic.Bool
	hit := make(chan crashDisks, 1)
	o.OnJob = func(j mover.Job) {
		switch {
		case !armed.Load():
		case j.Phase == mover.Copying: // behind the place at which the copy begins
			wrote.Do(func() {
				for i := range 50 {
					must(t, ks.Set(ctx, numberKey(i), []byte("not synced by itself")))
				}
			})
		case j.Phase == mover.CatchingUp && j.VerifiedUpTo > 0:
			crashed.Do(func() {
				must(t, mustJob(t, db, JobID(j.ID)).Pause(ctx))
				hit <- disks.crash()
			})
		}
	}
	db = mustOpen(t, o)
	ks = rangeSpace(t, db, "r")
	for i := range 50 {
		must(t, ks.Set(ctx, numberKey(i), []byte("v")))
	}
	if groupAt(ks, "0") != groupOn(db, 1) {
		mustDo(t, db, Move{Shard: shardAt(ks, "0"), To: groupOn(db, 1)})
	}
	armed.Store(true)
	to := groupOn(db, 2)
	job := mustStart(t, db, Move{Shard: shardAt(ks, "0"), To: to})
	disks = <-hit
	mustClose(t, db)

	db = mustOpen(t, disks.options(wal.Never))
	defer mustClose(t, db)
	ks, err := db.Keyspace("r")
	must(t, err)
	job, err = db.Job(ctx, job.ID())
	must(t, err)
	rows := func(store int) (all []string) {
		s := ks.keyspace.Span()
		from, to := effect.Rows.AppendKey(nil, s.Start), effect.Rows.AppendKey(nil, s.End)
		must(t, db.node.StoreHosts()[store].Store.Scan(from, to, false, func(key, value []byte) bool {
			all = append(all, fmt.Sprintf("%q=%q", key, value))
			return true
		}))
		return all
	}
	if source, copied := rows(1), rows(2); len(copied) != 50 || !slices.Equal(source, copied) {
		t.Errorf("after a crash the copy has %q, and the source %q", copied, source)
	}
	must(t, job.Resume(ctx))
	if s, err := job.Wait(ctx); err != nil || groupAt(ks, "0") != to {
		t.Errorf("%+v, %v", s, err)
	}
	noLeftovers(t, db, ks)
}
