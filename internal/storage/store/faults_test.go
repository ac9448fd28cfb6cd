package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// faultInjector is a disk on which matching operations fail while it is on.
type faultInjector struct {
	on    atomic.Bool
	hits  atomic.Int64
	match func(errorfs.Op) bool
	err   error
}

func (f *faultInjector) String() string { return "fault" }

func (f *faultInjector) MaybeError(op errorfs.Op) error {
	if f.on.Load() && f.match(op) {
		f.hits.Add(1)
		return f.err
	}
	return nil
}

func isWrite(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }

var errDisk = syscall.EIO

func TestAfterAFailedWriteTheStoreIsDeadAndNothingAcknowledgedIsLost(t *testing.T) {
	for name, match := range map[string]func(errorfs.Op) bool{
		"log write": func(op errorfs.Op) bool { return isLogOp(op) && op.Kind == errorfs.OpFileWriteAt },
		"log sync":  func(op errorfs.Op) bool { return isLogOp(op) && op.Kind == errorfs.OpFileSyncData },
		"table":     func(op errorfs.Op) bool { return isTableOp(op) && isWrite(op) },
		"directory": func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, dataDir) && op.Kind == errorfs.OpFileSync },
		"manifest":  func(op errorfs.Op) bool { return strings.Contains(op.Path, "MANIFEST") && isWrite(op) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewCrashableMem()
			f := &faultInjector{match: match, err: errDisk}
			s := mustOpen(t, tinyOptions(errorfs.Wrap(disk, f)))
			m := model{}
			var err error
			var last []rowWrite
			for i := 0; err == nil && i < 100000; i++ {
				f.on.Store(i >= 30)
				last = []rowWrite{{fmt.Appendf(nil, "k%03d", i%100), make([]byte, 1000+i%100)}}
				if err = commitWrites(s, last...); err == nil {
					m.apply(last...)
				}
			}
			if !errors.Is(err, ErrFailed) || !errors.Is(err, errDisk) {
				t.Fatalf("%v, want ErrFailed with its cause", err)
			}
			outcome := err
			if err := commitWrites(s, last...); !errors.Is(err, ErrFailed) {
				t.Errorf("the next commit: %v, want ErrFailed", err)
			}
			if _, _, err := s.Get([]byte("k000"), nil); !errors.Is(err, ErrFailed) {
				t.Errorf("the next read: %v, want ErrFailed", err)
			}
			if _, err := s.Snapshot(); !errors.Is(err, ErrFailed) {
				t.Errorf("the next snapshot: %v, want ErrFailed", err)
			}
			if s.Metrics().Failed == nil {
				t.Error("metrics do not say that the store failed")
			}
			f.on.Store(false)
			crashed := disk.CrashClone(vfs.CrashCloneCfg{})
			if err := s.Close(); !errors.Is(err, ErrFailed) {
				t.Errorf("Close: %v, want ErrFailed", err)
			}
			for _, d := range []vfs.FS{crashed, disk} {
				s := mustOpen(t, tinyOptions(d))
				if unsure := m.compareRows(s, nil, nil, false); unsure != nil {
					// The last commit may be there: its caller got that error.
					with := model{}
					for k, v := range m {
						with[k] = v
					}
					with.apply(last...)
					if err := with.compareRows(s, nil, nil, false); err != nil || !errors.Is(outcome, ErrUnknown) {
						t.Errorf("without the last commit %v; with it %v; it had ended with %v", unsure, err, outcome)
					}
				}
				mustClose(t, s)
			}
		})
	}
}

// A disk for backups that fails is no reason for the store to die.
func TestABackupToABrokenDiskFailsAlone(t *testing.T) {
	for name, match := range map[string]func(errorfs.Op) bool{
		"directory": func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync && strings.HasSuffix(op.Path, dataDir) },
		"syncs":     func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync },
		"writes":    isWrite,
	} {
		t.Run(name, func(t *testing.T) {
			f := &faultInjector{match: func(op errorfs.Op) bool { return strings.HasPrefix(op.Path, "broken") && match(op) }, err: errDisk}
			s := mustOpen(t, tinyOptions(errorfs.Wrap(vfs.NewMem(), f)))
			mustCommit(t, s, rowWrite{[]byte("k"), []byte("v")})
			f.on.Store(true)
			if _, err := s.Backup(t.Context(), "broken/backup"); !errors.Is(err, errDisk) {
				t.Errorf("the backup: %v, want %v", err, errDisk)
			}
			if _, err := s.Backup(t.Context(), "good"); err != nil {
				t.Errorf("one to another disk: %v", err)
			}
			mustCommit(t, s, rowWrite{[]byte("k"), []byte("w")})
			if _, _, err := s.Get([]byte("k"), nil); err != nil {
				t.Errorf("the next read: %v", err)
			}
			mustClose(t, s)
		})
	}
}

