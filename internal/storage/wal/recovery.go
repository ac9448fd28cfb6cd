package wal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// recoverLog finds the segments of the log and replays them.
func (l *Log) recoverLog(from Position, replay func(*Chunk, []Entry) error) error {
	found, err := l.recoverManifest()
	if err != nil {
		return err
	}
	headed, rest, err := l.openFiles()
	l.segments, l.spare = headed, rest // closed by Open if anything fails
	if err != nil {
		return err
	}
	l.maxSequence = max(l.maxSequence, from.sequence())
	if err := l.checkManifestSegments(slices.Concat(headed, rest)); err != nil {
		return err
	}
	all := headed
	chain, err := l.findChain(headed, rest, from)
	if err != nil {
		return err
	}
	end := from
	if len(chain) == 0 {
		err = l.checkEmpty(from, rest, found)
	} else {
		chain, err = l.replayChain(chain, rest, from, replay)
	}
	if err != nil {
		return err
	}
	if len(chain) > 0 {
		end = chain[len(chain)-1].end
	}
	if end, err = l.checkEnd(end, from); err != nil {
		return err
	}
	if end == from && len(chain) > 0 && chain[len(chain)-1].end < from {
		chain = nil // what was applied is all that is left
	}
	// What is before the chain, or was never begun, can be used for something new.
	l.segments = chain
	l.spare = slices.DeleteFunc(slices.Concat(all, rest), func(s *segment) bool { return slices.Contains(chain, s) })
	for _, s := range slices.Concat(l.segments, l.spare) {
		l.grownBytes = max(l.grownBytes, int64(s.bytes))
	}
	l.setEnd(end, from)
	if len(l.acceptedDamages) == 0 {
		return l.startManifest()
	}
	return l.acceptLoss(end, from)
}

// recoverManifest reads the manifest.
func (l *Log) recoverManifest() (found bool, err error) {
	found, err = l.readManifest()
	if err = l.maybeAcceptDamage(err); err != nil {
		return false, err
	}
	if len(l.acceptedDamages) > 0 {
		l.manifestDamaged = true
		if l.manifestFile != nil {
			_ = l.manifestFile.Close() // it is made again
			l.manifestFile = nil
		}
	}
	l.recorded.durable = max(l.recorded.durable, l.openProgress())
	// Sequences of segments that are gone do not come into use a second time.
	l.maxSequence = l.recorded.durable.sequence()
	for _, n := range l.recorded.segments {
		l.maxSequence = max(l.maxSequence, n.sequence)
	}
	return found, nil
}

// checkManifestSegments refuses a log that lacks a segment which may hold acknowledged entries, or
// a part of its blocks.
func (l *Log) checkManifestSegments(files []*segment) error {
	for _, n := range l.recorded.segments {
		i := slices.IndexFunc(files, func(s *segment) bool { return s.sequence == n.sequence })
		var reason string
		switch {
		case i < 0:
			reason = "the segment is missing, but the log was using it"
		case files[i].bytes < n.bytes:
			reason = fmt.Sprintf("the file has %d bytes, but was made with %d", files[i].bytes, n.bytes)
		default:
			continue
		}
		if err := l.maybeAcceptDamage(&CorruptError{Segment: segmentName(n.sequence), Reason: reason}); err != nil {
			return err
		}
	}
	return nil
}

// findChain returns the segments of the log in order.
func (l *Log) findChain(headed, rest []*segment, from Position) ([]*segment, error) {
	for {
		chain, err := linkSegments(headed, rest, from)
		if err == nil {
			return chain, nil
		}
		if err := l.maybeAcceptDamage(err); err != nil {
			return nil, err
		}
		headed = headed[:len(headed)-len(chain)] // what is left ends before the gap
	}
}

