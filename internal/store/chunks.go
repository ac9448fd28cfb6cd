package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/rows"
	"github.com/cleavekv/cleave/internal/runs"
	"github.com/cleavekv/cleave/internal/wal"
)

// chunk is what is known about one segment of the log that is not in Pebble
// yet.
type chunk struct {
	memory *wal.Chunk // the bytes that the operations of set are views of
	set    runs.Set
	gen    uint64 // of its rows in the row table
	// end is the position of the last entry that was published; once sealed, that
	// of the segment's end.
	end wal.Position
	// payload is how many bytes of operations were published to it. The log takes more:
	// each of its frames begins a block.
	payload int64
	// sealed means that nothing is published to it any more. Chunks are sealed
	// in order, so all but the newest one or few are.
	sealed   bool
	sealedAt time.Time // by the clock of the machine
	// readers are the snapshots that look at it, and applied tells that it is off
	// the list: only they keep it in memory.
	readers int
	applied bool
}

// size is how many bytes of log are kept for the chunk: all of its segment, of which a crash may have
// left most unused. Were that not counted, a store that dies again and again soon after Open would
// keep a segment for each time.
func (c *chunk) size() int64 {
	if plant.Bug("store-crashes-pile-up") {
		return int64(uint32(c.end))
	}
	return int64(c.memory.SegmentBytes())
}

// unapplied is the list of chunks that are not applied, oldest first, and the
// place where commits become visible.
//
// Invariants: a committed operation is in a chunk of the list or in Pebble, at
// times in both. Whoever copies the list first and asks Pebble second misses
// nothing. The list holds one reference to the memory of each of its chunks.
type unapplied struct {
	table *rows.Table

	// publishing is held while a frame becomes visible. sequence is odd during
	// that time, for readers who would rather look twice than wait.
	publishing sync.Mutex
	sequence   atomic.Uint64
	published  atomic.Uint64 // position of the last entry that is visible
	followers  []*Changes    // guarded by publishing
	waits      atomic.Uint64 // calls of await that had to wait

	mu     sync.Mutex
	list   []*chunk
	last   uint64       // the newest generation
	limit  int64        // how many chunks may be sealed before writers wait
	sealed atomic.Int64 // how many of list are
	room   sync.Cond    // there are fewer
	kept   int          // chunks that are off the list and that snapshots keep
}

func (u *unapplied) init(table *rows.Table, chunks int) {
	u.table, u.room.L = table, &u.mu
	u.limit = int64(chunks) - 1 // one is being filled
}

// await holds writers back while the applier is behind, but not beyond a change
// for the worse that stop tells of. The chunks are counted here and not by the
// log, for which a chunk is in use as long as a snapshot looks at it: a snapshot
// that is held long must not hold up commits.
func (u *unapplied) await(stop func() bool) {
	if !u.full() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waits.Add(1)
	for u.full() && !stop() {
		u.room.Wait()
	}
}

// full tells whether writers wait.
func (u *unapplied) full() bool { return u.sealed.Load() >= u.limit }

// recheck makes those who wait ask again whether to stop.
func (u *unapplied) recheck() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.room.Broadcast()
}

// publish makes the entries of one frame visible. The log calls it in log
// order and one at a time, after the frame is committed.
func (u *unapplied) publish(memory *wal.Chunk, es []wal.Entry) error {
	if len(es) == 0 {
		return nil
	}
	u.publishing.Lock()
	defer u.publishing.Unlock()
	c := u.newest(memory)
	u.sequence.Add(1)
	defer u.sequence.Add(1)
	u.table.Begin()
	defer u.table.Reveal() // after the last row, and whatever happens: readers wait for it
	for i := range es {
		if err := u.publishEntry(c, &es[i]); err != nil {
			return err
		}
	}
	c.set.Reveal()
	c.end = es[len(es)-1].Pos
	u.published.Store(uint64(c.end))
	return nil
}

// publishEntry makes the operations of an entry visible. The rows of some are asked for
// together, so that they wait for memory once: that is most of the time it takes.
func (u *unapplied) publishEntry(c *chunk, e *wal.Entry) error {
	b, err := effect.Parse(e.Payload)
	if err != nil {
		return err
	}
	var ops [rows.TouchMost]effect.Op
	n := 0
	for _, op := range b.All() {
		ops[n] = op
		if n++; n == len(ops) {
			u.publishOps(c, ops[:], e.Pos)
			n = 0
		}
	}
	u.publishOps(c, ops[:n], e.Pos)
	c.payload += int64(len(e.Payload))
	return nil
}

func (u *unapplied) publishOps(c *chunk, ops []effect.Op, at wal.Position) {
	for _, f := range u.followers {
		f.hear(ops, at)
	}
	if len(ops) > fewOps {
		var hints [rows.TouchMost]rows.Hint
		for i := range ops {
			hints[i] = u.table.Seek(ops[i].Key)
		}
		for _, h := range hints[:len(ops)] {
			u.table.Near(h)
		}
	}
	for i := range ops {
		op := &ops[i]
		u.table.Publish(c.gen, op.Key, op.Value, op.Delete)
		c.set.Stage(op.Key, op.Value, op.Delete)
	}
}

// fewOps are not worth asking for their rows beforehand.
const fewOps = 3

// newest returns the chunk of memory, which is the last of the list or is added
// to it.
func (u *unapplied) newest(memory *wal.Chunk) *chunk {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.list); n > 0 && u.list[n-1].memory == memory {
		return u.list[n-1]
	}
	u.last++
	c := &chunk{memory: memory, gen: u.last}
	u.list = append(u.list, c)
	return c
}

// seal notes that nothing more comes for memory.
func (u *unapplied) seal(memory *wal.Chunk) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.list {
		if c.memory == memory {
			// A frame without entries may follow the last one with some.
			c.end = memory.End()
			c.sealed, c.sealedAt = true, time.Now()
			u.sealed.Add(1)
			return
		}
	}
	memory.Release() // nothing was ever published to it
}

// sealedFirst returns the first chunks of the list that are sealed, most of them at most.
func (u *unapplied) sealedFirst(most int) []*chunk {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for n < min(most, len(u.list)) && u.list[n].sealed {
		n++
	}
	return slices.Clone(u.list[:n])
}

// drop takes the first chunk off the list.
func (u *unapplied) drop(c *chunk) {
	u.mu.Lock()
	if c.applied = true; c.readers > 0 {
		u.kept++
	}
	u.list[0] = nil
	u.list = u.list[1:]
	u.sealed.Add(-1)
	u.room.Broadcast()
	u.mu.Unlock()
	c.memory.Release()
}

// premature makes rows visible that are not committed. It is a planted bug.
func (u *unapplied) premature(es []wal.Entry) {
	for i := range es {
		b, _ := effect.Parse(es[i].Payload)
		for _, op := range b.All() {
			u.table.Publish(0, op.Key, op.Value, op.Delete)
		}
	}
}
