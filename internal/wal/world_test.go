package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"sync"
)

// world is a log with its writers, a consumer and everything that was promised to
// them. It outlives crashes, as the users of a store do.
type world struct {
	seed  uint64
	rng   *rand.Rand
	disk  *disk
	o     Options
	log   *Log
	calls uint64 // Appends so far, which are their names

	mu       sync.Mutex
	history  []line             // published, in order; after a crash, what was replayed
	floor    int                // how many lines of it must survive
	maybe    map[uint64]outcome // Appends that are not in the history
	from     Position           // applied durably, as a store would remember it
	replayed []line
	problems []string

	sealed   chan *Chunk
	consumer sync.WaitGroup
	crashes  int
}

// outcome says what is known of an Append that was not acknowledged.
type outcome int

const (
	running outcome = iota
	unknownOutcome
	refused
)

// line is one entry as it was seen.
type line struct {
	pos            Position
	call           uint64
	index, entries int
}

var polynomial = crc64.MakeTable(crc64.ECMA)

const payloadHeader = 8 + 4 + 4 + 8

// payload makes an entry that says which Append it is of, and that cannot be
// mistaken for another one's when only a part of it survived.
func payload(call uint64, index, entries, size int) []byte {
	p := make([]byte, max(size, payloadHeader))
	for i := payloadHeader; i < len(p); i++ {
		p[i] = byte(call + uint64(index) + uint64(i>>9)) // another one in each sector
	}
	binary.LittleEndian.PutUint64(p, call)
	binary.LittleEndian.PutUint32(p[8:], uint32(index))
	binary.LittleEndian.PutUint32(p[12:], uint32(entries))
	binary.LittleEndian.PutUint64(p[16:], crc64.Checksum(p[payloadHeader:], polynomial)^call)
	return p
}

func (w *world) read(e Entry) line {
	if len(e.Payload) < payloadHeader {
		w.problem("entry at %s has %d bytes: it was never appended", e.Pos, len(e.Payload))
		return line{}
	}
	l := line{
		pos: e.Pos, call: binary.LittleEndian.Uint64(e.Payload),
		index: int(binary.LittleEndian.Uint32(e.Payload[8:])), entries: int(binary.LittleEndian.Uint32(e.Payload[12:])),
	}
	if crc64.Checksum(e.Payload[payloadHeader:], polynomial)^l.call != binary.LittleEndian.Uint64(e.Payload[16:]) || e.Group != l.call%7 {
		w.problem("entry %d.%d at %s is not what was appended", l.call, l.index, e.Pos)
	}
	return l
}

func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.problems) < 10 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

func newWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{seed: seed, rng: rng, disk: newDisk(seed), maybe: map[uint64]outcome{}}
	w.o = Options{
		ID: [16]byte{1, 2, 3}, Durability: Durability(rng.IntN(3)),
		SegmentBytes: blockBytes * (4 + rng.IntN(12)), Chunks: 1 + rng.IntN(3),
		Retain: []int64{-1, 32 << 10, 1 << 20}[rng.IntN(3)], Reserve: []int{-1, 1}[rng.IntN(2)],
		Publish: w.publish, Seal: func(c *Chunk) { w.sealed <- c },
	}
	return w
}

