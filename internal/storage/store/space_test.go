package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// smallDisk is a disk in memory that has room for so many bytes.
type smallDisk struct {
	vfs.FS
	total int64
	mu    sync.Mutex
	files map[string]int64 // sizes
	used  int64
}

func newSmallDisk(total int64) *smallDisk {
	return &smallDisk{FS: vfs.NewMem(), total: total, files: map[string]int64{}}
}

// growFile makes a file larger, if there is room for that.
func (d *smallDisk) growFile(name string, to int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	more := to - d.files[name]
	if more <= 0 {
		return nil
	}
	if d.used+more > d.total {
		return syscall.ENOSPC
	}
	d.files[name] = to
	d.used += more
	return nil
}

func (d *smallDisk) forgetFile(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used -= d.files[name]
	delete(d.files, name)
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return vfs.DiskUsage{AvailBytes: uint64(d.total - d.used), TotalBytes: uint64(d.total), UsedBytes: uint64(d.used)}, nil
}

func (d *smallDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	d.forgetFile(name)
	return &smallFile{File: f, disk: d, name: name}, nil
}

func (d *smallDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, o...)
	if err != nil {
		return nil, err
	}
	return &smallFile{File: f, disk: d, name: name}, nil
}

func (d *smallDisk) Remove(name string) error {
	err := d.FS.Remove(name)
	if err == nil {
		d.forgetFile(name)
	}
	return err
}

func (d *smallDisk) Rename(from, to string) error {
	err := d.FS.Rename(from, to)
	if err == nil {
		d.forgetFile(to)
		d.mu.Lock()
		d.files[to] = d.files[from]
		delete(d.files, from)
		d.mu.Unlock()
	}
	return err
}

type smallFile struct {
	vfs.File
	disk *smallDisk
	name string
	at   int64
}

func (f *smallFile) Write(p []byte) (int, error) {
	if err := f.disk.growFile(f.name, f.at+int64(len(p))); err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	f.at += int64(n)
	return n, err
}

