package wal

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// retryFull is how often a full disk is looked at again.
const retryFull = 100 * time.Millisecond

// zeros is what new segments are filled with, in pieces of this size.
var zeros = alignedMemory(1 << 20)

// takeReady returns a segment to write to, waiting for the preparer if need be.
// l.mu is held.
func (l *Log) takeReady(urgent bool, size int) (*segment, error) {
	for waited := false; ; waited = true {
		if err := l.dead(); err != nil {
			return nil, err
		}
		// The reserve is for urgent entries. The first segment of all does not wait
		// for it to be filled, so that a new log can be used at once.
		if n := len(l.ready); n > l.o.Reserve || n > 0 && (urgent || l.front == 0 && !l.full) {
			s := l.ready[0]
			l.ready = l.ready[1:]
			l.reserved = urgent && n <= l.o.Reserve
			l.work.Signal()
			if blockBytes+padded(frameHeader+size)+blockBytes > s.bytes {
				// It is the small first one. Now that something was taken, the preparer
				// makes whole ones.
				l.front = s.sequence
				l.spare = append(l.spare, s)
				continue
			}
			return s, nil
		}
		if l.full {
			return nil, l.lack
		}
		if !waited {
			l.count.SegmentWaits++
		}
		l.room.Wait()
	}
}

// takeSegment returns a segment with room for entries of some size. l.mu is held,
// and released meanwhile.
func (l *Log) takeSegment(urgent bool, size int) (*segment, error) {
	if bytes := blockBytes + padded(frameHeader+size) + blockBytes; bytes > l.o.SegmentBytes {
		return l.makeOwn(bytes)
	}
	return l.takeReady(urgent, size)
}

// makeOwn makes a segment for a frame that is larger than the usual ones. The
// segments that were named for use before it get new names. l.mu is held, and
// released meanwhile.
func (l *Log) makeOwn(bytes int) (*segment, error) {
	s, err := l.makeSegment(bytes)
	if lack := LackOf(err); lack != nil {
		return nil, fmt.Errorf("%w: no room for an entry of %d bytes", lack, bytes)
	}
	if err != nil {
		l.fail(err)
		return nil, l.failed
	}
	if err := l.dead(); err != nil {
		l.spare = append(l.spare, s)
		return nil, err
	}
	l.front = s.sequence
	l.spare = append(l.spare, l.ready...)
	l.ready, l.reserved = nil, false
	l.work.Signal()
	return s, nil
}

// prepare keeps segments ready, in one goroutine: it renames those that were given
// back and fills new files with zeros.
func (l *Log) prepare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.dead() == nil {
		var err error
		switch s := l.spareOfUse(); {
		case s != nil:
			err = l.reuse(s)
		case l.useless() >= 0:
			err = l.discard()
		case len(l.ready) <= l.o.Reserve:
			err = l.zeroOne()
		default:
			l.work.Wait()
		}
		switch lack := LackOf(err); {
		case lack != nil:
			l.waitForSpace(lack)
		case err != nil:
			l.fail(err)
		}
	}
}

// waitForSpace tells that the disk is full, or what else is lacking, and comes back after a
// while or when a segment was given back. l.mu is held.
func (l *Log) waitForSpace(lack error) {
	l.full, l.lack = true, lack
	l.room.Broadcast()
	timer := time.AfterFunc(retryFull, func() {
		l.mu.Lock() // or it could come before the Wait
		defer l.mu.Unlock()
		l.work.Broadcast()
	})
	l.work.Wait()
	timer.Stop()
}

// arrive adds a segment to those that are ready, unless a later one is in use
// already. l.mu is held.
func (l *Log) arrive(s *segment) {
	if s.sequence < l.front {
		l.spare = append(l.spare, s)
		return
	}
	l.ready = append(l.ready, s)
	l.full = l.full && len(l.ready) <= l.o.Reserve
	l.room.Broadcast()
}

// claim returns a sequence that no file had before. l.mu is held.
func (l *Log) claim() (uint32, error) {
	if l.newest == math.MaxUint32 { // after 128 PiB of log at the default size
		return 0, errors.New("sequences are used up: restore a backup into a new directory")
	}
	l.newest++
	return l.newest, nil
}

// zeroOne makes a new segment. l.mu is held, and released meanwhile.
func (l *Log) zeroOne() error {
	bytes := l.o.SegmentBytes
	if l.front == 0 && len(l.ready) == 0 {
		bytes = min(bytes, firstBytes)
	}
	s, err := l.makeSegment(bytes)
	if err != nil {
		return err
	}
	l.arrive(s)
	return nil
}

// makeSegment creates a file of real zeros and gives it its name when they are
// durable. So a file with a segment's name always has all of its blocks. l.mu is
// held, and released meanwhile.
func (l *Log) makeSegment(bytes int) (*segment, error) {
	sequence, err := l.claim()
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
	s, err := l.rename(name, sequence, bytes)
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
	for off := 0; off < bytes && err == nil; off += len(zeros) {
		_, err = file.WriteAt(zeros[:min(len(zeros), bytes-off)], int64(off))
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// rename gives a file the name under which it is used next, durably: bytes of that
// sequence are only ever written to a file that has the name for good. If it fails when the
// file has been renamed already, it returns that too: it must get another name before its use.
func (l *Log) rename(from string, sequence uint32, bytes int) (*segment, error) {
	s := &segment{sequence: sequence, name: segmentName(sequence), bytes: bytes}
	if err := l.o.FS.Rename(from, s.name); err != nil {
		return nil, err
	}
	if err := l.o.FS.SyncDir(); err != nil {
		return s, err
	}
	file, err := l.o.FS.Open(s.name)
	if err == nil { // or it would hold a nil that is not one
		s.file = file
	}
	return s, err
}