// publish is the log's: what it shows must be what was appended, in order.
func (w *world) publish(c *Chunk, es []Entry) {
	c.Retain()
	defer c.Release()
	lines := make([]line, len(es))
	for i, e := range es {
		lines[i] = w.read(e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, lines...)
}

// open starts the log. A crash in Open is not a failure of it.
func (w *world) open() error {
	w.replayed = nil
	w.sealed = make(chan *Chunk, 100)
	ready := make(chan *Log, 1)
	w.consumer.Go(func() { w.consume(ready) })
	from := w.from
	w.o.FS = w.disk
	l, err := Open(w.o, from, func(_ *Chunk, es []Entry) error {
		for _, e := range es {
			w.replayed = append(w.replayed, w.read(e))
		}
		return nil
	})
	ready <- l
	if err != nil {
		close(w.sealed)
		w.consumer.Wait()
		return err
	}
	w.log = l
	w.compare(from)
	return nil
}

// consume applies chunks: it makes them durable elsewhere, at times at once and at
// times never, gives them back and lets the log recycle.
func (w *world) consume(ready chan *Log) {
	var l *Log
	rng := rand.New(rand.NewPCG(w.seed, uint64(w.crashes)))
	for c := range w.sealed {
		var es []Entry
		sc := newScan(c.mem, header{id: w.o.ID, sequence: c.seg.sequence, prev: c.seg.prev})
		for sc.end() < c.End() {
			f, b, ok := sc.next()
			if !ok {
				w.problem("sealed chunk %08x ends at %s, not %s: %s", c.seg.sequence, sc.end(), c.End(), sc.reason)
				break
			}
			es = appendEntries(es[:0], b, f, sc.end())
			for _, e := range es {
				w.read(e)
			}
		}
		end := c.End()
		c.Release()
		if rng.IntN(3) == 0 {
			continue // slow: the next one makes it durable
		}
		w.mu.Lock()
		w.from = end
		w.mu.Unlock()
		select {
		case l = <-ready:
		default:
		}
		if l != nil {
			l.Recycle(end)
		}
	}
}

// compare checks what Open replayed against what was promised, and takes it as the
// truth from here on.
func (w *world) compare(from Position) {
	w.mu.Lock()
	old, got := w.history, w.replayed
	for len(old) > 0 && old[0].pos <= from {
		old, w.floor = old[1:], max(w.floor-1, 0)
	}
	floor := w.floor
	w.mu.Unlock()
	if len(got) < floor {
		w.problem("%d entries were promised, %d replayed", floor, len(got))
	}
	for i := range min(len(got), len(old)) {
		if got[i] != old[i] {
			w.problem("entry %d is %+v, but %+v was published", i, got[i], old[i])
			break
		}
	}
	seen := map[uint64]bool{}
	for i := 0; i < len(got); {
		first := got[i]
		if seen[first.call] {
			w.problem("Append %d was replayed twice", first.call)
		}
		seen[first.call] = true
		for index := range first.entries {
			if i >= len(got) || got[i].call != first.call || got[i].index != index || got[i].pos != first.pos {
				w.problem("Append %d of %d entries was replayed in part, at %d", first.call, first.entries, index)
				break
			}
			i++
		}
		if first.entries == 0 {
			return
		}
	}
	w.mu.Lock()
	extra := got[min(len(got), len(old)):]
	w.history, w.floor = got, len(got)
	w.mu.Unlock()
	for _, l := range extra {
		if o, ok := w.maybe[l.call]; !ok || o == refused {
			w.problem("Append %d was replayed; it was refused, or never made", l.call)
		}
	}
}

// appendOne appends one batch and remembers what came of it.
func (w *world) appendOne(rng *rand.Rand) error {
	w.mu.Lock()
	w.calls++
	call := w.calls
	w.maybe[call] = running
	w.mu.Unlock()
	es := make([]Entry, 1+rng.IntN(3))
	for i := range es {
		size := rng.IntN(200)
		switch rng.IntN(80) {
		case 0:
			size = w.o.SegmentBytes + rng.IntN(20<<10)
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
			size = rng.IntN(12 << 10)
		}
		es[i] = Entry{Group: call % 7, Payload: payload(call, i, len(es), size)}
	}
	pos, err := w.log.Append(rng.IntN(5) == 0, es...)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		delete(w.maybe, call)
		if w.o.Durability == Always {
			w.raiseFloor(pos)
		}
	case errors.Is(err, ErrUnknown):
		w.maybe[call] = unknownOutcome
	default:
		w.maybe[call] = refused
	}
	return err
}

// raiseFloor says that everything up to pos was promised. w.mu is held.
func (w *world) raiseFloor(pos Position) {
	n := len(w.history)
	for n > w.floor && w.history[n-1].pos > pos {
		n--
	}
	w.floor = max(w.floor, n)
}

// syncOne promises what was published before a successful Sync.
func (w *world) syncOne() {
	upTo := w.log.Committed()
	if w.log.Sync() == nil {
		w.mu.Lock()
		w.raiseFloor(upTo)
		w.mu.Unlock()
	}
}

// follow reads the feed from somewhere and compares it with the history.
func (w *world) follow(rng *rand.Rand) {
	w.mu.Lock()
	var pos Position
	if n := len(w.history); n > 0 && rng.IntN(5) > 0 {
		pos = w.history[rng.IntN(n)].pos
	}
	w.mu.Unlock()
	var got []line
	to, err := w.log.ReadFrom(pos, func(e Entry) error {
		got = append(got, w.read(e))
		return nil
	})
	if errors.Is(err, ErrGone) && len(got) == 0 {
		return
	}
	if err != nil && !errors.Is(err, ErrGone) {
		if !errors.Is(err, errCrashed) && !errors.Is(err, ErrClosed) {
			w.problem("feed from %s: %v", pos, err)
		}
		return
	}
	w.mu.Lock()
	var want []line
	for _, l := range w.history {
		if l.pos > pos && l.pos <= to {
			want = append(want, l)
		}
	}
	w.mu.Unlock()
	// What was applied before the last Open is not in the history any more.
	if len(got) > len(want) && len(want) > 0 {
		got = got[len(got)-len(want):]
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			w.problem("feed from %s to %s has %d entries and differs at %d of %d", pos, to, len(got), i, len(want))
			return
		}
	}
}

// stop ends this life of the log: cleanly, or by a crash that keeps some of what
// was not synced.
func (w *world) stop(clean bool) error {
	var err error
	if !clean {
		w.disk.set(func(d *disk) { d.dead = true })
	}
	if w.log != nil {
		err = w.log.Close()
		w.log = nil
		close(w.sealed)
		w.consumer.Wait()
	}
	if clean && err == nil {
		w.mu.Lock()
		w.floor = len(w.history)
		w.mu.Unlock()
	}
	w.crashes++
	w.disk = w.disk.crash([]float64{0, 0.5, 1}[w.rng.IntN(3)])
	return err
}