// When Pebble begins a new manifest it goes on behind a sync of its directory that failed, so
// the position that it then calls durable may be lost with that manifest: the log is still
// needed.
func TestWhatIsReadWhileTheStoreDiesIsNotDurable(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	const far = uint64(1) << 40 // farther than the position ever was
	var once sync.Once
	s.hooks.beforeDurable = func() { // right behind the question whether the store lives
		once.Do(func() {
			err := s.db.Set(appliedKey, binary.BigEndian.AppendUint64(nil, far), pebble.NoSync)
			if err = errors.Join(err, s.db.Flush()); err != nil {
				t.Error(err)
			}
			s.health.fail(errDisk) // as the guard does, unnoticed by Pebble
		})
	}
	var err error
	for i := 0; err == nil && i < 100000; i++ {
		err = commitWrites(s, rowWrite{fmt.Appendf(nil, "k%03d", i%100), make([]byte, 1000)})
	}
	if !errors.Is(err, ErrFailed) {
		t.Fatalf("%v, want ErrFailed", err)
	}
	if err := s.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close: %v, want ErrFailed", err)
	}
	if s.applier.durable.Load() >= far {
		t.Error("the log may be recycled up to a position that a crash takes back")
	}
}

func TestAFullDiskRefusesCommitsServesReadsAndPasses(t *testing.T) {
	f := &faultInjector{match: func(op errorfs.Op) bool {
		return isTableOp(op) && (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite)
	}, err: syscall.ENOSPC}
	s := mustOpen(t, tinyOptions(errorfs.Wrap(vfs.NewMem(), f)))
	m := model{}
	step := func(i int) error {
		w := rowWrite{fmt.Appendf(nil, "k%04d", i%1000), make([]byte, 1000+i%50)}
		err := commitWrites(s, w)
		if err == nil {
			m.apply(w)
		}
		return err
	}
	for i := range 200 {
		if err := step(i); err != nil {
			t.Fatal(err)
		}
	}
	f.on.Store(true)
	i := 0
	var err error
	for ; err == nil && i < 100000; i++ {
		err = step(i)
	}
	if !errors.Is(err, ErrDiskFull) || errors.Is(err, ErrFailed) {
		t.Fatalf("%v, want ErrDiskFull alone", err)
	}
	if !s.Metrics().DiskFull {
		t.Error("metrics do not say that the disk is full")
	}
	if lack, failed := s.CheckHealth(); !errors.Is(lack, ErrDiskFull) || failed != nil {
		t.Errorf("its condition is %v, %v", lack, failed)
	}
	if err := m.compareRows(s, nil, nil, true); err != nil {
		t.Fatalf("while the disk is full: %v", err)
	}
	if _, err := s.Commit(true, newEntry(encodeWrites(rowWrite{[]byte("urgent"), []byte("v")}))); err != nil {
		t.Errorf("an urgent commit: %v", err)
	}
	m.apply(rowWrite{[]byte("urgent"), []byte("v")})
	f.on.Store(false)
	for err = step(0); errors.Is(err, ErrDiskFull); err = step(0) {
		runtime.Gosched()
	}
	for i := range 300 {
		if err := step(i); err != nil {
			t.Fatalf("after the disk had space again: %v", err)
		}
	}
	if lack, failed := s.CheckHealth(); lack != nil || failed != nil {
		t.Errorf("then its condition is %v, %v", lack, failed)
	}
	if err := m.compareRows(s, nil, nil, false); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

// Pebble may meet a full disk with work that it then gives up. Nothing that it does tells
// when there is room again, and this disk does not either.
func TestAStoreThatWasFullTakesCommitsAgainThoughPebbleHasNothingToDo(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	s.health.handleBackgroundError(syscall.ENOSPC)
	w := rowWrite{[]byte("k"), []byte("v")}
	if err := commitWrites(s, w); !errors.Is(err, ErrDiskFull) {
		t.Errorf("%v, want ErrDiskFull", err)
	}
	for patience := time.Now().Add(time.Minute); ; runtime.Gosched() {
		err := commitWrites(s, w)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrDiskFull) || time.Now().After(patience) {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
}

func TestCloseOnAFullDiskReturnsAndLosesNothing(t *testing.T) {
	f := &faultInjector{match: func(op errorfs.Op) bool { return isTableOp(op) && op.Kind == errorfs.OpCreate }, err: syscall.ENOSPC}
	disk := vfs.NewMem()
	s := mustOpen(t, tinyOptions(errorfs.Wrap(disk, f)))
	m := model{}
	f.on.Store(true)
	for i := 0; ; i++ {
		w := rowWrite{fmt.Appendf(nil, "k%04d", i), make([]byte, 1000)}
		if err := commitWrites(s, w); err != nil {
			break
		}
		m.apply(w)
	}
	if err := s.Close(); !errors.Is(err, ErrDiskFull) {
		t.Errorf("Close: %v, want ErrDiskFull", err)
	}
	f.on.Store(false)
	s = mustOpen(t, tinyOptions(disk))
	if err := m.compareRows(s, nil, nil, false); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

// A scan or a snapshot that began before Close, and waits for a commit to become visible, sees
// all rows or is refused: on a full disk Close lets chunks go that are not applied.
func TestWhoLooksWhileCloseGivesUpSeesAllRowsOrAnError(t *testing.T) {
	count := func(s rowReader) (rows int, err error) {
		err = s.Scan(nil, nil, false, func(_, _ []byte) bool { rows++; return true })
		return rows, err
	}
	for name, look := range map[string]func(s *Store) (int, error){
		"scan": func(s *Store) (int, error) { return count(s) },
		"snapshot": func(s *Store) (int, error) {
			snap, err := s.Snapshot()
			if err != nil {
				return 0, err
			}
			defer snap.Close()
			return count(snap)
		},
	} {
		f := &faultInjector{match: func(op errorfs.Op) bool { return isTableOp(op) && op.Kind == errorfs.OpCreate }, err: syscall.ENOSPC}
		s := mustOpen(t, tinyOptions(errorfs.Wrap(vfs.NewMem(), f)))
		f.on.Store(true)
		want := 0
		for commitWrites(s, rowWrite{fmt.Appendf(nil, "k%04d", want), make([]byte, 1000)}) == nil {
			want++
		}
		// A commit is becoming visible.
		s.chunks.publishMu.Lock()
		s.chunks.sequence.Add(1)
		var rows int
		looked, closed := make(chan error), make(chan error)
		go func() {
			var err error
			rows, err = look(s)
			looked <- err
		}()
		time.Sleep(20 * time.Millisecond) // it is inside
		go func() { closed <- s.Close() }()
		eventually.Holds(t, "Close has given up", func() bool { return len(s.chunks.listOldestSealed(1, 1)) == 0 })
		s.chunks.sequence.Add(1)
		s.chunks.publishMu.Unlock()
		if err := <-looked; err == nil && rows != want || err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %d rows of %d, %v: want all, or ErrClosed", name, rows, want, err)
		}
		if err := <-closed; !errors.Is(err, ErrDiskFull) {
			t.Errorf("%s: Close: %v, want ErrDiskFull", name, err)
		}
	}
}

func TestABackupToAFullDiskFailsAlone(t *testing.T) {
	f := &faultInjector{match: func(op errorfs.Op) bool {
		return strings.HasPrefix(op.Path, "/b/") && isTableOp(op) && op.Kind == errorfs.OpCreate
	}, err: syscall.ENOSPC}
	disk := vfs.NewMem()
	s := mustOpen(t, tinyOptions(errorfs.Wrap(disk, f)))
	mustCommit(t, s, rowWrite{[]byte("k"), []byte("v")})
	f.on.Store(true)
	if _, err := s.Backup(t.Context(), "/b"); !errors.Is(err, ErrDiskFull) {
		t.Errorf("%v, want ErrDiskFull", err)
	}
	if _, err := disk.Stat("/b"); err == nil {
		t.Error("a backup that failed is still there")
	}
	mustCommit(t, s, rowWrite{[]byte("k"), []byte("w")})
	f.on.Store(false)
	if _, err := s.Backup(t.Context(), "/b"); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}

// A caller that must not be refused waits for files.
func TestABriefScanOutlivesWantOfFiles(t *testing.T) {
	f := &faultInjector{match: func(op errorfs.Op) bool { return isTableOp(op) && op.Kind == errorfs.OpFileReadAt }, err: syscall.EMFILE}
	fs := errorfs.Wrap(vfs.NewMem(), f)
	s := mustOpen(t, tinyOptions(fs))
	const rows = 200
	for i := range rows {
		if err := commitWrites(s, rowWrite{fmt.Appendf(nil, "k%03d", i), make([]byte, 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
	s = mustOpen(t, tinyOptions(fs))
	defer mustClose(t, s)
	f.on.Store(true)
	if err := s.Scan(nil, nil, false, func(_, _ []byte) bool { return true }); !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("no file is wanted: %v", err)
	}
	time.AfterFunc(30*time.Millisecond, func() { f.on.Store(false) })
	seen := map[string]bool{}
	err := s.ScanBriefly([]byte("k"), []byte("l"), false, func(key, _ []byte) bool {
		seen[string(key)] = true
		return true
	})
	if err != nil || len(seen) != rows {
		t.Errorf("%d rows, want %d: %v", len(seen), rows, err)
	}
}
