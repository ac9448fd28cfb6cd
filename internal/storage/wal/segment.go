package wal

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cleavekv/cleave/internal/storage/pages"
)

// Chunk is the image of one segment in memory. Payloads that the log hands out are
// views into it, valid as long as a reference to it is held.
type Chunk struct {
	log  *Log
	seg  *segment
	mem  []byte // page-aligned, as long as the segment
	refs atomic.Int32
	end  Position // end of the last frame; settled when Seal is called
}

// Retain takes another reference.
func (c *Chunk) Retain() { c.refs.Add(1) }

// Release gives a reference back. With the last one the memory is reused, which may
// let a waiting Append go on.
func (c *Chunk) Release() {
	switch n := c.refs.Add(-1); {
	case n == 0:
		c.log.releaseChunk(c)
	case n < 0:
		panic("wal: chunk released more often than retained")
	}
}

// End returns the end of the chunk's last frame. It may be called once Seal was:
// before, the frame moves on.
func (c *Chunk) End() Position { return c.end }

// SegmentBytes is how large its segment is, however little is in it.
func (c *Chunk) SegmentBytes() int { return len(c.mem) }

// acquireChunk returns memory for a segment, or nil while all chunks are in use. l.mu
// is held.
func (l *Log) acquireChunk(s *segment) *Chunk {
	if l.chunksInUse >= l.o.Chunks {
		return nil
	}
	l.chunksInUse++
	c := &Chunk{log: l, seg: s}
	c.refs.Store(1)
	if n := len(l.chunkPool); n > 0 && s.bytes > l.o.SegmentBytes/2 && s.bytes <= l.o.SegmentBytes {
		c.mem, l.chunkPool = l.chunkPool[n-1][:s.bytes], l.chunkPool[:n-1]
		return c
	}
	c.mem = newAlignedBuffer(s.bytes)
	return c
}

// releaseChunk takes the memory back. That of a segment of another size goes to the
// garbage collector.
func (l *Log) releaseChunk(c *Chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chunksInUse--
	if cap(c.mem) == l.o.SegmentBytes {
		l.chunkPool = append(l.chunkPool, c.mem)
	}
	l.stateCond.Broadcast()
}

// ReleaseMemory gives memory that holds nothing back to the operating system: that of chunks which wait
// to be used, and the rest of the one in use. Appends take it again page by page: call it while there are
// none.
func (l *Log) ReleaseMemory() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.chunkPool {
		pages.Release(b)
	}
	if l.current != nil && l.openFrame == nil {
		pages.Release(l.current.mem[alignToBlock(l.nextOffset):])
	}
}

// newAlignedBuffer returns n bytes at a page boundary, as direct I/O wants them.
func newAlignedBuffer(n int) []byte {
	b := make([]byte, n+blockBytes)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (blockBytes - 1)
	return b[skip : skip+n : skip+n]
}

// diskFullRetryPause is how often a full disk is looked at again.
const diskFullRetryPause = 100 * time.Millisecond

// zeroBuffer is what new segments are filled with, in pieces of this size.
var zeroBuffer = newAlignedBuffer(1 << 20)

// nextSegmentBytes returns how large a new segment is: as large as the log was, up to
// SegmentBytes. A power of two, so that files that were given back are of use. l.mu is held.
func (l *Log) nextSegmentBytes() int {
	n := int(min(max(l.grownBytes, firstSegmentBytes), int64(l.o.SegmentBytes)))
	if n == l.o.SegmentBytes {
		return n
	}
	return 1 << (bits.Len(uint(n)) - 1)
}

// acquireSegment returns a segment with room for entries of some size, waiting for the preparer
// if need be. If those that are ready are too small, it makes one of the entries' own: when
// the disk has no room for that, nothing was used up. l.mu is held, and released meanwhile.
func (l *Log) acquireSegment(urgent bool, size int) (*segment, error) {
	bytes := blockBytes + alignToBlock(frameHeader+size) + blockBytes
	for waited := false; ; waited = true {
		if err := l.checkOpen(); err != nil {
			return nil, err
		}
		if bytes > l.o.SegmentBytes || len(l.ready) > 0 && bytes > l.ready[0].bytes {
			return l.makeLargeSegment(bytes)
		}
		// The reserve is for urgent entries. The first segment of all does not wait
		// for it to be filled, so that a new log can be used at once.
		if n := len(l.ready); n > l.o.Reserve || n > 0 && (urgent || l.begunSequence == 0 && !l.diskFull) {
			s := l.ready[0]
			l.ready = l.ready[1:]
			l.currentReserved = urgent && n <= l.o.Reserve
			l.preparerCond.Signal()
			return s, nil
		}
		if l.diskFull {
			return nil, l.shortage
		}
		if !waited {
			l.counters.SegmentWaits++
		}
		l.stateCond.Wait()
	}
}

