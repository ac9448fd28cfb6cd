package wal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// recover finds the segments of the log and replays them.
func (l *Log) recover(from Position, replay func(*Chunk, []Entry) error) error {
	headed, rest, err := l.openFiles()
	l.segments, l.spare = headed, rest // closed by Open if anything fails
	if err != nil {
		return err
	}
	l.newest = max(l.newest, from.sequence())
	chain, err := link(headed, rest, from)
	if err != nil {
		return err
	}
	// What is before the chain, or was never begun, can be used for something new.
	l.segments, l.spare = chain, slices.Concat(headed[:len(headed)-len(chain)], rest)
	if len(chain) == 0 {
		return l.recoverEmpty(from, rest)
	}
	last := chain[len(chain)-1]
	for _, s := range chain {
		if s != last && s.end <= from {
			s.sealed = true
			continue
		}
		if err := l.replaySegment(s, s == last, from, rest, replay); err != nil {
			return err
		}
	}
	if from > last.end {
		return &CorruptError{Segment: last.name, At: last.end, Reason: fmt.Sprintf("the log ends here, but was applied up to %s", from)}
	}
	l.start(last.end, from)
	return nil
}

// start sets where the log goes on.
func (l *Log) start(end, from Position) {
	l.tail, l.written, l.durable, l.applied = end, end, end, from
	// A crash may leave segments with a header and nothing else. Readers end before.
	for _, s := range slices.Backward(l.segments) {
		if !s.empty() {
			break
		}
		end = s.prev
	}
	l.committed.Store(uint64(max(end, from)))
}

// recoverEmpty decides whether there never was a log, or it is lost.
func (l *Log) recoverEmpty(from Position, rest []*segment) error {
	proof, where, err := l.proofIn(rest)
	if err != nil {
		return err
	}
	if proof > from {
		return headerLost(where, proof)
	}
	if from > 0 && !l.o.Restored {
		return &CorruptError{Segment: segmentName(from.sequence()), At: from, Reason: "there is no log, but it was applied up to here"}
	}
	l.start(from, from)
	return nil
}

func headerLost(name string, proof Position) error {
	return &CorruptError{Segment: name, Reason: fmt.Sprintf("the header is unreadable, but the log was durable up to %s", proof)}
}

// openFiles opens all segments and splits them into those with a header of their
// own and the rest, both in order. Files whose zeros were not complete are removed.
func (l *Log) openFiles() (headed, rest []*segment, err error) {
	names, err := l.o.FS.List()
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(names)
	block := make([]byte, blockBytes)
	for _, name := range names {
		if strings.HasSuffix(name, zeroingSuffix) {
			if err := l.o.FS.Remove(name); err != nil {
				return headed, rest, err
			}
			continue
		}
		sequence, ok := sequenceOf(name)
		if !ok {
			continue
		}
		l.newest = max(l.newest, sequence)
		s := &segment{sequence: sequence, name: name}
		has, err := l.openSegment(s, block)
		if has {
			headed = append(headed, s)
		} else {
			rest = append(rest, s)
		}
		if err != nil {
			return headed, rest, fmt.Errorf("open %s: %w", name, err)
		}
	}
	return headed, rest, nil
}

// openSegment opens a file and tells whether it was begun under its present name.
func (l *Log) openSegment(s *segment, block []byte) (begun bool, err error) {
	if s.file, err = l.o.FS.Open(s.name); err != nil {
		return false, err
	}
	// A process may have died between write and sync. What is read now is built upon, so it
	// has to be durable first. If a sync had failed, the system may show what it never wrote,
	// and this one had nothing to do: what is read has to come from the disk.
	if err := s.file.Sync(); err != nil {
		return false, err
	}
	if err := s.file.Forget(); err != nil {
		return false, err
	}
	size, err := s.file.Size()
	if err != nil {
		return false, err
	}
	if size > 2*MaxBytes {
		return false, &CorruptError{Segment: s.name, Reason: fmt.Sprintf("%d bytes are more than a segment can have", size)}
	}
	s.bytes = int(size)
	n, err := s.file.ReadAt(block, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	h, ok, err := parseHeader(block[:n], l.o.ID)
	if err != nil || !ok {
		return false, err
	}
	if h.sequence > s.sequence {
		return false, &CorruptError{Segment: s.name, Reason: fmt.Sprintf("the header is that of segment %08x", h.sequence)}
	}
	s.prev = h.prev
	return h.sequence == s.sequence, nil
}

// link follows the headers back from the newest segment, as far as there are files,
// and returns the segments of the log in order. Each header says where the segment
// before it ends. What lies behind from must be complete.
func link(headed, rest []*segment, from Position) ([]*segment, error) {
	first := len(headed)
	for i := len(headed) - 1; i >= 0; i-- {
		s := headed[i]
		if first < len(headed) {
			after := headed[first]
			if after.prev.sequence() != s.sequence {
				break
			}
			s.end = after.prev
		}
		first = i
	}
	chain := headed[first:]
	if len(headed) == 0 || chain[0].prev <= from {
		return chain, nil
	}
	missing := chain[0].prev
	reason := fmt.Sprintf("the segment is missing, but %s continues it", chain[0].name)
	if slices.ContainsFunc(rest, func(s *segment) bool { return s.sequence == missing.sequence() }) {
		reason = fmt.Sprintf("the header is unreadable, but %s continues the segment", chain[0].name)
	}
	return nil, &CorruptError{Segment: segmentName(missing.sequence()), Reason: reason}
}
