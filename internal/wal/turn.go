package wal

import (
	"runtime"

	"github.com/cleavekv/cleave/internal/plant"
)

// turn is a piece of work that happens in log order: the write of a frame, the end
// of a chunk, or nothing, for a Sync that has to know that all before it is
// written. Whoever made it waits until everything before it was written,
// does its own I/O, passes the turn on, and then, again in order, publishes. So
// while one frame is published the next is being written, and nobody who finds the
// log idle ever waits for another goroutine.
type turn struct {
	chunk   *Chunk
	start   int // of the frame in the chunk
	end     int // of the entries, so far
	kind    frameKind
	seals   bool // the chunk ends here
	packed  bool // the next frame may begin in this one's last block
	shared  bool // by several Appends
	entries []Entry

	now      chan struct{} // closed when it is this turn; nil if it was at once
	done     chan struct{} // closed when finished; made when somebody wants to wait
	finished bool
	pos      Position
	err      error
}

// enter queues a turn, or takes it at once. l.mu is held.
func (l *Log) enter(t *turn) {
	if l.busy {
		t.now = make(chan struct{})
		l.queue = append(l.queue, t)
	}
	l.busy = true
}

// run waits for the turn and does its work. It is called with l.mu held and
// returns without it.
func (l *Log) run(t *turn) {
	if t.now != nil {
		l.mu.Unlock()
		<-t.now
		l.mu.Lock()
	}
	if l.open == t && l.crowded && l.o.Durability != Always {
		// A write to the OS is so short that few would share the next one. Let those
		// who can run now come in first.
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	l.crowded = t.shared
	t.packed = l.o.Durability != Always && t.kind == kindData && t.end-t.start < packBelow
	if l.open == t {
		l.open, l.next = nil, t.after()
	}
	before := l.last.wait()
	l.last = t
	info := frameInfo{
		bytes: t.end - t.start, sequence: t.chunk.seg.sequence, prev: l.tail,
		watermark: l.durable, kind: t.kind, count: len(t.entries),
	}
	if t.kind != 0 {
		l.tail = position(info.sequence, aligned(t.end))
	}
	t.pos = l.tail
	if t.err = l.failed; t.err == nil {
		l.mu.Unlock()
		err := l.perform(t, info)
		l.mu.Lock()
		l.performed(t, err)
	}
	l.pass()
	l.mu.Unlock()
	if before != nil {
		<-before
	}
	l.publish(t)
}

// perform is the I/O of a turn.
func (l *Log) perform(t *turn, info frameInfo) error {
	file := t.chunk.seg.file
	if t.seals && l.o.Durability != Always {
		// What follows proves that this segment was durable, so it has to be.
		if err := l.flush(file, info.prev); err != nil {
			return err
		}
		info.watermark = info.prev
	}
	if t.kind == 0 {
		return nil
	}
	image, from := l.image(t, info)
	if t.kind == kindClose || l.o.Durability == Always && !plant.Bug("wal-ack-before-durable") {
		return file.WriteDurable(image, int64(from))
	}
	_, err := file.WriteAt(image, int64(from))
	return err
}

// image finishes the frame of a turn and returns what to write and where. It ends
// at a block's end, also if the frame does not, so that the system need not read a
// block to write its beginning; one of which it writes the rest was written whole
// just before. Of a packed frame it is a copy: others stage the next one in the
// rest of its last block meanwhile.
func (l *Log) image(t *turn, info frameInfo) (image []byte, from int) {
	mem := t.chunk.mem
	finishFrame(mem[t.start:t.end], info, l.salt)
	if from = t.start; from == blockBytes {
		from = 0 // the first frame takes the header along
	}
	if !t.packed {
		clear(mem[t.end:padded(t.end)])
		return mem[from:padded(t.end)], from
	}
	image = append(l.scratch[:0], mem[from:t.end]...)
	end := padded(t.end) - from
	clear(image[len(image):end])
	return image[:end], from
}

// after returns where the next frame may begin.
func (t *turn) after() int {
	if t.packed {
		return aligned(t.end)
	}
	return padded(t.end)
}

// performed records what the I/O of a turn achieved. l.mu is held.
func (l *Log) performed(t *turn, err error) {
	if err != nil {
		l.fail(err)
	}
	if l.failed != nil && (err != nil || l.o.Durability != Always) {
		// A sync that failed meanwhile leaves this frame in doubt too.
		t.err = &unknown{l.failed}
		return
	}
	l.written = t.pos
	if t.seals || l.o.Durability == Always {
		l.durable = max(l.durable, t.pos)
	}
	t.chunk.end, t.chunk.seg.end = t.pos, t.pos
	if t.kind != 0 {
		l.count.Frames++
		l.count.Entries += uint64(len(t.entries))
		l.count.WrittenBytes += uint64(t.after() - t.start)
		l.unsynced += t.after() - t.start
	}
	if l.o.Durability != Always && l.unsynced >= l.flushAhead() {
		l.unsynced = 0
		select {
		case l.kick <- struct{}{}:
		default: // it was told already
		}
	}
	if t.kind == kindClose || t.kind != 0 && l.o.Durability == Always {
		l.count.Syncs++
	}
}

// pass gives the turn to the next in line. l.mu is held.
func (l *Log) pass() {
	if len(l.queue) == 0 {
		l.busy = false
		return
	}
	close(l.queue[0].now)
	l.queue[0] = nil
	l.queue = l.queue[1:]
}

// publish shows the outcome to the consumer and to those who wait.
func (l *Log) publish(t *turn) {
	if t.err == nil && len(t.entries) > 0 {
		for i := range t.entries {
			t.entries[i].Pos = t.pos
		}
		if l.o.Publish != nil {
			l.o.Publish(t.chunk, t.entries)
		}
	}
	if t.err == nil && t.seals {
		l.seal(t.chunk)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.err == nil {
		l.committed.Store(uint64(t.pos))
	}
	clear(t.entries)
	if cap(t.entries) > cap(l.spent) {
		l.spent = t.entries[:0]
	}
	t.entries, t.finished = nil, true
	if t.done != nil {
		close(t.done)
	}
}

// seal hands a chunk that is complete, with its first reference, to the consumer.
func (l *Log) seal(c *Chunk) {
	if l.o.Seal == nil {
		c.Release()
		return
	}
	l.o.Seal(c)
}

// outcome returns what became of a finished turn.
func (t *turn) outcome() (Position, error) {
	if t.err != nil {
		return 0, t.err
	}
	return t.pos, nil
}

// wait returns what to wait for until the turn is finished, or nil if it is. l.mu
// is held.
func (t *turn) wait() <-chan struct{} {
	if t == nil || t.finished {
		return nil
	}
	if t.done == nil {
		t.done = make(chan struct{})
	}
	return t.done
}
