package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// TestAcknowledgedEntriesSurviveCrashes is the law of the package. It appends from
// several goroutines, crashes at a random operation (in Open, while zeros are
// written, while files are renamed, in the midst of a write), opens again, and
// compares. CLEAVE_SEED replays one seed, as far as the scheduler agrees;
// CLEAVE_SOAK runs for a long time.
func TestAcknowledgedEntriesSurviveCrashes(t *testing.T) {
	first, n := rand.Uint64()>>16, 300/slowdown
	if testing.Short() {
		n = 60 / slowdown
	}
	if os.Getenv("CLEAVE_SOAK") != "" {
		n = 10_000
	}
	if s := os.Getenv("CLEAVE_SEED"); s != "" {
		var err error
		if first, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
		n = 1
	}
	crashes, during := 0, 0
	for i := range n {
		w := newCrashHarness(first + uint64(i))
		during += w.runLives(4 + w.rng.IntN(6))
		crashes += w.crashes
		if len(w.problems) > 0 {
			for _, p := range w.problems {
				t.Error(p)
			}
			t.Fatalf("durability %s; replay with CLEAVE_SEED=%d go test -run %s ./internal/storage/wal", w.o.Durability, w.seed, t.Name())
		}
	}
	tally.Add(t, "seeds", n)
	tally.Add(t, "crashes", crashes)
	tally.Add(t, "crashes during Open", during)
	if during == 0 && n > 1 {
		t.Error("no crash happened during Open: the test is not what it says")
	}
}

// runLives goes through some lives of the log and returns how many ended in Open.
func (w *crashHarness) runLives(lives int) (during int) {
	for life := range lives {
		if len(w.problems) > 0 {
			return during
		}
		last := life == lives-1
		if !last && w.rng.IntN(3) == 0 {
			w.disk.configure(func(d *crashDisk) { d.fuse = w.rng.IntN(4) })
		}
		if err := w.openLog(); err != nil {
			if !errors.Is(err, errCrashed) || last {
				w.reportProblem("open: %v", err)
				return during
			}
			during++
			_ = w.stopLog(false)
			continue
		}
		clean := last || w.rng.IntN(4) == 0
		if !clean {
			w.disk.configure(func(d *crashDisk) { d.fuse, d.failOnce = w.rng.IntN(120), w.rng.IntN(4) == 0 })
		}
		w.runWriters(clean)
		if err := w.stopLog(clean); clean && err != nil && !errors.Is(err, errCrashed) {
			w.reportProblem("close: %v", err)
		}
	}
	return during
}

