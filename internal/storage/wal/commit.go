package wal

import (
	"runtime"
	"time"
)

// Append adds entries, all in one frame: after a crash all of them are there or
// none. It returns when they are committed by the durability class and Publish has
// returned for them. Urgent entries may use the reserve when the disk is full.
//
// An error that matches [ErrUnknown] means that the entries may survive; with any
// other they do not. The payloads are the caller's again when Append returns.
func (l *Log) Append(urgent bool, es ...Entry) (Position, error) {
	size, err := sumEntryBytes(es)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	if err := l.makeRoom(urgent, size); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	t := l.openFrame
	if t != nil {
		l.stageEntries(t, es)
		t.shared = true
		done := t.finishedCh()
		l.mu.Unlock()
		<-done
		return t.result()
	}
	t = &writeTask{chunk: l.current, start: l.nextOffset, end: l.nextOffset + frameHeader, kind: kindData, entries: l.entriesBuf}
	l.entriesBuf = nil
	l.stageEntries(t, es)
	l.openFrame = t
	l.enqueueTask(t)
	l.runTask(t)
	return t.result()
}

// stageEntries copies entries into the frame. l.mu is held.
func (l *Log) stageEntries(t *writeTask, es []Entry) {
	for i := range es {
		view := putEntry(t.chunk.mem[t.end:], es[i].Group, es[i].Payload)
		t.entries = append(t.entries, Entry{Group: es[i].Group, Payload: view})
		t.end += EntryOverhead + len(view)
	}
}

// canStage reports whether entries of some size can be staged now. The last block of a
// segment is kept for the frame that closes the log. l.mu is held.
func (l *Log) canStage(size int) bool {
	if l.current == nil {
		return false
	}
	end := l.nextOffset + frameHeader
	if l.openFrame != nil {
		end = l.openFrame.end
	}
	return alignToBlock(end+size) <= len(l.current.mem)-blockBytes
}

// makeRoom returns when entries can be staged, with l.mu held all the time since
// that is so.
func (l *Log) makeRoom(urgent bool, size int) error {
	for {
		if err := l.checkOpen(); err != nil {
			return err
		}
		switch {
		case l.rotating:
			l.stateCond.Wait()
		case l.diskFull && l.currentReserved && l.current != nil && !urgent:
			return l.shortage
		case l.canStage(size):
			return nil
		default:
			l.rotating = true
			err := l.rotateChunk(urgent, size)
			l.rotating = false
			l.stateCond.Broadcast()
			if err != nil {
				return err
			}
		}
	}
}

// rotateChunk ends the chunk that has no room and puts a new one in its place. The
// segment comes first: if there is none, others whose entries are smaller go on in
// the old chunk, and a caller that is refused again and again uses nothing up. l.mu is held,
// and released while it waits.
func (l *Log) rotateChunk(urgent bool, size int) error {
	s, err := l.acquireSegment(urgent, size)
	if err != nil {
		return err
	}
	if l.current != nil {
		t := &writeTask{chunk: l.current, sealsChunk: true}
		l.current, l.openFrame = nil, nil
		l.enqueueTask(t)
		l.runTask(t)
		l.mu.Lock()
		l.stateCond.Broadcast() // everything is durable: a Sync may have waited for that
		if t.err != nil {
			l.spare = append(l.spare, s)
			return l.failed
		}
		t.chunk.seg.sealed = true
		l.retireSegments()
	}
	return l.beginSegment(s)
}

// beginSegment makes a segment the one in use. It waits for a chunk. l.mu is held.
func (l *Log) beginSegment(s *segment) error {
	l.begunSequence = s.sequence // from here on nothing older may be begun
	var c *Chunk
	for waited := false; ; waited = true {
		if err := l.checkOpen(); err != nil {
			l.spare = append(l.spare, s)
			return err
		}
		if c = l.acquireChunk(s); c != nil {
			break
		}
		if !waited {
			l.counters.ChunkWaits++
		}
		l.stateCond.Wait()
	}
	s.prev, s.end = l.tail, makePosition(s.sequence, blockBytes)
	putHeader(c.mem, header{id: l.o.ID, sequence: s.sequence, prev: s.prev})
	l.segments = append(l.segments, s)
	l.current, l.nextOffset = c, blockBytes
	return nil
}

// writeTask is a piece of work that happens in log order: the write of a frame, the end
// of a chunk, or nothing, for a Sync that has to know that all before it is
// written. Its goroutine waits until everything before it was written,
// does its own I/O, passes the turn on, and then, again in order, publishes. So
// while one frame is published the next is being written, and a goroutine that finds the
// log idle never waits for another one.
type writeTask struct {
	chunk      *Chunk
	start      int // of the frame in the chunk
	end        int // of the entries, so far
	kind       frameKind
	sealsChunk bool // the chunk ends here
	packed     bool // the next frame may begin in this one's last block
	shared     bool // by several Appends
	entries    []Entry

	startCh  chan struct{} // closed when it is this turn; nil if it was at once
	doneCh   chan struct{} // closed when finished; made when there is a waiter
	finished bool
	pos      Position
	err      error
}

