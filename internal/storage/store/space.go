package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Room on the disk is shared out so that a full one can be emptied again: commits leave what it takes
// to flush all that is in the log, to merge level 0 of the tables, and a reserve; compactions leave
// what it takes to flush; and flushes leave what it takes to write the manifest, whose failure ends the
// store. Level 0 comes first: as long as Pebble finds no room to merge that, it compacts nothing else.
const (
	// reserveSegments is the room, in segments, that ordinary commits leave: for the log, tables and
	// compactions of what deletes.
	reserveSegments = 4
	// minReserveBytes is that room where segments are small.
	minReserveBytes = 4 << 20
	// manifestReserveBytes is what tables leave of the disk.
	manifestReserveBytes = 1 << 20
	// freeBytesTTL is for how long the disk is believed to have the room that it had.
	freeBytesTTL = 10 * time.Millisecond
)

// FullError reports how much room a commit needs on the disk, and how much there is. It matches
// [ErrDiskFull].
type FullError struct {
	Dir        string
	Need, Free int64
}

// Error returns what to do.
func (e *FullError) Error() string {
	return fmt.Sprintf("the disk is full: a write needs %d bytes free on the disk of %s, with what is kept for deletes, and %d are: delete keys, which works, or free space there",
		e.Need, e.Dir, e.Free)
}

// Is makes every FullError match [ErrDiskFull].
func (e *FullError) Is(target error) bool { return target == ErrDiskFull }

// diskSpace knows how much room the disk has.
type diskSpace struct {
	fs        vfs.FS
	dir       string
	free      atomic.Int64 // at the last look
	checkedAt atomic.Int64 // when that was, since began
}

var processStart = time.Now()

// freeBytes returns how much room the disk has, or had a moment ago. It is not known of every file
// system.
func (s *diskSpace) freeBytes() (free int64, known bool) {
	now := int64(time.Since(processStart)) + 1
	if at := s.checkedAt.Load(); at != 0 && now-at < int64(freeBytesTTL) {
		free = s.free.Load()
		return free, free >= 0
	}
	free = -1
	if u, err := s.fs.GetDiskUsage(s.dir); err == nil {
		free = int64(min(u.AvailBytes, math.MaxInt64))
	}
	s.free.Store(free)
	s.checkedAt.Store(now)
	return free, free >= 0
}

// unflushedBytes is about how much room flushes take until the tables have all of the log.
func (s *Store) unflushedBytes() int64 {
	return s.chunks.payloadBytes.Load() + s.applier.unflushedRowBytes.Load()
}

// reservedBytes is the room of the disk that ordinary commits leave.
func (s *Store) reservedBytes() int64 {
	return s.unflushedBytes() + s.applier.level0Bytes.Load() + max(reserveSegments*s.opts.SegmentBytes, minReserveBytes)
}

// checkFreeBytes refuses an ordinary commit of so many bytes if the disk has no room for it and for what
// is kept.
func (s *Store) checkFreeBytes(bytes int64) error {
	if free, known := s.space.freeBytes(); known {
		if bytes > s.opts.SegmentBytes {
			bytes *= 2 // it is in a segment of its own, too
		}
		need := s.reservedBytes() + bytes
		if s.lacksReserve.Load() {
			need += s.reserveFileBytes() // or writes would use up what was released for deletes
		}
		if free < need {
			return &FullError{Dir: s.opts.Dir, Need: need, Free: free}
		}
	}
	if s.isDiskFull() {
		return s.health.shortage()
	}
	return nil
}

// hasSpaceToFlush reports whether the disk has room for what is applied and these chunks.
func (s *Store) hasSpaceToFlush(cs []*chunk) bool {
	free, known := s.space.freeBytes()
	need := s.applier.unflushedRowBytes.Load() + 2*manifestReserveBytes
	for _, c := range cs {
		need += c.payloadBytes
	}
	return known && !s.health.outOfFiles.Load() && free >= need
}

// minFreeBytes returns how much of the disk a table of Pebble leaves.
func (s *Store) minFreeBytes(c vfs.DiskWriteCategory) int64 {
	if strings.Contains(string(c), "compaction") {
		return s.unflushedBytes() + s.opts.SegmentBytes + manifestReserveBytes
	}
	return manifestReserveBytes
}