// runWriters appends from several goroutines until the disk dies, or for a while.
func (w *crashHarness) runWriters(clean bool) {
	var wg sync.WaitGroup
	for g := range 1 + w.rng.IntN(4) {
		rng := rand.New(rand.NewPCG(w.rng.Uint64(), uint64(g)))
		wg.Go(func() {
			for i := 0; !clean && i < 2000 || i < 20; i++ {
				switch rng.IntN(20) {
				case 0:
					w.syncOne()
				case 1:
					w.checkFeed(rng)
				case 2, 3:
					select {
					case w.tick <- time.Time{}:
					default: // it is being written, or the log is dead
					}
				}
				if err := w.appendOne(rng); errors.Is(err, ErrFailed) {
					return
				} else if err != nil {
					w.reportProblem("append: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// crashHarness is a log with its writers, a consumer and everything that was promised to
// them. It outlives crashes, as the users of a store do.
type crashHarness struct {
	seed  uint64
	rng   *rand.Rand
	disk  *crashDisk
	o     Options
	log   *Log
	calls uint64 // Appends so far, which are their names

	mu          sync.Mutex
	history     []seenEntry              // published, in order; after a crash, what was replayed
	mustSurvive int                      // how many lines of it must survive
	unpublished map[uint64]appendOutcome // Appends that are not in the history
	from        Position                 // applied durably, as a store would remember it
	replayed    []seenEntry
	problems    []string

	sealed   chan *Chunk
	tick     chan time.Time // of the manifest
	consumer sync.WaitGroup
	crashes  int
}

// appendOutcome is what is known of an Append that was not acknowledged.
type appendOutcome int

const (
	outcomeRunning appendOutcome = iota
	outcomeUnknown
	outcomeRefused
)

// seenEntry is one entry as it was seen.
type seenEntry struct {
	pos            Position
	call           uint64
	index, entries int
}

var polynomial = crc64.MakeTable(crc64.ECMA)

const payloadHeader = 8 + 4 + 4 + 8

// makePayload makes an entry that says which Append it is of, and that cannot be
// mistaken for another one's when only a part of it survived.
func makePayload(call uint64, index, entries, size int) []byte {
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

func (w *crashHarness) parseEntry(e Entry) seenEntry {
	if len(e.Payload) < payloadHeader {
		w.reportProblem("entry at %s has %d bytes: it was never appended", e.Pos, len(e.Payload))
		return seenEntry{}
	}
	l := seenEntry{
		pos: e.Pos, call: binary.LittleEndian.Uint64(e.Payload),
		index: int(binary.LittleEndian.Uint32(e.Payload[8:])), entries: int(binary.LittleEndian.Uint32(e.Payload[12:])),
	}
	if crc64.Checksum(e.Payload[payloadHeader:], polynomial)^l.call != binary.LittleEndian.Uint64(e.Payload[16:]) || e.Group != l.call%7 {
		w.reportProblem("entry %d.%d at %s is not what was appended", l.call, l.index, e.Pos)
	}
	return l
}

func (w *crashHarness) reportProblem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.problems) < 10 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

func newCrashHarness(seed uint64) *crashHarness {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &crashHarness{seed: seed, rng: rng, disk: newCrashDisk(seed), unpublished: map[uint64]appendOutcome{}, tick: make(chan time.Time)}
	w.o = Options{
		ID: [16]byte{1, 2, 3}, Durability: Durability(rng.IntN(3)),
		SegmentBytes: blockBytes * (4 + rng.IntN(12)), Chunks: 1 + rng.IntN(3),
		Retain: []int64{-1, 32 << 10, 1 << 20}[rng.IntN(3)], Reserve: []int{-1, 1}[rng.IntN(2)],
		Publish: w.onPublish, Seal: func(c *Chunk) { w.sealed <- c }, ManifestTick: w.tick,
	}
	return w
}

// onPublish is the log's: what it shows must be what was appended, in order.
func (w *crashHarness) onPublish(c *Chunk, es []Entry) {
	c.Retain()
	defer c.Release()
	lines := make([]seenEntry, len(es))
	for i, e := range es {
		lines[i] = w.parseEntry(e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, lines...)
}

// openLog starts the log. A crash in Open is not a failure of it.
func (w *crashHarness) openLog() error {
	w.replayed = nil
	w.sealed = make(chan *Chunk, 100)
	ready := make(chan *Log, 1)
	w.consumer.Go(func() { w.runConsumer(ready) })
	from := w.from
	w.o.FS = w.disk
	l, err := Open(w.o, from, func(_ *Chunk, es []Entry) error {
		for _, e := range es {
			w.replayed = append(w.replayed, w.parseEntry(e))
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
	w.o.ManifestRequired = true // from here on one is there, whatever a crash takes
	w.checkReplay(from)
	return nil
}

// runConsumer applies chunks: it makes them durable elsewhere, at times at once and at
// times never, gives them back and lets the log recycle.
func (w *crashHarness) runConsumer(ready chan *Log) {
	var l *Log
	rng := rand.New(rand.NewPCG(w.seed, uint64(w.crashes)))
	for c := range w.sealed {
		var es []Entry
		sc := newFrameScanner(c.mem, header{id: w.o.ID, sequence: c.seg.sequence, prev: c.seg.prev})
		for sc.endPosition() < c.End() {
			f, b, ok := sc.next()
			if !ok {
				w.reportProblem("sealed chunk %08x ends at %s, not %s: %s", c.seg.sequence, sc.endPosition(), c.End(), sc.reason)
				break
			}
			es = appendEntries(es[:0], b, f, sc.endPosition())
			for _, e := range es {
				w.parseEntry(e)
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

// checkReplay checks what Open replayed against what was promised, and takes it as the
// truth from here on.
func (w *crashHarness) checkReplay(from Position) {
	w.mu.Lock()
	old, got := w.history, w.replayed
	for len(old) > 0 && old[0].pos <= from {
		old, w.mustSurvive = old[1:], max(w.mustSurvive-1, 0)
	}
	floor := w.mustSurvive
	w.mu.Unlock()
	if len(got) < floor {
		w.reportProblem("%d entries were promised, %d replayed", floor, len(got))
	}
	for i := range min(len(got), len(old)) {
		if got[i] != old[i] {
			w.reportProblem("entry %d is %+v, but %+v was published", i, got[i], old[i])
			break
		}
	}
	seen := map[uint64]bool{}
	for i := 0; i < len(got); {
		first := got[i]
		if seen[first.call] {
			w.reportProblem("Append %d was replayed twice", first.call)
		}
		seen[first.call] = true
		for index := range first.entries {
			if i >= len(got) || got[i].call != first.call || got[i].index != index || got[i].pos != first.pos {
				w.reportProblem("Append %d of %d entries was replayed in part, at %d", first.call, first.entries, index)
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
	w.history, w.mustSurvive = got, len(got)
	w.mu.Unlock()
	for _, l := range extra {
		if o, ok := w.unpublished[l.call]; !ok || o == outcomeRefused {
			w.reportProblem("Append %d was replayed; it was refused, or never made", l.call)
		}
	}
}

// appendOne appends one batch and remembers what came of it.
func (w *crashHarness) appendOne(rng *rand.Rand) error {
	w.mu.Lock()
	w.calls++
	call := w.calls
	w.unpublished[call] = outcomeRunning
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
		es[i] = Entry{Group: call % 7, Payload: makePayload(call, i, len(es), size)}
	}
	pos, err := w.log.Append(rng.IntN(5) == 0, es...)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		delete(w.unpublished, call)
		if w.o.Durability == Always {
			w.raiseMustSurvive(pos)
		}
	case errors.Is(err, ErrUnknown):
		w.unpublished[call] = outcomeUnknown
	default:
		w.unpublished[call] = outcomeRefused
	}
	return err
}

// raiseMustSurvive records that everything up to pos was promised. w.mu is held.
func (w *crashHarness) raiseMustSurvive(pos Position) {
	n := len(w.history)
	for n > w.mustSurvive && w.history[n-1].pos > pos {
		n--
	}
	w.mustSurvive = max(w.mustSurvive, n)
}

// syncOne promises what was published before a successful Sync.
func (w *crashHarness) syncOne() {
	upTo := w.log.Committed()
	if w.log.Sync() == nil {
		w.mu.Lock()
		w.raiseMustSurvive(upTo)
		w.mu.Unlock()
	}
}

// checkFeed reads the feed from somewhere and compares it with the history.
func (w *crashHarness) checkFeed(rng *rand.Rand) {
	w.mu.Lock()
	var pos Position
	if n := len(w.history); n > 0 && rng.IntN(5) > 0 {
		pos = w.history[rng.IntN(n)].pos
	}
	w.mu.Unlock()
	var got []seenEntry
	to, err := w.log.ReadFrom(pos, func(e Entry) error {
		got = append(got, w.parseEntry(e))
		return nil
	})
	if errors.Is(err, ErrGone) && len(got) == 0 {
		return
	}
	if err != nil && !errors.Is(err, ErrGone) {
		if !errors.Is(err, errCrashed) && !errors.Is(err, ErrClosed) {
			w.reportProblem("feed from %s: %v", pos, err)
		}
		return
	}
	w.mu.Lock()
	var want []seenEntry
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
			w.reportProblem("feed from %s to %s has %d entries and differs at %d of %d", pos, to, len(got), i, len(want))
			return
		}
	}
}

// stopLog ends this life of the log: cleanly, or by a crash that keeps some of what
// was not synced.
func (w *crashHarness) stopLog(clean bool) error {
	var err error
	if !clean {
		w.disk.configure(func(d *crashDisk) { d.dead = true })
	}
	if w.log != nil {
		err = w.log.Close()
		w.log = nil
		close(w.sealed)
		w.consumer.Wait()
	}
	if clean && err == nil {
		w.mu.Lock()
		w.mustSurvive = len(w.history)
		w.mu.Unlock()
	}
	w.crashes++
	w.disk = w.disk.crash([]float64{0, 0.5, 1}[w.rng.IntN(3)])
	return err
}
