package wal

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// replaySegment reads a segment into a chunk, hands its frames behind from to
// replay, and seals the chunk. Where the last one ends is found out here.
func (l *Log) replaySegment(s *segment, last bool, from Position, rest []*segment, replay func(*Chunk, []Entry) error) error {
	c := l.awaitChunk(s)
	given := false
	defer func() {
		if !given {
			c.Release()
		}
	}()
	image := c.mem
	if !last {
		if s.end.offset() > len(c.mem) {
			return &CorruptError{Segment: s.name, At: position(s.sequence, len(c.mem)), Reason: "the file is shorter than the log in it"}
		}
		image = c.mem[:s.end.offset()]
	}
	if err := readImage(s, image); err != nil {
		return err
	}
	sc := newScan(image, header{id: l.o.ID, sequence: s.sequence, prev: s.prev})
	if last {
		if err := l.findEnd(s, sc, rest); err != nil {
			return err
		}
	}
	var es []Entry
	replayed := false
	for sc.end() < s.end {
		f, b, ok := sc.next()
		if !ok {
			return &CorruptError{Segment: s.name, At: sc.end(), Reason: fmt.Sprintf("%s, but the log goes on to %s", sc.reason, s.end)}
		}
		es = appendEntries(es[:0], b, f, sc.end())
		if sc.end() <= from || len(es) == 0 {
			continue
		}
		replayed = true
		l.count.Replayed += uint64(len(es))
		if err := replay(c, es); err != nil {
			return fmt.Errorf("replay up to %s: %w", sc.end(), err)
		}
	}
	s.sealed = true
	if c.end = s.end; replayed {
		given = true
		l.seal(c)
	}
	return nil
}

// findEnd sets the end of the newest segment: the first place without a frame,
// unless something proves that there had been one. It looks before anything of the
// segment is replayed. sc is a copy.
func (l *Log) findEnd(s *segment, sc scan, rest []*segment) error {
	for ok := true; ok; {
		_, _, ok = sc.next()
	}
	s.end = sc.end()
	// Also behind a log that was closed: it may have been opened again.
	proof := proofBehind(sc.image, l.salt, s.sequence, sc.offset)
	i := slices.IndexFunc(rest, func(r *segment) bool { return r.sequence > s.sequence })
	if i < 0 {
		i = len(rest)
	}
	later, where, err := l.proofIn(rest[i:])
	if err != nil {
		return err
	}
	if later.sequence() > s.sequence {
		return headerLost(where, later)
	}
	return judge(&sc, max(proof, later))
}

// proofIn returns the highest watermark in files without a header of their own, and
// the name of the file. Such a file is unused, or its first write was interrupted,
// or its header is damaged; then the frames in it say so.
func (l *Log) proofIn(rest []*segment) (proof Position, where string, err error) {
	var image []byte
	for _, s := range rest {
		if cap(image) < s.bytes {
			image = make([]byte, s.bytes)
		}
		if err := readImage(s, image[:s.bytes]); err != nil {
			return 0, "", err
		}
		if p := proofBehind(image[:s.bytes], l.salt, s.sequence, blockBytes); p > proof {
			proof, where = p, s.name
		}
	}
	return proof, where, nil
}

// awaitChunk takes a chunk, waiting until the consumer releases one.
func (l *Log) awaitChunk(s *segment) *Chunk {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if c := l.takeChunk(s); c != nil {
			return c
		}
		l.room.Wait()
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
