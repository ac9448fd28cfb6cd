package wal

// Append adds entries, all in one frame: after a crash all of them are there or
// none. It returns when they are committed by the durability class and Publish has
// returned for them. Urgent entries may use the reserve when the disk is full.
//
// An error that matches [ErrUnknown] means that the entries may survive; with any
// other they do not. The payloads are the caller's again when Append returns.
func (l *Log) Append(urgent bool, es ...Entry) (Position, error) {
	size, err := sizeOf(es)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	if err := l.makeRoom(urgent, size); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	t := l.open
	if t != nil {
		l.stage(t, es)
		t.shared = true
		done := t.wait()
		l.mu.Unlock()
		<-done
		return t.outcome()
	}
	t = &turn{chunk: l.cur, start: l.next, end: l.next + frameHeader, kind: kindData, entries: l.spent}
	l.spent = nil
	l.stage(t, es)
	l.open = t
	l.enter(t)
	l.run(t)
	return t.outcome()
}

// stage copies entries into the frame. l.mu is held.
func (l *Log) stage(t *turn, es []Entry) {
	for i := range es {
		view := putEntry(t.chunk.mem[t.end:], es[i].Group, es[i].Payload)
		t.entries = append(t.entries, Entry{Group: es[i].Group, Payload: view})
		t.end += EntryOverhead + len(view)
	}
}

// fits tells whether entries of some size can be staged now. The last block of a
// segment is kept for the frame that closes the log. l.mu is held.
func (l *Log) fits(size int) bool {
	if l.cur == nil {
		return false
	}
	end := l.next + frameHeader
	if l.open != nil {
		end = l.open.end
	}
	return padded(end+size) <= len(l.cur.mem)-blockBytes
}

// makeRoom returns when entries can be staged, with l.mu held all the time since
// that is so.
func (l *Log) makeRoom(urgent bool, size int) error {
	for {
		if err := l.dead(); err != nil {
			return err
		}
		switch {
		case l.rotating:
			l.room.Wait()
		case l.full && l.reserved && l.cur != nil && !urgent:
			return l.lack
		case l.fits(size):
			return nil
		default:
			l.rotating = true
			err := l.rotate(urgent, size)
			l.rotating = false
			l.room.Broadcast()
			if err != nil {
				return err
			}
		}
	}
}

// rotate ends the chunk that has no room and puts a new one in its place. The
// segment comes first: if there is none, others whose entries are smaller go on in
// the old chunk, and who is refused again and again uses nothing up. l.mu is held,
// and released while it waits.
func (l *Log) rotate(urgent bool, size int) error {
	s, err := l.takeSegment(urgent, size)
	if err != nil {
		return err
	}
	if l.cur != nil {
		t := &turn{chunk: l.cur, seals: true}
		l.cur, l.open = nil, nil
		l.enter(t)
		l.run(t)
		l.mu.Lock()
		l.room.Broadcast() // everything is durable: a Sync may have waited for that
		if t.err != nil {
			l.spare = append(l.spare, s)
			return l.failed
		}
		t.chunk.seg.sealed = true
		l.retire()
	}
	return l.begin(s)
}

// begin makes a segment the one in use. It waits for a chunk. l.mu is held.
func (l *Log) begin(s *segment) error {
	l.front = s.sequence // from here on nothing older may be begun
	var c *Chunk
	for waited := false; ; waited = true {
		if err := l.dead(); err != nil {
			l.spare = append(l.spare, s)
			return err
		}
		if c = l.takeChunk(s); c != nil {
			break
		}
		if !waited {
			l.count.ChunkWaits++
		}
		l.room.Wait()
	}
	s.prev, s.end = l.tail, position(s.sequence, blockBytes)
	putHeader(c.mem, header{id: l.o.ID, sequence: s.sequence, prev: s.prev})
	l.segments = append(l.segments, s)
	l.cur, l.next = c, blockBytes
	return nil
}