func (f *smallFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.disk.growFile(f.name, off+int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

// commitUntilFull commits rows until they are refused for good, and returns how many there are.
func commitUntilFull(t *testing.T, s *Store, value []byte) (rows int, refused error) {
	t.Helper()
	for tries := 0; tries < 20; {
		err := commitWrites(s, rowWrite{fmt.Appendf(nil, "k%06d", rows), value})
		switch {
		case err == nil:
			rows, tries = rows+1, 0
		case !errors.Is(err, ErrDiskFull):
			t.Fatal(err)
		default:
			refused = err
			tries++
			time.Sleep(time.Millisecond) // what is merged may leave room
		}
	}
	return rows, refused
}

// waitForRoom waits until an ordinary commit is accepted.
func waitForRoom(t *testing.T, s *Store, value []byte) {
	t.Helper()
	var err error
	eventually.Holds(t, "a commit is accepted", func() bool {
		err = commitWrites(s, rowWrite{[]byte("again"), value})
		return !errors.Is(err, ErrDiskFull)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func randomBytes(n int) []byte {
	b, x := make([]byte, n), uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

func TestStore_FullDisk_OpensAndIsEmptiedAgain(t *testing.T) {
	const total = 32 << 20
	disk := newSmallDisk(total)
	o := Options{Dir: "s", FS: disk, Durability: wal.Never, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20}
	s := mustOpen(t, o)
	value := randomBytes(5000)
	rows, refused := commitUntilFull(t, s, value)
	if rows*len(value) < total/3 {
		t.Errorf("a disk of %d bytes has room for %d rows of %d", total, rows, len(value))
	}
	var full *FullError
	if !errors.As(refused, &full) || full.Need <= full.Free || !strings.Contains(refused.Error(), fmt.Sprint(full.Need)) || !strings.Contains(refused.Error(), "delete keys") {
		t.Errorf("the refusal says %v", refused)
	}
	if err := s.Close(); err != nil && !errors.Is(err, ErrDiskFull) { // a compaction may have met it just now
		t.Fatal(err)
	}
	s = mustOpen(t, o)
	for i := range rows {
		if v, ok, err := s.Get(fmt.Appendf(nil, "k%06d", i), nil); !ok || err != nil || len(v) != len(value) {
			t.Fatalf("row %d: %d bytes, %v", i, len(v), err)
		}
	}
	for i := 0; i < rows; i += 2 {
		if _, err := s.Commit(true, newEntry(encodeWrites(rowWrite{key: fmt.Appendf(nil, "k%06d", i)}))); err != nil {
			t.Fatalf("delete %d of %d: %v", i, rows, err)
		}
	}
	waitForRoom(t, s, value)
	if err := s.DropRange(context.Background(), []byte("k"), []byte("l")); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "three fifths of the disk are free", func() bool {
		u, _ := disk.GetDiskUsage("")
		return u.UsedBytes < total*2/5 // log, reserve, and a garbage too small to be compacted
	})
	mustClose(t, s)
}

// Deletes on a full disk give room back though nothing else is written.
func TestStore_FullDisk_DeletesAloneGiveRoomBack(t *testing.T) {
	const total = 32 << 20
	disk := newSmallDisk(total)
	s := mustOpen(t, Options{Dir: "s", FS: disk, Durability: wal.Never, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20})
	rows, _ := commitUntilFull(t, s, randomBytes(5000))
	eventually.Holds(t, "the search for room that the refusals began has ended", func() bool { return !s.reclaimer.running.Load() })
	u, _ := disk.GetDiskUsage("")
	ballast := int64(u.AvailBytes / 2) // of another program: the disk stays full while rows are deleted
	if err := disk.growFile("ballast", ballast); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if _, err := s.Commit(true, newEntry(encodeWrites(rowWrite{key: fmt.Appendf(nil, "k%06d", i)}))); err != nil {
			t.Fatalf("delete %d of %d: %v", i, rows, err)
		}
	}
	eventually.Holds(t, "half of the disk is free", func() bool {
		u, _ := disk.GetDiskUsage("")
		return int64(u.UsedBytes)-ballast < total/2
	})
	mustClose(t, s)
}

// Deletes on a small disk that has room left give theirs back too, though nothing else is written.
func TestStore_SmallDisk_DeletesAloneGiveRoomBack(t *testing.T) {
	const total, rows = 48 << 20, 5000
	disk := newSmallDisk(total)
	s := mustOpen(t, Options{Dir: "s", FS: disk, Durability: wal.Never, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20})
	value := randomBytes(5000)
	for i := range rows {
		if _, err := s.Commit(true, newEntry(encodeWrites(rowWrite{key: fmt.Appendf(nil, "k%06d", i), value: value}))); err != nil {
			t.Fatalf("write %d of %d: %v", i, rows, err)
		}
	}
	var deletes []rowWrite
	for i := range rows {
		deletes = append(deletes, rowWrite{key: fmt.Appendf(nil, "k%06d", i)})
	}
	if _, err := s.Commit(true, newEntry(encodeWrites(deletes...))); err != nil { // small enough to stay in memory
		t.Fatal(err)
	}
	eventually.Holds(t, "half of the disk is free", func() bool {
		u, _ := disk.GetDiskUsage("")
		return u.UsedBytes < total/2
	})
	mustClose(t, s)
}

// The reserve is released for deletes: ordinary commits do not use it up before it is made again.
func TestStore_FullDisk_ReleasedReserveIsNotForWrites(t *testing.T) {
	const total = 32 << 20
	s := mustOpen(t, Options{Dir: "s", FS: newSmallDisk(total), Durability: wal.Never, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20})
	need := func() int64 { // free, of an ordinary commit that is too large for the disk
		var full *FullError
		if err := s.checkFreeBytes(total); !errors.As(err, &full) {
			t.Fatal(err)
		}
		return full.Need
	}
	eventually.Holds(t, "the reserve is made", func() bool { return s.reserveSize.Load() > 0 })
	before := need()
	if !s.releaseReserve() {
		t.Fatal("there is no reserve")
	}
	if now := need(); now != before+s.reserveFileBytes() {
		t.Errorf("a commit needs %d bytes free without the reserve, %d with it", now, before)
	}
	s.makeReserve()
	if now := need(); now != before {
		t.Errorf("a commit needs %d bytes free with a new reserve, %d before", now, before)
	}
	mustClose(t, s)
}

// Level 0 keeps room for as long as it is there, though nothing is applied after it was merged.
func TestStore_FullDisk_MergedLevel0KeepsNoRoom(t *testing.T) {
	s := mustOpen(t, Options{Dir: "s", FS: newSmallDisk(32 << 20), Durability: wal.Never, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20})
	s.applier.level0Bytes.Store(1 << 30) // as it was at the last look
	if s.checkFreeBytes(0) == nil {
		t.Fatal("level 0 keeps no room")
	}
	eventually.Holds(t, "an ordinary commit has room", func() bool { return s.checkFreeBytes(0) == nil })
	mustClose(t, s)
}

func TestStore_DropRange_RemovesRowsAndGivesMemoryBack(t *testing.T) {
	fsys := vfs.NewMem()
	o := Options{Dir: "s", FS: fsys, Durability: wal.Never, CacheBytes: 64 << 20, SegmentBytes: 1 << 20, BlockCacheBytes: 1 << 20}
	s := mustOpen(t, o)
	rows := tally.Size(20_000, 4_000)
	for i := 0; i < rows; i += 100 {
		var ws []rowWrite
		for j := range 100 {
			ws = append(ws, rowWrite{fmt.Appendf(nil, "a%06d", i+j), make([]byte, 1000)})
		}
		if err := commitWrites(s, ws...); err != nil {
			t.Fatal(err)
		}
	}
	if err := commitWrites(s, rowWrite{[]byte("b"), []byte("stays")}); err != nil {
		t.Fatal(err)
	}
	before, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	held := s.Metrics().Cache.SlabBytes
	if err := s.DropRange(context.Background(), []byte("a"), []byte("b")); err != nil {
		t.Fatal(err)
	}
	if now := s.Metrics().Cache; now.Rows > rows/100 || now.SlabBytes > held && held > 0 {
		t.Errorf("%d rows are in memory that takes %d bytes, and took %d", now.Rows, now.SlabBytes, held)
	}
	seen := 0
	if err := before.Scan([]byte("a"), []byte("b"), false, func(_, _ []byte) bool { seen++; return true }); err != nil || seen != rows {
		t.Errorf("a snapshot sees %d rows of %d, %v", seen, rows, err)
	}
	before.Close()
	check := func() {
		t.Helper()
		left := 0
		if err := s.Scan([]byte("a"), []byte("b"), false, func(_, _ []byte) bool { left++; return true }); err != nil || left != 0 {
			t.Errorf("%d rows are left, %v", left, err)
		}
		if _, ok, err := s.Get([]byte("a000001"), nil); ok || err != nil {
			t.Errorf("a row that was dropped is there, %v", err)
		}
		if v, ok, err := s.Get([]byte("b"), nil); !ok || err != nil || string(v) != "stays" {
			t.Errorf("another row is %q, %v", v, err)
		}
	}
	check()
	mustClose(t, s)
	s = mustOpen(t, o)
	check()
	mustClose(t, s)
}