// spaceCheckedFile is a table that is given up while there is still room for others.
type spaceCheckedFile struct {
	vfs.File
	space     *diskSpace
	minFree   func() int64
	unchecked int // bytes written since the last look
}

// spaceCheckBytes is how much is written between two looks.
const spaceCheckBytes = 256 << 10

func (f *spaceCheckedFile) Write(p []byte) (int, error) {
	if f.unchecked += len(p); f.unchecked >= spaceCheckBytes {
		f.unchecked = 0
		if free, known := f.space.freeBytes(); known && free < f.minFree() {
			return 0, fmt.Errorf("write a table with %d bytes free: %w", free, syscall.ENOSPC)
		}
	}
	return f.File.Write(p)
}

// measureCapacity returns how large the disk of a directory is, which need not exist yet; 0 if that is
// not known.
func measureCapacity(fsys vfs.FS, dir string) int64 {
	for {
		u, err := fsys.GetDiskUsage(dir)
		if err == nil {
			return int64(min(u.TotalBytes, math.MaxInt64))
		}
		above := fsys.PathDir(dir)
		if _, stat := fsys.Stat(dir); above == dir || !errors.Is(stat, fs.ErrNotExist) {
			return 0
		}
		dir = above
	}
}

// A file of no use keeps some room of the disk, which is there when others have filled it: it is
// removed so that the store can be opened, or tables be written that deletes go to, and made again
// when there is room.
const (
	reserveName = "RESERVE"
	// reserveBytes is its size, or that of the tables if they are smaller, as deletes are no more than
	// what they delete. minReserveFileBytes is more than Pebble needs to be opened. reserveShare is which
	// part of a small disk it takes at most.
	reserveBytes        = 8 << 20
	minReserveFileBytes = 2 << 20
	reserveShare        = 8
	reserveWriteBytes   = 1 << 20
)

// releaseReserve removes the file, and reports whether there was one.
func (s *Store) releaseReserve() bool {
	s.reserveMu.Lock()
	defer s.reserveMu.Unlock()
	if s.dir.fs.Remove(s.dir.join(reserveName)) != nil {
		return false
	}
	s.reserveSize.Store(0)
	s.lacksReserve.Store(true)
	s.space.checkedAt.Store(0) // look again
	return true
}

// makeReserve makes the file if there is none, or it is too small for what the tables are, and the disk
// has room for it. It is for the applier: if it fails, the next flush tries again.
func (s *Store) makeReserve() {
	s.reserveMu.Lock()
	defer s.reserveMu.Unlock()
	size := s.reserveFileBytes()
	free, known := s.space.freeBytes()
	if s.reserveSize.Load() >= size || !known || s.health.isImpaired() {
		return
	}
	name := s.dir.join(reserveName)
	info, err := s.dir.fs.Stat(name)
	if err == nil && info.Size() >= size {
		s.reserveSize.Store(info.Size())
		return
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) || free < size+s.reservedBytes()+s.opts.SegmentBytes {
		return
	}
	if s.writeReserve(name, size) != nil {
		_ = s.dir.fs.Remove(name) // half of it is of no use, and the next one is made anew
		return
	}
	s.reserveSize.Store(size)
	s.lacksReserve.Store(false)
}

// reserveFileBytes is how large the file is on this disk, beside these tables.
func (s *Store) reserveFileBytes() int64 {
	tables, _ := s.measureGarbage()
	size := min(reserveBytes, max(minReserveFileBytes, tables))
	if total := measureCapacity(s.opts.FS, s.opts.Dir); total > 0 {
		return min(size, total/reserveShare)
	}
	return size
}

func (s *Store) writeReserve(name string, size int64) error {
	f, err := s.dir.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	zeros := make([]byte, min(size, reserveWriteBytes))
	for ; size > 0 && err == nil; size -= int64(len(zeros)) {
		_, err = f.Write(zeros[:min(size, int64(len(zeros)))])
	}
	if err == nil {
		err = f.Sync() // some file systems find room only now
	}
	return errors.Join(err, f.Close())
}