// replayChain replays the segments behind from, and returns those that are left: all,
// unless damage was accepted.
func (l *Log) replayChain(chain, rest []*segment, from Position, replay func(*Chunk, []Entry) error) ([]*segment, error) {
	last := chain[len(chain)-1]
	for i, s := range chain {
		if s != last && s.end <= from {
			s.sealed = true
			continue
		}
		cut, err := l.replaySegment(s, s == last, from, rest, replay)
		if err != nil {
			return nil, err
		}
		if cut {
			return chain[:i+1], nil
		}
	}
	return chain, nil
}

// checkEnd refuses a log that ends before what is known to have been in it, and returns
// where it goes on.
func (l *Log) checkEnd(end, from Position) (Position, error) {
	if from > end {
		err := l.maybeAcceptDamage(&CorruptError{Segment: segmentName(end.sequence()), At: end, Reason: fmt.Sprintf("the log ends here, but was applied up to %s", from)})
		if err != nil {
			return end, err
		}
		end = from
	}
	if l.recorded.durable > end {
		return end, l.maybeAcceptDamage(&CorruptError{Segment: segmentName(end.sequence()), At: end, Reason: fmt.Sprintf("the log ends here, but was durable up to %s", l.recorded.durable)})
	}
	return end, nil
}

// maybeAcceptDamage returns nil for damage that is accepted, and remembers it.
func (l *Log) maybeAcceptDamage(err error) error {
	if err == nil || l.o.AcceptLoss == nil || !errors.Is(err, ErrCorrupt) {
		return err
	}
	l.acceptedDamages = append(l.acceptedDamages, err)
	return nil
}

// acceptLoss makes the end of a damaged log the end of the log, and reports what is
// lost. If it is interrupted the log is still damaged.
func (l *Log) acceptLoss(end, from Position) error {
	l.o.AcceptLoss(l.estimateLoss(end))
	if err := l.moveLostSegments(end); err != nil {
		return err
	}
	if err := l.startManifest(); err != nil {
		return err
	}
	// As with every end, the header of the next segment says where it is, so that
	// replays do not look at what lies behind it. It is written without a frame, which
	// a crash can leave too.
	l.mu.Lock()
	s, err := l.makeSegment(l.nextSegmentBytes())
	l.mu.Unlock()
	if err != nil {
		return err
	}
	block := newAlignedBuffer(blockBytes)
	s.prev, s.end, s.sealed = end, makePosition(s.sequence, blockBytes), true
	putHeader(block, header{id: l.o.ID, sequence: s.sequence, prev: s.prev})
	if err := s.file.WriteDurable(block, 0); err != nil {
		return errors.Join(err, s.close())
	}
	l.segments = append(l.segments, s)
	l.setEnd(s.end, from)
	return nil
}

// estimateLoss estimates what lay behind the end of a damaged log: what is known of it, and what
// there was room for.
func (l *Log) estimateLoss(end Position) Loss {
	loss := Loss{Damages: l.acceptedDamages, From: end, To: max(end, l.recorded.durable), IsUnbounded: l.manifestDamaged}
	bytes := map[uint32]int{end.sequence(): 0} // of each segment that may have had log behind end
	for _, s := range slices.Concat(l.segments, l.spare) {
		if s.sequence < end.sequence() {
			continue
		}
		bytes[s.sequence] = s.bytes
		if s.begun && s.sequence > end.sequence() {
			loss.To = max(loss.To, makePosition(s.sequence, blockBytes))
			loss.Bytes += logBytesBetween(end, s.prev)
		}
	}
	for _, n := range l.recorded.segments {
		if n.sequence >= end.sequence() {
			bytes[n.sequence] = max(bytes[n.sequence], n.bytes)
		}
	}
	loss.Bytes += logBytesBetween(end, loss.To)
	for sequence, size := range bytes {
		isBegun := slices.ContainsFunc(l.spare, func(s *segment) bool { return s.sequence == sequence && s.begun })
		switch isDamaged := l.isDamageAccepted(sequence); {
		case sequence == end.sequence() && isDamaged:
			loss.MaxBytes += int64(max(0, size-end.offset()))
		case sequence > end.sequence() && (isDamaged || isBegun || sequence == loss.To.sequence()):
			loss.MaxBytes += int64(max(0, size-blockBytes))
		}
	}
	loss.MaxBytes = max(loss.MaxBytes, loss.Bytes)
	return loss
}