// makeLargeSegment makes a segment for a frame that is larger than those that are ready. The
// segments that were named for use before it get new names. l.mu is held, and
// released meanwhile.
func (l *Log) makeLargeSegment(bytes int) (*segment, error) {
	size := bytes
	if size <= l.o.SegmentBytes {
		size = min(1<<bits.Len(uint(size-1)), l.o.SegmentBytes) // of use to others later
	}
	s, err := l.makeSegment(size)
	if lack := ShortageOf(err); lack != nil {
		return nil, fmt.Errorf("%w: no room for an entry of %d bytes", lack, bytes)
	}
	if err != nil {
		l.setFailed(err)
		return nil, l.failed
	}
	if err := l.checkOpen(); err != nil {
		l.spare = append(l.spare, s)
		return nil, err
	}
	l.begunSequence = s.sequence
	l.spare = append(l.spare, l.ready...)
	l.ready, l.currentReserved = nil, false
	l.preparerCond.Signal()
	return s, nil
}

// runPreparer keeps segments ready, in one goroutine: it renames those that were given
// back and fills new files with zeros.
func (l *Log) runPreparer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.checkOpen() == nil {
		var err error
		switch s := l.popReusableSpare(); {
		case s != nil:
			err = l.reuseSpare(s)
		case l.findRemovableSpare() >= 0:
			err = l.removeSpare()
		case len(l.ready) <= l.o.Reserve:
			err = l.makeReadySegment()
		default:
			l.preparerCond.Wait()
		}
		switch lack := ShortageOf(err); {
		case lack != nil && errors.Is(err, lack):
			l.waitForResources(err) // it says how much is missing
		case lack != nil:
			l.waitForResources(fmt.Errorf("%w: %w", lack, err))
		case err != nil:
			l.setFailed(err)
		}
	}
}

// waitForResources reports that the disk is full, or what else is lacking, and comes back after a
// while or when a segment was given back. l.mu is held.
func (l *Log) waitForResources(lack error) {
	l.diskFull, l.shortage = true, lack
	l.stateCond.Broadcast()
	timer := time.AfterFunc(diskFullRetryPause, func() {
		l.mu.Lock() // or it could come before the Wait
		defer l.mu.Unlock()
		l.preparerCond.Broadcast()
	})
	l.preparerCond.Wait()
	timer.Stop()
}

// addReady adds a segment to those that are ready, unless a later one is in use
// already. l.mu is held.
func (l *Log) addReady(s *segment) {
	if s.sequence < l.begunSequence {
		l.spare = append(l.spare, s)
		return
	}
	l.ready = append(l.ready, s)
	l.diskFull = l.diskFull && len(l.ready) <= l.o.Reserve
	l.stateCond.Broadcast()
}

// nextSequence returns a sequence that no file had before. l.mu is held.
func (l *Log) nextSequence() (uint32, error) {
	if l.maxSequence == math.MaxUint32 { // after 128 PiB of log at the default size
		return 0, errors.New("sequences are used up: restore a backup into a new directory")
	}
	l.maxSequence++
	return l.maxSequence, nil
}

// makeReadySegment makes a new segment. l.mu is held, and released meanwhile.
func (l *Log) makeReadySegment() error {
	s, err := l.makeSegment(l.nextSegmentBytes())
	if err != nil {
		return err
	}
	l.addReady(s)
	return nil
}

// makeSegment creates a file of real zeros and gives it its name when they are
// durable. So a file with a segment's name always has all of its blocks. l.mu is
// held, and released meanwhile.
func (l *Log) makeSegment(bytes int) (*segment, error) {
	sequence, err := l.nextSequence()
	if err != nil {
		return nil, err
	}
	l.mu.Unlock()
	defer l.mu.Lock()
	free, err := l.o.FS.Free()
	if err != nil {
		return nil, err
	}
	if free < int64(bytes)+l.o.MinFree {
		return nil, fmt.Errorf("%w: %d bytes are free, a segment takes %d and %d are left to others", ErrDiskFull, free, bytes, l.o.MinFree)
	}
	name := zeroingName(sequence)
	if err := l.writeZeros(name, bytes); err != nil {
		// The half-made file is of no use; if it cannot be removed the next Open will.
		return nil, errors.Join(err, l.o.FS.Remove(name))
	}
	s, err := l.renameSegment(name, sequence, bytes)
	switch {
	case err == nil:
		return s, nil
	case s == nil:
		return nil, errors.Join(err, l.o.FS.Remove(name))
	}
	l.mu.Lock()
	l.spare = append(l.spare, s) // it has its name, and is of use when what lacked is there
	l.mu.Unlock()
	return nil, err
}