// enqueueTask queues a turn, or takes it at once. l.mu is held.
func (l *Log) enqueueTask(t *writeTask) {
	if l.taskRunning {
		t.startCh = make(chan struct{})
		l.taskQueue = append(l.taskQueue, t)
	}
	l.taskRunning = true
}

// runTask waits for the turn and does its work. It is called with l.mu held and
// returns without it.
func (l *Log) runTask(t *writeTask) {
	if t.startCh != nil {
		l.mu.Unlock()
		<-t.startCh
		l.mu.Lock()
	}
	if l.openFrame == t && l.lastShared && l.o.Durability != Always {
		// A write to the OS is so short that few would share the next one. Let the goroutines
		// that can run now come in first.
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	l.lastShared = t.shared
	t.packed = l.o.Durability != Always && t.kind == kindData && t.end-t.start < maxPackedFrame
	if l.openFrame == t {
		l.openFrame, l.nextOffset = nil, t.nextFrameOffset()
	}
	before := l.lastTask.finishedCh()
	l.lastTask = t
	info := frameInfo{
		bytes: t.end - t.start, sequence: t.chunk.seg.sequence, prev: l.tail,
		watermark: l.durable, kind: t.kind, count: len(t.entries),
	}
	if t.kind != 0 {
		l.tail = makePosition(info.sequence, alignToFrame(t.end))
	}
	t.pos = l.tail
	if t.err = l.failed; t.err == nil {
		l.mu.Unlock()
		err := l.syncAndWrite(t, info)
		l.mu.Lock()
		l.recordTaskIO(t, err)
	}
	l.startNextTask()
	l.mu.Unlock()
	if before != nil {
		<-before
	}
	l.publishTask(t)
}

// syncAndWrite is the I/O of a turn.
func (l *Log) syncAndWrite(t *writeTask, info frameInfo) error {
	file := t.chunk.seg.file
	if t.sealsChunk && l.o.Durability != Always {
		// What follows proves that this segment was durable, so it has to be.
		if err := l.syncFile(file, info.prev); err != nil {
			return err
		}
		info.watermark = info.prev
	}
	if t.kind == 0 {
		return nil
	}
	image, from := l.buildImage(t, info)
	if t.kind == kindClose || l.o.Durability == Always {
		err := file.WriteDurable(image, int64(from))
		if err == nil {
			l.writeProgress(t.pos)
		}
		return err
	}
	_, err := file.WriteAt(image, int64(from))
	return err
}

// buildImage finishes the frame of a turn and returns what to write and where. It ends
// at a block's end, also if the frame does not, so that the system need not read a
// block to write its beginning; one of which it writes the rest was written whole
// just before. Of a packed frame it is a copy: others stage the next one in the
// rest of its last block meanwhile.
func (l *Log) buildImage(t *writeTask, info frameInfo) (image []byte, from int) {
	mem := t.chunk.mem
	putFrameHeader(mem[t.start:t.end], info, l.salt)
	if from = t.start; from == blockBytes {
		from = 0 // the first frame takes the header along
	}
	if !t.packed {
		clear(mem[t.end:alignToBlock(t.end)])
		return mem[from:alignToBlock(t.end)], from
	}
	image = append(l.scratch[:0], mem[from:t.end]...)
	end := alignToBlock(t.end) - from
	clear(image[len(image):end])
	return image[:end], from
}

// nextFrameOffset returns where the next frame may begin.
func (t *writeTask) nextFrameOffset() int {
	if t.packed {
		return alignToFrame(t.end)
	}
	return alignToBlock(t.end)
}

// recordTaskIO records what the I/O of a turn achieved. l.mu is held.
func (l *Log) recordTaskIO(t *writeTask, err error) {
	if err != nil {
		l.setFailed(err)
	}
	if l.failed != nil && (err != nil || l.o.Durability != Always) {
		// A sync that failed meanwhile leaves this frame in doubt too.
		t.err = &unknownError{l.failed}
		return
	}
	l.written = t.pos
	if t.sealsChunk || l.o.Durability == Always {
		l.durable = max(l.durable, t.pos)
	}
	t.chunk.end, t.chunk.seg.end = t.pos, t.pos
	if t.kind != 0 {
		l.counters.Frames++
		l.counters.Entries += uint64(len(t.entries))
		l.counters.WrittenBytes += uint64(t.nextFrameOffset() - t.start)
		l.grownBytes += int64(t.nextFrameOffset() - t.start)
		l.unsyncedBytes += t.nextFrameOffset() - t.start
		l.unrecordedBytes += t.nextFrameOffset() - t.start
	}
	if l.unrecordedBytes >= l.maxUnrecordedBytes() {
		l.unrecordedBytes = 0
		select {
		case l.manifestSoon <- struct{}{}:
		default: // it is notified already
		}
	}
	if l.o.Durability != Always && l.unsyncedBytes >= l.maxUnsyncedBytes() {
		l.unsyncedBytes = 0
		select {
		case l.syncSoon <- struct{}{}:
		default: // it is notified already
		}
	}
	if t.kind == kindClose || t.kind != 0 && l.o.Durability == Always {
		l.counters.Syncs++
	}
}

// startNextTask gives the turn to the next in line. l.mu is held.
func (l *Log) startNextTask() {
	if len(l.taskQueue) == 0 {
		l.taskRunning = false
		return
	}
	close(l.taskQueue[0].startCh)
	l.taskQueue[0] = nil
	l.taskQueue = l.taskQueue[1:]
}

// publishTask shows the outcome to the consumer and to the waiters.
func (l *Log) publishTask(t *writeTask) {
	if t.err == nil && len(t.entries) > 0 {
		for i := range t.entries {
			t.entries[i].Pos = t.pos
		}
		if l.o.Publish != nil {
			l.o.Publish(t.chunk, t.entries)
		}
	}
	if t.err == nil && t.sealsChunk {
		l.sealChunk(t.chunk)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.err == nil {
		l.committed.Store(uint64(t.pos))
	}
	clear(t.entries)
	if cap(t.entries) > cap(l.entriesBuf) {
		l.entriesBuf = t.entries[:0]
	}
	t.entries, t.finished = nil, true
	if t.doneCh != nil {
		close(t.doneCh)
	}
}

// sealChunk hands a chunk that is complete, with its first reference, to the consumer.
func (l *Log) sealChunk(c *Chunk) {
	if l.o.Seal == nil {
		c.Release()
		return
	}
	l.o.Seal(c)
}

// result returns what became of a finished turn.
func (t *writeTask) result() (Position, error) {
	if t.err != nil {
		return 0, t.err
	}
	return t.pos, nil
}

// finishedCh returns what to wait for until the turn is finished, or nil if it is. l.mu
// is held.
func (t *writeTask) finishedCh() <-chan struct{} {
	if t == nil || t.finished {
		return nil
	}
	if t.doneCh == nil {
		t.doneCh = make(chan struct{})
	}
	return t.doneCh
}

// Sync returns when everything committed before is on stable storage.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.current == nil && l.failed == nil && l.written > l.durable {
		l.stateCond.Wait() // for the goroutine that is ending the chunk, with a sync
	}
	if l.failed != nil || l.written <= l.durable {
		return l.failed
	}
	// Segments are synced before the next one is begun, so only this is not.
	s := l.current.seg
	l.pinSegment(s)
	l.setFence()
	t := &writeTask{chunk: l.current}
	l.enqueueTask(t)
	l.runTask(t)
	err := t.err
	if err == nil {
		err = l.syncFile(s.file, t.pos)
	}
	l.mu.Lock()
	l.unpinSegment(s)
	return err
}