// logBytesBetween returns how much log there is in the segment of to, behind from.
func logBytesBetween(from, to Position) int64 {
	switch {
	case to <= from:
		return 0
	case to.sequence() == from.sequence():
		return int64(to - from)
	}
	return int64(max(0, to.offset()-blockBytes))
}

// isDamageAccepted reports whether one of the damages that were accepted is that of a segment.
func (l *Log) isDamageAccepted(sequence uint32) bool {
	return slices.ContainsFunc(l.acceptedDamages, func(err error) bool {
		var damage *CorruptError
		return errors.As(err, &damage) && damage.Segment == segmentName(sequence)
	})
}

// moveLostSegments renames the segments behind an end, and files that cannot be segments,
// and so keeps them for inspection.
func (l *Log) moveLostSegments(end Position) error {
	var kept []*segment
	for _, s := range l.spare {
		if s.sequence <= end.sequence() && !s.misnamed {
			kept = append(kept, s)
			continue
		}
		if err := errors.Join(s.close(), l.o.FS.Rename(s.name, s.name+lostSuffix)); err != nil {
			return err
		}
	}
	l.spare = kept
	return l.o.FS.SyncDir()
}

// setEnd sets where the log goes on.
func (l *Log) setEnd(end, from Position) {
	l.tail, l.written, l.durable, l.applied = end, end, end, from
	// A crash may leave segments with a header and nothing else. Readers end before.
	for _, s := range slices.Backward(l.segments) {
		if !s.isEmpty() {
			break
		}
		end = s.prev
	}
	l.committed.Store(uint64(max(end, from)))
}

// checkEmpty decides whether there never was a log, or it is lost. A manifest says how
// far it went, so that a log of which everything was applied is not missed.
func (l *Log) checkEmpty(from Position, rest []*segment, manifest bool) error {
	proof, where, err := l.findProofInFiles(rest)
	if err != nil {
		return err
	}
	if proof > from {
		return l.maybeAcceptDamage(headerLostError(where, proof))
	}
	if from > 0 && !l.o.Restored && !manifest {
		return l.maybeAcceptDamage(&CorruptError{Segment: segmentName(from.sequence()), At: from, Reason: "there is no log, but it was applied up to here"})
	}
	return nil
}

func headerLostError(name string, proof Position) error {
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
		sequence, ok := parseSegmentName(strings.TrimSuffix(name, lostSuffix))
		if !ok {
			continue
		}
		if strings.HasSuffix(name, lostSuffix) {
			l.maxSequence = max(l.maxSequence, sequence) // it was in use
			continue
		}
		l.maxSequence = max(l.maxSequence, sequence)
		s := &segment{sequence: sequence, name: name}
		s.begun, err = l.openSegment(s, block)
		if s.begun {
			headed = append(headed, s)
		} else {
			rest = append(rest, s)
		}
		s.misnamed = errors.Is(err, ErrCorrupt)
		if err := l.maybeAcceptDamage(err); err != nil {
			return headed, rest, fmt.Errorf("open %s: %w", name, err)
		}
	}
	return headed, rest, nil
}