func (l *Log) writeZeros(name string, bytes int) error {
	file, err := l.o.FS.Create(name)
	if err != nil {
		return err
	}
	for off := 0; off < bytes && err == nil; off += len(zeroBuffer) {
		_, err = file.WriteAt(zeroBuffer[:min(len(zeroBuffer), bytes-off)], int64(off))
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// renameSegment gives a file the name under which it is used next, durably: bytes of that
// sequence are only ever written to a file that has the name for good, and that the
// manifest names. If it fails when the
// file has been renamed already, it returns that too: it must get another name before its use.
func (l *Log) renameSegment(from string, sequence uint32, bytes int) (*segment, error) {
	s := &segment{sequence: sequence, name: segmentName(sequence), bytes: bytes}
	if err := l.o.FS.Rename(from, s.name); err != nil {
		return nil, err
	}
	if err := l.o.FS.SyncDir(); err != nil {
		return s, err
	}
	file, err := l.o.FS.Open(s.name)
	if err != nil {
		return s, err
	}
	s.file = file
	return s, l.addToManifest(s)
}

// Recycle declares that everything up to a position is durable elsewhere, and that the next Open
// gets that position. Segments below it serve ReadFrom until Retain is used up, and
// are then used again.
func (l *Log) Recycle(upTo Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applied = max(l.applied, min(upTo, l.tail))
	l.retireSegments()
}

// isRecyclable reports whether nothing in the segment is needed by a replay. The last
// segment that is known to be durable stays even if all of it was applied: without
// it an Open could not distinguish a log that was applied from one that was lost. l.mu is
// held.
func (l *Log) isRecyclable(s *segment) bool {
	if !s.sealed || l.durable.sequence() <= s.sequence {
		return false
	}
	return s.end <= l.applied
}

// retireSegments gives back the oldest segments until no more than Retain bytes of
// recyclable ones are left. l.mu is held.
func (l *Log) retireSegments() {
	var bytes int64
	for _, s := range l.segments {
		if l.isRecyclable(s) {
			bytes += int64(s.bytes)
		}
	}
	for len(l.segments) > 0 && bytes > l.o.Retain {
		s := l.segments[0]
		// The log is one piece: a segment that is still read keeps all behind it.
		if !l.isRecyclable(s) || s.readers > 0 {
			return
		}
		bytes -= int64(s.bytes)
		l.segments = l.segments[1:]
		l.spare = append(l.spare, s)
		l.preparerCond.Signal()
	}
}

// maxReady bounds the segments that are ready, so that the manifest can name them, and
// as many that became spare, with room to spare.
const maxReady = maxManifestSegments / 4

// popReusableSpare takes a spare file that is worth a new name, if there is one. As many
// are kept as one burst of the consumer can give back. l.mu is held.
func (l *Log) popReusableSpare() *segment {
	if l.o.ZerosAreFree || len(l.ready) >= min(l.o.Reserve+l.o.Chunks, maxReady) {
		return nil
	}
	least := l.nextSegmentBytes()
	i := slices.IndexFunc(l.spare, func(s *segment) bool { return s.bytes >= least && s.bytes <= l.o.SegmentBytes })
	if i < 0 {
		return nil
	}
	s := l.spare[i]
	l.spare = slices.Delete(l.spare, i, i+1)
	return s
}

// reuseSpare makes a file that was given back ready under a new name. l.mu is held, and
// released meanwhile.
func (l *Log) reuseSpare(s *segment) error {
	sequence, err := l.nextSequence()
	if err != nil {
		return err
	}
	l.mu.Unlock()
	err = errors.Join(l.removeFromManifest(s), s.close()) // before it is renamed, as some systems demand
	var fresh *segment
	if err == nil {
		fresh, err = l.renameSegment(s.name, sequence, s.bytes)
	}
	l.mu.Lock()
	switch {
	case err == nil:
		l.addReady(fresh)
	case ShortageOf(err) == nil:
	case fresh != nil: // it has its new name
		l.spare = append(l.spare, fresh)
	default:
		l.spare = append(l.spare, s)
	}
	return err
}

// findRemovableSpare returns which of the spare files can be removed, -1 for none. One that has the last
// name of all stays: without it the next Open could bring its sequence, and positions that a
// reader has seen, back into use. l.mu is held.
func (l *Log) findRemovableSpare() int {
	if len(l.ready) == 0 && !l.diskFull {
		return -1
	}
	last := uint32(0)
	for _, s := range slices.Concat(l.segments, l.ready, l.spare) {
		last = max(last, s.sequence)
	}
	return slices.IndexFunc(l.spare, func(s *segment) bool { return s.sequence < last })
}

// removeSpare removes a file that is of no more use. l.mu is held, and released
// meanwhile.
func (l *Log) removeSpare() error {
	i := l.findRemovableSpare()
	s := l.spare[i]
	l.spare = slices.Delete(l.spare, i, i+1)
	l.mu.Unlock()
	defer l.mu.Lock()
	if err := l.removeFromManifest(s); err != nil {
		return err
	}
	return errors.Join(s.close(), l.o.FS.Remove(s.name))
}

func (s *segment) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

// pinSegment keeps a segment from being recycled until unpin. l.mu is held.
func (l *Log) pinSegment(s *segment) { s.readers++ }

// unpinSegment lets a segment be recycled again. l.mu is held.
func (l *Log) unpinSegment(s *segment) {
	s.readers--
	l.retireSegments()
	if l.closed {
		l.stateCond.Broadcast()
	}
}
