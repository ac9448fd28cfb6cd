package wal

import "slices"

// Close waits for the entries that are staged, refuses others, makes everything
// durable, marks the log as closed and seals the last chunk. It leaves nothing
// running. A log that has failed is closed too, without mark and Seal; the failure
// is returned.
func (l *Log) Close() error {
	l.once.Do(l.close)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *Log) close() {
	l.mu.Lock()
	l.closed = true
	l.room.Broadcast()
	l.work.Broadcast()
	close(l.stop)
	for l.rotating {
		l.room.Wait()
	}
	l.finish()
	l.mu.Lock()
	l.room.Broadcast()
	l.mu.Unlock()
	l.joined.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for slices.ContainsFunc(l.segments, func(s *segment) bool { return s.readers > 0 }) {
		l.room.Wait()
	}
	l.closeFiles()
}

// finish writes the frame that says that the log ends here, if anything was written
// since it was opened. It is called with l.mu held and returns without it.
func (l *Log) finish() {
	if l.cur == nil {
		last := l.last.wait()
		l.mu.Unlock()
		if last != nil {
			<-last
		}
		return
	}
	l.fence()
	t := &turn{chunk: l.cur, seals: true, kind: kindClose, start: l.next, end: l.next + frameHeader}
	l.cur = nil
	l.enter(t)
	l.run(t)
}

// closeFiles closes every file. Their content is durable, or known not to be.
func (l *Log) closeFiles() {
	for _, list := range [][]*segment{l.segments, l.ready, l.spare} {
		for _, s := range list {
			_ = s.close()
		}
	}
}