// openSegment opens a file and reports whether it was begun under its present name.
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
	if err := s.file.DropCache(); err != nil {
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

// linkSegments follows the headers back from the newest segment, as far as there are files,
// and returns the segments of the log in order. Each header says where the segment
// before it ends. What lies behind from must be complete: with an error come those
// behind the gap.
func linkSegments(headed, rest []*segment, from Position) ([]*segment, error) {
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
	return chain, &CorruptError{Segment: segmentName(missing.sequence()), Reason: reason}
}

// replaySegment reads a segment into a chunk, hands its frames behind from to
// replay, and seals the chunk. Where the last one ends is found out here. cut means
// that it ends earlier than it should, and that this was accepted.
func (l *Log) replaySegment(s *segment, last bool, from Position, rest []*segment, replay func(*Chunk, []Entry) error) (cut bool, err error) {
	c := l.waitForChunk(s)
	given := false
	defer func() {
		if !given {
			c.Release()
		}
	}()
	image := c.mem
	if !last {
		if !s.isEmpty() && s.end.offset() > len(c.mem) {
			err := l.maybeAcceptDamage(&CorruptError{Segment: s.name, At: makePosition(s.sequence, len(c.mem)), Reason: "the file is shorter than the log in it"})
			if err != nil {
				return false, err
			}
		}
		image = c.mem[:min(s.end.offset(), len(c.mem))]
	}
	if err := readImage(s, image); err != nil {
		return false, err
	}
	sc := newFrameScanner(image, header{id: l.o.ID, sequence: s.sequence, prev: s.prev})
	if last {
		if err := l.findEnd(s, sc, rest); err != nil {
			return false, err
		}
	}
	var es []Entry
	replayed := false
	for sc.endPosition() < s.end {
		f, b, ok := sc.next()
		if !ok {
			err := l.maybeAcceptDamage(&CorruptError{Segment: s.name, At: sc.endPosition(), Reason: fmt.Sprintf("%s, but the log goes on to %s", sc.reason, s.end)})
			if err != nil {
				return false, err
			}
			s.end, cut = sc.endPosition(), true
			break
		}
		es = appendEntries(es[:0], b, f, sc.endPosition())
		if sc.endPosition() <= from || len(es) == 0 {
			continue
		}
		replayed = true
		l.counters.Replayed += uint64(len(es))
		if err := replay(c, es); err != nil {
			return false, fmt.Errorf("replay up to %s: %w", sc.endPosition(), err)
		}
	}
	s.sealed = true
	if c.end = s.end; replayed {
		given = true
		l.sealChunk(c)
	}
	return cut, nil
}

// findEnd sets the end of the newest segment: the first place without a frame,
// unless something proves that there had been one. It looks before anything of the
// segment is replayed. sc is a copy.
func (l *Log) findEnd(s *segment, sc frameScanner, rest []*segment) error {
	for ok := true; ok; {
		_, _, ok = sc.next()
	}
	s.end = sc.endPosition()
	// Also behind a log that was closed: it may have been opened again.
	proof := findProofInImage(sc.image, l.salt, s.sequence, sc.offset)
	i := slices.IndexFunc(rest, func(r *segment) bool { return r.sequence > s.sequence })
	if i < 0 {
		i = len(rest)
	}
	later, where, err := l.findProofInFiles(rest[i:])
	if err != nil {
		return err
	}
	if later.sequence() > s.sequence {
		return l.maybeAcceptDamage(headerLostError(where, later))
	}
	return l.maybeAcceptDamage(checkScanEnd(&sc, max(proof, later)))
}

// findProofInFiles returns the highest watermark in files without a header of their own, and
// the name of the file. Such a file is unused, or its first write was interrupted,
// or its header is damaged; then the frames in it say so.
func (l *Log) findProofInFiles(rest []*segment) (proof Position, where string, err error) {
	var image []byte
	for _, s := range rest {
		if cap(image) < s.bytes {
			image = make([]byte, s.bytes)
		}
		if err := readImage(s, image[:s.bytes]); err != nil {
			return 0, "", err
		}
		if p := findProofInImage(image[:s.bytes], l.salt, s.sequence, blockBytes); p > proof {
			proof, where = p, s.name
		}
	}
	return proof, where, nil
}

// waitForChunk takes a chunk, waiting until the consumer releases one.
func (l *Log) waitForChunk(s *segment) *Chunk {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if c := l.acquireChunk(s); c != nil {
			return c
		}
		l.stateCond.Wait()
	}
}

func readImage(s *segment, image []byte) error {
	n, err := s.file.ReadAt(image, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	clear(image[n:])
	return nil
}
