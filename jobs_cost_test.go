package cleave

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/wal"
)

// filled makes a range keyspace of ten shards with rows of a kilobyte, all with one group.
func filled(t *testing.T, db *DB, rows int) *Keyspace {
	t.Helper()
	ks := rangeSpace(t, db, "filled")
	var at [][]byte
	for i := rows / 10; i < rows; i += rows / 10 {
		at = append(at, number(i))
	}
	mustDo(t, db, Split{Keyspace: ks, At: at})
	for i := range rows {
		must(t, ks.Set(ctx, number(i), make([]byte, 1<<10)))
	}
	return ks
}

// What a move, a Drain and a Regroup have carried is what they report: rows that were
// compared too count once.
func TestAJobReportsWhatItCarried(t *testing.T) {
	db := watched(t, 2, nil)
	const rows = 300
	ks := filled(t, db, rows)
	shard, to := shardAt(ks, "000000"), elsewhere(ks, "000000")
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
	db := watched(t, 1, nil)
	filled(t, db, 300)
	p, err := db.Plan(ctx, Regroup{Groups: 6})
	must(t, err)
	if p.Moves == 0 || p.Rows != 0 || p.Bytes != 0 || p.Pause != 0 {
		t.Errorf("on one store: %+v", p)
	}
}

// Who asks why a job that is done by others has ended, or does not go on, is told.
func TestAJobThatIsDoneByOthersSaysWhy(t *testing.T) {
	var once sync.Once
	var db *DB
	db = watched(t, 2, func(j mover.Job) {
		if j.Kind == mover.Move && j.Phase == mover.Copying {
			once.Do(func() { must(t, mustJob(t, db, JobID(j.ID)).Pause(ctx)) })
		}
	})
	ks := filled(t, db, 100)
	to := elsewhere(ks, "000000")
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
	if _, err := db.Start(ctx, Split{Keyspace: ks, At: [][]byte{[]byte("000001")}}); !errors.Is(err, ErrBusy) || !strings.HasSuffix(err.Error(), text) {
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
	crashes := map[mover.Phase]crashables{}
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
		must(t, db.Default().Set(ctx, number(i), []byte("v")))
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

// Why a job was taken back is said in the words of this package, whoever said it first.
func TestAJobThatIsTakenBackSaysWhyInTheUsersWords(t *testing.T) {
	var once sync.Once
	var db *DB
	db = watched(t, 2, func(j mover.Job) {
		if j.Kind == mover.Move && j.Phase == mover.Copying {
			once.Do(func() { must(t, mustJob(t, db, JobID(j.ID)).Pause(ctx)) })
		}
	})
	ks := filled(t, db, 100)
	to := elsewhere(ks, "000000")
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
		"waits for job 3, which is paused: resume or cancel it": "waits for job 3, which is paused: resume or cancel it",
		mover.ErrNowhere.Error() + ": s3 of g1":                 strings.TrimPrefix(ErrNowhere.Error(), "cleave: ") + ": s3 of g1: add a group, or undrain one",
		"own: the group's list has changed: g1 has nothing":     "the group's list has changed: g1 has nothing",
	} {
		if got := whyOf(why); got != want {
			t.Errorf("%q is %q, want %q", why, got, want)
		}
	}
}