// setFence lets the next frame begin in a block of its own: what is before it is about
// to be synced, and a block with something durable in it is not written again. l.mu
// is held.
func (l *Log) setFence() {
	if l.openFrame != nil {
		l.openFrame, l.nextOffset = nil, alignToBlock(l.openFrame.end)
	}
	l.nextOffset = alignToBlock(l.nextOffset)
}

// syncFile makes a file durable of which everything up to a position was written. One
// at a time does so: the system reports lost pages only once, so of two that wait
// for the same pages one would miss the loss. For the same reason nothing is
// synced after a failure.
func (l *Log) syncFile(file File, upTo Position) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil || l.durable >= upTo {
		return l.failed
	}
	l.mu.Unlock()
	err := file.Sync()
	l.mu.Lock()
	if err != nil {
		l.setFailed(err)
		return l.failed
	}
	l.counters.Syncs++
	l.durable = max(l.durable, upTo)
	return nil
}

// maxUnsyncedBytes is how much may be unsynced before the background sync is asked for
// more. Rotation waits for a sync; so it has little left to do.
func (l *Log) maxUnsyncedBytes() int { return max(l.o.SegmentBytes/4, 1<<20) }

// syncInBackground is the one goroutine that syncs for EverySec and Never.
func (l *Log) syncInBackground() {
	tick := l.o.Tick
	switch {
	case l.o.Durability == Never:
		tick = nil
	case tick == nil:
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-l.stop:
			return
		case <-tick:
		case <-l.syncSoon:
		}
		if l.Sync() != nil {
			return // the failure is remembered, and returned to the next caller
		}
	}
}

// Rotate ends the chunk in use if there is something in it, so that it is applied soon,
// and not when others have filled it. When it returns the chunk is sealed.
func (l *Log) Rotate() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.checkOpen(); err != nil {
			return err
		}
		switch {
		case l.rotating:
			l.stateCond.Wait()
		case l.diskFull && l.currentReserved:
			return l.shortage
		case l.current == nil, l.nextOffset == blockBytes && l.openFrame == nil:
			return nil
		default:
			l.rotating = true
			err := l.rotateChunk(false, 0)
			l.rotating = false
			l.stateCond.Broadcast()
			return err
		}
	}
}
