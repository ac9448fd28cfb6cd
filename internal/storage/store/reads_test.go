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

	"github.com/cleavekv/cleave/internal/storage/rowcache"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

func TestWarmMakesRowsKnownAsTheyAre(t *testing.T) {
	o := tinyOptions(vfs.NewMem())
	o.CacheBytes = 1 << 20
	s := mustOpen(t, o)
	const n = 200
	key := func(i int) []byte { return fmt.Appendf(nil, "key%03d", i) }
	for i := range n {
		mustCommit(t, s, rowWrite{key(i), fmt.Append(nil, i)})
	}
	mustCommit(t, s, rowWrite{key(7), nil})
	for _, together := range []int{1, 3, n + 10} { // few are read one by one
		mustClose(t, s)
		s = mustOpen(t, o)
		// What is committed while rows are read is newer than what was read.
		s.hooks.afterRead = func() {
			s.hooks.afterRead = nil
			mustCommit(t, s, rowWrite{key(0), []byte("newer")})
		}
		var keys [][]byte
		for i := range n + 10 {
			keys = append(keys, key(i))
		}
		for rest := keys; len(rest) > 0; rest = rest[min(together, len(rest)):] {
			s.Prefetch(rest[:min(together, len(rest))]...)
		}
		if m := s.Metrics().Cache.Misses; m != uint64(len(keys)) {
			t.Errorf("%d together: %d misses for %d rows that were not in memory", together, m, len(keys))
		}
		unknown := 0
		for i, k := range keys {
			want := fmt.Sprint(i)
			switch {
			case i == 0:
				want = "newer"
			case i == 7 || i >= n:
				want = ""
			}
			value, found, known := s.Lookup(k, nil)
			if known != isCached(s, k) {
				t.Errorf("%d together: %s is known: %v and %v", together, k, known, !known)
			}
			if !known {
				unknown++ // the commit has voided its ticket too
				continue
			}
			if string(value) != want || found != (want != "") {
				t.Errorf("%d together: %s is %q, %v, %v; want %q", together, k, value, found, known, want)
			}
		}
		if unknown > n/4 {
			t.Errorf("%d together: %d of %d rows are not known", together, unknown, len(keys))
		}
	}
	mustClose(t, s)
	s.Prefetch(key(1)) // closed: nothing happens
}

func TestGetManyIsGetForEach(t *testing.T) {
	o := tinyOptions(vfs.NewMem())
	o.CacheBytes = 1 << 20
	s := mustOpen(t, o)
	const n = 200
	key := func(i int) []byte { return fmt.Appendf(nil, "key%03d", i) }
	for i := range n {
		mustCommit(t, s, rowWrite{key(i), fmt.Append(nil, i)})
	}
	mustCommit(t, s, rowWrite{key(7), nil})
	for _, together := range []int{1, 3, 40, 500} {
		mustClose(t, s)
		s = mustOpen(t, o)
		// What is committed while rows are read is newer than what was read.
		s.hooks.afterRead = func() {
			s.hooks.afterRead = nil
			mustCommit(t, s, rowWrite{key(0), []byte("0")}, rowWrite{key(199), []byte("199")})
		}
		for round := range 2 { // some are in memory in the second
			for first := 0; first < n+10; first += together {
				var keys [][]byte
				for i := min(first+together, n+10) - 1; i >= first; i-- {
					keys = append(keys, key(i))
				}
				told := map[int]string{}
				var first rowcache.Ticket
				if err := s.GetMany(keys, false, func(i int, value []byte, ok bool, ticket rowcache.Ticket) bool {
					if round == 1 && !s.IsCurrent(ticket) {
						t.Errorf("key %d has changed, but nobody has committed anything", i)
					}
					if i == 0 {
						first = ticket
					}
					if _, again := told[i]; again {
						t.Errorf("key %d is told twice", i)
					}
					told[i] = fmt.Sprint(string(value), ok)
					return true
				}); err != nil {
					t.Fatal(err)
				}
				value, ok, _ := s.Get(keys[0], nil)
				if ok {
					if mustCommit(t, s, rowWrite{keys[0], value}); s.IsCurrent(first) {
						t.Errorf("%s was written, and seems to be as it was", keys[0])
					}
				}
				for i, k := range keys {
					value, ok, err := s.Get(k, nil)
					if want := fmt.Sprint(string(value), ok); err != nil || told[i] != want {
						t.Errorf("round %d, %d together: %s is %q, want %q", round, together, k, told[i], want)
					}
				}
			}
		}
	}
	mustClose(t, s)
	if err := s.GetMany([][]byte{key(1)}, false, func(int, []byte, bool, rowcache.Ticket) bool {
		t.Error("a closed store tells something")
		return true
	}); err == nil {
		t.Error("a closed store reads")
	}
}

