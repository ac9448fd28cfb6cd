package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/rows"
)

// slowTables is a disk on which tables take long to read.
type slowTables struct{}

func (slowTables) String() string { return "slow tables" }

func (slowTables) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
		time.Sleep(2 * nearTime)
	}
	return nil
}

func TestWhoMustNotWaitForADiskDoesSoOnce(t *testing.T) {
	o := tiny(errorfs.Wrap(vfs.NewMem(), slowTables{}))
	o.BlockCacheBytes = 4 << 20 // for all blocks, while there is room for some rows only
	s := mustOpen(t, o)
	const n = 400
	var keys [][]byte
	for i := range n {
		keys = append(keys, fmt.Appendf(nil, "key%03d", i))
		mustCommit(t, s, write{keys[i], make([]byte, 500)})
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	near := func(keys [][]byte) (visited int) {
		t.Helper()
		if err := s.GetNear(keys, func(i int, value []byte, ok bool, _ rows.Ticket) bool {
			if visited++; !ok || len(value) != 500 {
				t.Errorf("%s is %d bytes, %v", keys[i], len(value), ok)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return visited
	}
	from := time.Since(s.began)
	if got := near(keys); got == 0 || got > n/4 {
		t.Errorf("%d of %d rows are near on a slow disk", got, n)
	}
	to := time.Since(s.began)
	if after := time.Duration(s.nearAfter.Load()); after < from+nearPause*nearTime || after > to+nearPause*(to-from) {
		t.Errorf("nothing is near until %v after a read from %v to %v", after, from, to)
	}
	s.nearAfter.Add(int64(time.Hour)) // this machine may be slow
	if got := near(keys[n/2:]); got != 0 {
		t.Errorf("right after that %d rows are near", got)
	}
	s.nearAfter.Store(0) // some time later
	if err := s.GetMany(keys[:n/2], func(int, []byte, bool, rows.Ticket) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(keys[:n/2], func(k []byte) bool { return !knows(s, k) }) {
		t.Error("all rows are in memory: what was read is not what blocks have")
	}
	if got := near(keys[:n/2]); got != n/2 {
		t.Errorf("%d of %d rows are near whose blocks were just read", got, n/2)
	}
}

// So it is with a scan.
func TestAScanThatMustNotWaitForADiskDoesSoOnce(t *testing.T) {
	o := tiny(errorfs.Wrap(vfs.NewMem(), slowTables{}))
	o.BlockCacheBytes = 4 << 20
	s := mustOpen(t, o)
	const n = 400
	for i := range n {
		mustCommit(t, s, write{fmt.Appendf(nil, "key%03d", i), make([]byte, 500)})
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	scan := func() (visited int, near bool) {
		t.Helper()
		near, err := s.ScanNear([]byte("key"), []byte("kez"), false, func([]byte, []byte) bool { visited++; return true })
		if err != nil {
			t.Fatal(err)
		}
		return visited, near
	}
	if got, near := scan(); near || got > n/4 {
		t.Errorf("%d of %d rows are visited on a slow disk, which is near: %v", got, n, near)
	}
	s.nearAfter.Add(int64(time.Hour)) // this machine may be slow
	if got, near := scan(); near || got != 0 {
		t.Errorf("right after that %d rows are visited", got)
	}
	s.nearAfter.Store(0) // some time later
	if err := s.Scan([]byte("key"), []byte("kez"), false, func([]byte, []byte) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if got, near := scan(); !near || got != n {
		t.Errorf("%d of %d rows are visited whose blocks were just read, which is near: %v", got, n, near)
	}
}

func knows(s *Store, key []byte) bool {
	_, known := s.Knows(key)
	return known
}

// It does so once also if few rows are far that are behind others which are near.
func TestAScanOfFewLargeRowsFindsOutThatADiskIsSlow(t *testing.T) {
	const rows, size = 8, 20_000
	o := tiny(errorfs.Wrap(vfs.NewMem(), slowTables{}))
	o.BlockCacheBytes = 4 << 20
	s := mustOpen(t, o)
	key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
	for i := range rows {
		mustCommit(t, s, write{key(i), bytes.Repeat(key(i), size/4)})
	}
	mustClose(t, s)
	for far := 1; far < rows; far++ { // how many of them there are in front that are near
		s = mustOpen(t, o)
		for i := range far {
			mustGet(t, s, key(i))
		}
		visited := 0
		near, err := s.ScanNear(nil, nil, false, func(_, _ []byte) bool {
			visited++
			return true
		})
		if err != nil || s.IsNear() || visited < far || visited > far+1 {
			t.Errorf("behind %d rows that are near the disk is taken for near: %v; visited were %d, near %v, %v", far, s.IsNear(), visited, near, err)
		}
		mustClose(t, s)
	}
}

// moodyTables is a disk that takes as long as it is told to read tables, and may fail then.
// It does so for want of files, of which no store dies: Pebble may read as well just then.
type moodyTables struct {
	pause atomic.Int64
	fails atomic.Bool
}

func (*moodyTables) String() string { return "moody tables" }

func (d *moodyTables) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileReadAt && isTable(op) {
		time.Sleep(time.Duration(d.pause.Load()))
		if d.fails.Load() {
			return syscall.EMFILE
		}
	}
	return nil
}

// openMoody opens a store of rows on such a disk, of which none is in memory.
func openMoody(t *testing.T) (*Store, *moodyTables, [][]byte) {
	t.Helper()
	d := new(moodyTables)
	o := tiny(errorfs.Wrap(vfs.NewMem(), d))
	o.BlockCacheBytes = 4 << 20
	s := mustOpen(t, o)
	var keys [][]byte
	for i := range 400 {
		keys = append(keys, fmt.Appendf(nil, "key%03d", i))
		mustCommit(t, s, write{keys[i], make([]byte, 500)})
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	mustGet(t, s, keys[0]) // the table is open
	s.nearAfter.Store(0)
	return s, d, keys
}

// A disk that takes long to say that it cannot read is slow.
func TestADiskThatIsSlowToFailIsSlow(t *testing.T) {
	s, d, keys := openMoody(t)
	d.pause.Store(int64(20 * time.Millisecond))
	d.fails.Store(true)
	for name, read := range map[string]func() error{
		"get": func() error {
			return s.GetNear(keys[200:201], func(int, []byte, bool, rows.Ticket) bool { return true })
		},
		"scan": func() error {
			_, err := s.ScanNear(keys[300], nil, false, func(_, _ []byte) bool { return true })
			return err
		},
	} {
		s.nearAfter.Store(0)
		if err := read(); !errors.Is(err, syscall.EMFILE) || s.IsNear() {
			t.Errorf("%s: %v, and the disk is near: %v", name, err, s.IsNear())
		}
	}
	d.pause.Store(0)
	d.fails.Store(false)
	mustClose(t, s)
}

// One who has waited a little does not end the pause that another's long wait has begun.
func TestAShortWaitEndsNoLongPause(t *testing.T) {
	s, d, keys := openMoody(t)
	visiting, goOn, done := make(chan bool), make(chan bool), make(chan error)
	d.pause.Store(int64(4 * nearTime))
	go func() {
		done <- s.GetNear(keys[100:101], func(int, []byte, bool, rows.Ticket) bool {
			close(visiting)
			<-goOn
			return true
		})
	}()
	<-visiting
	s.nearAfter.Store(int64(time.Hour))
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if after := time.Duration(s.nearAfter.Load()); after != time.Hour {
		t.Errorf("a pause of an hour was cut to %v", after)
	}
	mustClose(t, s)
}

// stuckTables is a disk that answers no read of a table until it is free.
type stuckTables struct {
	free chan struct{}
	now  atomic.Int64 // how many wait for it
}

func (*stuckTables) String() string { return "stuck tables" }

func (d *stuckTables) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileReadAt && isTable(op) {
		d.now.Add(1)
		<-d.free
		d.now.Add(-1)
	}
	return nil
}

// Each who waits for a disk takes a thread, of which there are not as many as clients.
func TestFewWaitForADisk(t *testing.T) {
	disk := &stuckTables{free: make(chan struct{})}
	close(disk.free)
	o := tiny(errorfs.Wrap(vfs.NewMem(), disk))
	o.BlockCacheBytes = 1 << 20 // for the indexes of tables
	s := mustOpen(t, o)
	const readers = 4 * mostReading
	key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
	for i := range readers {
		mustCommit(t, s, write{key(i), bytes.Repeat(key(i), 1024)}) // no two in one block
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	if err := s.Scan(nil, nil, false, func(_, _ []byte) bool { return true }); err != nil { // who comes first would open the tables for all
		t.Fatal(err)
	}
	disk.free = make(chan struct{})
	var reading sync.WaitGroup
	for i := range readers {
		reading.Go(func() {
			var got []byte
			var err error
			switch i % 3 {
			case 0:
				got, _, err = s.Get(key(i), nil)
			case 1:
				err = s.Scan(key(i), key(i+1), false, func(_, value []byte) bool {
					got = bytes.Clone(value)
					return true
				})
			default:
				err = s.GetMany([][]byte{key(i)}, func(_ int, value []byte, _ bool, _ rows.Ticket) bool {
					got = bytes.Clone(value)
					return true
				})
			}
			if err != nil || !bytes.Equal(got, bytes.Repeat(key(i), 1024)) {
				t.Errorf("%s is read as %d bytes, %v", key(i), len(got), err)
			}
		})
	}
	for began := time.Now(); disk.now.Load() < mostReading && time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
	}
	time.Sleep(20 * time.Millisecond) // more would come now
	if n := disk.now.Load(); n != mostReading {
		t.Errorf("%d of %d wait for the disk, want %d", n, readers, mostReading)
	}
	close(disk.free)
	reading.Wait()
}