// slowTables is a disk on which tables take long to read.
type slowTables struct{}

func (slowTables) String() string { return "slow tables" }

func (slowTables) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
		time.Sleep(2 * fastReadTime)
	}
	return nil
}

func TestWhoMustNotWaitForADiskDoesSoOnce(t *testing.T) {
	o := tinyOptions(errorfs.Wrap(vfs.NewMem(), slowTables{}))
	o.BlockCacheBytes = 4 << 20 // for all blocks, while there is room for some rows only
	s := mustOpen(t, o)
	const n = 400
	var keys [][]byte
	for i := range n {
		keys = append(keys, fmt.Appendf(nil, "key%03d", i))
		mustCommit(t, s, rowWrite{keys[i], make([]byte, 500)})
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	near := func(keys [][]byte) (visited int) {
		t.Helper()
		if err := s.GetMany(keys, true, func(i int, value []byte, ok bool, _ rowcache.Ticket) bool {
			if visited++; !ok || len(value) != 500 {
				t.Errorf("%s is %d bytes, %v", keys[i], len(value), ok)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return visited
	}
	from := time.Since(s.openedAt)
	if got := near(keys); got == 0 || got > n/4 {
		t.Errorf("%d of %d rows are near on a slow disk", got, n)
	}
	to := time.Since(s.openedAt)
	if after := time.Duration(s.fastAfter.Load()); after < from+slowPauseFactor*fastReadTime || after > to+slowPauseFactor*(to-from) {
		t.Errorf("nothing is near until %v after a read from %v to %v", after, from, to)
	}
	s.fastAfter.Add(int64(time.Hour)) // this machine may be slow
	if got := near(keys[n/2:]); got != 0 {
		t.Errorf("right after that %d rows are near", got)
	}
	s.fastAfter.Store(0) // some time later
	if err := s.GetMany(keys[:n/2], false, func(int, []byte, bool, rowcache.Ticket) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(keys[:n/2], func(k []byte) bool { return !isCached(s, k) }) {
		t.Error("all rows are in memory: what was read is not what blocks have")
	}
	if got := near(keys[:n/2]); got != n/2 {
		t.Errorf("%d of %d rows are near whose blocks were just read", got, n/2)
	}
}

// So it is with a scan.
func TestAScanThatMustNotWaitForADiskDoesSoOnce(t *testing.T) {
	o := tinyOptions(errorfs.Wrap(vfs.NewMem(), slowTables{}))
	o.BlockCacheBytes = 4 << 20
	s := mustOpen(t, o)
	const n = 400
	for i := range n {
		mustCommit(t, s, rowWrite{fmt.Appendf(nil, "key%03d", i), make([]byte, 500)})
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	scan := func() (visited int, near bool) {
		t.Helper()
		near, err := s.ScanNonBlocking([]byte("key"), []byte("kez"), false, func([]byte, []byte) bool { visited++; return true })
		if err != nil {
			t.Fatal(err)
		}
		return visited, near
	}
	if got, near := scan(); near || got > n/4 {
		t.Errorf("%d of %d rows are visited on a slow disk, which is near: %v", got, n, near)
	}
	s.fastAfter.Add(int64(time.Hour)) // this machine may be slow
	if got, near := scan(); near || got != 0 {
		t.Errorf("right after that %d rows are visited", got)
	}
	s.fastAfter.Store(0) // some time later
	if err := s.Scan([]byte("key"), []byte("kez"), false, func([]byte, []byte) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if got, near := scan(); !near || got != n {
		t.Errorf("%d of %d rows are visited whose blocks were just read, which is near: %v", got, n, near)
	}
}

func isCached(s *Store, key []byte) bool {
	_, known := s.LookupSize(key)
	return known
}

// It does so once also if few rows are far that are behind others which are near.
func TestAScanOfFewLargeRowsFindsOutThatADiskIsSlow(t *testing.T) {
	const rows, size = 8, 20_000
	o := tinyOptions(errorfs.Wrap(vfs.NewMem(), slowTables{}))
	o.BlockCacheBytes = 4 << 20
	s := mustOpen(t, o)
	key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
	for i := range rows {
		mustCommit(t, s, rowWrite{key(i), bytes.Repeat(key(i), size/4)})
	}
	mustClose(t, s)
	for far := 1; far < rows; far++ { // how many of them there are in front that are near
		s = mustOpen(t, o)
		for i := range far {
			mustGetRow(t, s, key(i))
		}
		visited := 0
		near, err := s.ScanNonBlocking(nil, nil, false, func(_, _ []byte) bool {
			visited++
			return true
		})
		if err != nil || s.IsStorageFast() || visited < far || visited > far+1 {
			t.Errorf("behind %d rows that are near the disk is taken for near: %v; visited were %d, near %v, %v", far, s.IsStorageFast(), visited, near, err)
		}
		mustClose(t, s)
	}
}

// flakyTables is a disk whose reads of tables take as long as set, and may fail then.
// It does so for want of files, of which no store dies: Pebble may read as well just then.
type flakyTables struct {
	pause atomic.Int64
	fails atomic.Bool
}

func (*flakyTables) String() string { return "moody tables" }

func (d *flakyTables) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileReadAt && isTableOp(op) {
		time.Sleep(time.Duration(d.pause.Load()))
		if d.fails.Load() {
			return syscall.EMFILE
		}
	}
	return nil
}

// openFlakyStore opens a store of rows on such a disk, of which none is in memory.
func openFlakyStore(t *testing.T) (*Store, *flakyTables, [][]byte) {
	t.Helper()
	d := new(flakyTables)
	o := tinyOptions(errorfs.Wrap(vfs.NewMem(), d))
	o.BlockCacheBytes = 4 << 20
	s := mustOpen(t, o)
	var keys [][]byte
	for i := range 400 {
		keys = append(keys, fmt.Appendf(nil, "key%03d", i))
		mustCommit(t, s, rowWrite{keys[i], make([]byte, 500)})
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	mustGetRow(t, s, keys[0]) // the table is open
	s.fastAfter.Store(0)
	return s, d, keys
}

// A disk that takes long to say that it cannot read is slow.
func TestADiskThatIsSlowToFailIsSlow(t *testing.T) {
	s, d, keys := openFlakyStore(t)
	d.pause.Store(int64(20 * time.Millisecond))
	d.fails.Store(true)
	for name, read := range map[string]func() error{
		"get": func() error {
			return s.GetMany(keys[200:201], true, func(int, []byte, bool, rowcache.Ticket) bool { return true })
		},
		"scan": func() error {
			_, err := s.ScanNonBlocking(keys[300], nil, false, func(_, _ []byte) bool { return true })
			return err
		},
	} {
		s.fastAfter.Store(0)
		if err := read(); !errors.Is(err, syscall.EMFILE) || s.IsStorageFast() {
			t.Errorf("%s: %v, and the disk is near: %v", name, err, s.IsStorageFast())
		}
	}
	d.pause.Store(0)
	d.fails.Store(false)
	mustClose(t, s)
}

// A reader that has waited a little does not end the pause that another's long wait has begun.
func TestAShortWaitEndsNoLongPause(t *testing.T) {
	s, d, keys := openFlakyStore(t)
	visiting, goOn, done := make(chan bool), make(chan bool), make(chan error)
	d.pause.Store(int64(4 * fastReadTime))
	go func() {
		done <- s.GetMany(keys[100:101], true, func(int, []byte, bool, rowcache.Ticket) bool {
			close(visiting)
			<-goOn
			return true
		})
	}()
	<-visiting
	s.fastAfter.Store(int64(time.Hour))
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if after := time.Duration(s.fastAfter.Load()); after != time.Hour {
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
	if op.Kind == errorfs.OpFileReadAt && isTableOp(op) {
		d.now.Add(1)
		<-d.free
		d.now.Add(-1)
	}
	return nil
}

// Each reader that waits for a disk takes a thread, of which there are not as many as clients.
func TestFewWaitForADisk(t *testing.T) {
	disk := &stuckTables{free: make(chan struct{})}
	close(disk.free)
	o := tinyOptions(errorfs.Wrap(vfs.NewMem(), disk))
	o.BlockCacheBytes = 1 << 20 // for the indexes of tables
	s := mustOpen(t, o)
	const readers = 4 * maxTableReads
	key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
	for i := range readers {
		mustCommit(t, s, rowWrite{key(i), bytes.Repeat(key(i), 1024)}) // no two in one block
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	if err := s.Scan(nil, nil, false, func(_, _ []byte) bool { return true }); err != nil { // the first reader would open the tables for all
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
				err = s.GetMany([][]byte{key(i)}, false, func(_ int, value []byte, _ bool, _ rowcache.Ticket) bool {
					got = bytes.Clone(value)
					return true
				})
			}
			if err != nil || !bytes.Equal(got, bytes.Repeat(key(i), 1024)) {
				t.Errorf("%s is read as %d bytes, %v", key(i), len(got), err)
			}
		})
	}
	eventually.Holds(t, "as many as may wait for the disk do", func() bool { return disk.now.Load() >= maxTableReads })
	time.Sleep(20 * time.Millisecond) // more would come now
	if n := disk.now.Load(); n != maxTableReads {
		t.Errorf("%d of %d wait for the disk, want %d", n, readers, maxTableReads)
	}
	close(disk.free)
	reading.Wait()
}
