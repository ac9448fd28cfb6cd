package protocol

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// moveRace is a move by several drivers, while rows are written. What one of them has read may
// be applied late, twice, or never.
type moveRace struct {
	*testCluster
	rng     *rand.Rand
	span    partition.Span
	base    uint64
	upto    uint64 // as in the record
	copiers []*Copier
	chunks  []Chunk
}

func newMoveRace(t *testing.T, seed uint64) *moveRace {
	r := &moveRace{testCluster: newTestCluster(t), rng: rand.New(rand.NewPCG(seed, 1))}
	for range 10 {
		r.writeRows()
	}
	r.span, r.base = r.beginCopy()
	r.upto = r.base
	for range 2 {
		r.copiers = append(r.copiers, new(Copier))
	}
	return r
}

// writeRows changes a row or two at the source.
func (r *moveRace) writeRows() {
	key := fmt.Sprint("k", r.rng.IntN(12))
	if r.rng.IntN(4) == 0 {
		r.mustDo(2, &command.Delete{Keys: []partition.Position{keyAt(key)}})
	} else {
		r.setKey(2, key, fmt.Sprint(r.rng.Uint64()))
	}
}

// pickCopier returns that of a driver, which may have begun anew.
func (r *moveRace) pickCopier() *Copier {
	i := r.rng.IntN(len(r.copiers))
	if r.rng.IntN(20) == 0 {
		r.copiers[i].Close()
	}
	return r.copiers[i]
}

// readChunk reads at the source.
func (r *moveRace) readChunk(x mover.Effect) {
	r.t.Helper()
	load, err := r.pickCopier().ReadChunk(r.findHost, x)
	if err != nil {
		r.t.Fatal(err)
	}
	r.chunks = append(r.chunks, load)
}

// applyChunk applies one of the last chunks that were read, and returns the event that comes of
// it.
func (r *moveRace) applyChunk() mover.Event {
	r.t.Helper()
	last := len(r.chunks) - 1
	ev := r.chunks[last-r.rng.IntN(min(last+1, 3))].Apply(background, r.findHost)
	switch ev := ev.(type) {
	case mover.CaughtUp:
		r.upto = max(r.upto, ev.CopiedUpTo)
	case mover.Verified:
		r.upto = max(r.upto, ev.CopiedUpTo)
		if !ev.Equal {
			r.t.Fatalf("the destination differs from the source at %d", ev.CopiedUpTo)
		}
	}
	return ev
}

// copyAll copies all rows, and returns when each piece has come at least once.
func (r *moveRace) copyAll() {
	x := mover.Copy{Job: 7, From: 2, To: 3, Span: r.span, Attempt: 1, BasePosition: r.base, LimitBytes: 200}
	for {
		r.readChunk(x)
		for range r.rng.IntN(4) {
			r.writeRows()
		}
		if r.rng.IntN(2) == 0 {
			r.applyChunk()
		}
		ev, ok := r.chunks[len(r.chunks)-1].Apply(background, r.findHost).(mover.Copied)
		if !ok {
			r.t.Fatal("a piece of the copy is refused")
		}
		if x.Cursor = ev.Next; len(x.Cursor) == 0 {
			return
		}
	}
}

// runStep writes, reads or applies something.
func (r *moveRace) runStep() {
	catchUp := mover.CatchUp{Job: 7, From: 2, To: 3, Span: r.span, Attempt: 1, CopiedUpTo: r.upto, LimitBytes: r.rng.IntN(300)}
	switch r.rng.IntN(10) {
	case 0, 1, 2, 3:
		r.writeRows()
	case 4, 5:
		r.readChunk(catchUp)
	case 6:
		r.readChunk(mover.Verify{Job: 7, From: 2, To: 3, Span: r.span, Attempt: 1, CopiedUpTo: r.upto})
	default:
		r.applyChunk()
	}
}

// Two drivers that know nothing of each other, one of which may forget what it knew, make the
// destination what the source is: where it is compared at one position, and at the end.
func TestADestinationBecomesItsSourceWhoeverBringsWhatWhen(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := newMoveRace(t, seed)
			r.copyAll()
			for range 150 {
				r.runStep()
			}
			end := uint64(r.stores[0].Position()) // nothing is written any more
			for r.upto < end {
				r.readChunk(mover.CatchUp{Job: 7, From: 2, To: 3, Span: r.span, Attempt: 1, CopiedUpTo: r.upto, LimitBytes: 1000, Until: end})
				r.applyChunk()
			}
			source, err := mover.SumSpan(r.stores[0], r.span)
			if err != nil {
				t.Fatal(err)
			}
			dest, err := mover.SumSpan(r.stores[1], r.span)
			if err != nil {
				t.Fatal(err)
			}
			if source != dest {
				t.Errorf("the destination has %+v, the source %+v", dest, source)
			}
		})
	}
}

// A row that is written again and again is copied once.
func TestWhatIsWrittenOftenIsBroughtOnce(t *testing.T) {
	w := newTestCluster(t)
	span, base := w.beginCopy()
	var c Copier
	x := mover.CatchUp{Job: 7, From: 2, To: 3, Span: span, Attempt: 1, CopiedUpTo: base, LimitBytes: 1 << 20}
	catchUp := func() mover.CaughtUp {
		t.Helper()
		load, err := c.ReadChunk(w.findHost, x)
		if err != nil {
			t.Fatal(err)
		}
		ev, ok := load.Apply(background, w.findHost).(mover.CaughtUp)
		if !ok || ev.More || ev.CopiedUpTo != uint64(w.stores[0].Position()) {
			t.Fatalf("it is answered with %+v", ev)
		}
		x.CopiedUpTo = ev.CopiedUpTo
		return ev
	}
	catchUp() // it follows from here on
	for i := range 100 {
		w.setKey(2, "again", fmt.Sprint(i))
	}
	w.setKey(2, "alone", "1")
	if ev := catchUp(); ev.Rows != 2 {
		t.Errorf("%d rows are brought for two that have changed", ev.Rows)
	}
	if left, known := c.ChangedBytes(); !known || left == 0 {
		t.Errorf("%d bytes are left, known %v, though nobody has said that they have come", left, known)
	}
	if left, own := c.RemainingBytes(w.stores[0], x.CopiedUpTo, x.CopiedUpTo, 0); left != 0 || !own {
		t.Errorf("%d bytes are left of those that have come, of the range %v", left, own)
	}
	if ev := catchUp(); ev.Rows != 0 {
		t.Errorf("%d rows are brought for none that has changed", ev.Rows)
	}
}

// All keys are remembered as long as they are few, each once. Of many it is a sample,
// in which keys that are written often are no more likely than others.
func TestFewKeysAreAllRememberedAndOfManyASample(t *testing.T) {
	var few keySample
	few.resetAt(mover.Verify{Job: 7}, 1)
	for i := range 3 * maxSampledKeys {
		few.addKey(fmt.Appendf(nil, "%d", i%maxSampledKeys))
	}
	if n := len(few.sortedKeys()); n != maxSampledKeys {
		t.Errorf("%d of %d keys", n, maxSampledKeys)
	}
	var many keySample
	many.resetAt(mover.Verify{Job: 7}, 1)
	const all = 16 * maxSampledKeys
	for i := range all {
		many.addKey(fmt.Appendf(nil, "%06d", i))
		many.addKey(fmt.Appendf(nil, "%06d", i%16)) // again and again
	}
	keys := many.sortedKeys()
	low := 0
	for _, k := range keys {
		if string(k) < fmt.Sprintf("%06d", all/2) {
			low++
		}
	}
	// Half of them, give or take five standard deviations of a fair coin.
	if n := len(keys); n != maxSampledKeys || low < n/2-113 || low > n/2+113 {
		t.Errorf("%d keys, %d of them of the lower half", n, low)
	}
}

// What was copied since both sides were compared is compared before the range changes hands,
// whether the driver remembers it or the log has to be read.
func TestWhatWasCarriedIsComparedFromMemoryOrFromTheLog(t *testing.T) {
	for _, name := range []string{"remembered", "forgotten", "with a gap"} {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t)
			span, base := w.beginCopy()
			carrier := new(Copier)
			verify := func(since uint64) mover.Verified {
				t.Helper()
				x := mover.Verify{Round: 4, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, CopiedUpTo: base, Since: since}
				load, err := carrier.ReadChunk(w.findHost, x)
				if err != nil {
					t.Fatal(err)
				}
				ev, ok := load.Apply(background, w.findHost).(mover.Verified)
				if !ok {
					t.Fatalf("%+v", ev)
				}
				return ev
			}
			carry := func(carrier *Copier) {
				t.Helper()
				x := mover.CatchUp{Round: 3, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, CopiedUpTo: base, LimitBytes: 1 << 20}
				load, err := carrier.ReadChunk(w.findHost, x)
				if err != nil {
					t.Fatal(err)
				}
				if err := errorOf(load.Apply(background, w.findHost)); err != nil {
					t.Fatal(err)
				}
			}
			all := verify(0)
			if !all.Equal {
				t.Fatalf("%+v", all)
			}
			if name == "forgotten" {
				carrier = new(Copier)
			}
			w.setKey(2, "a", "1")
			if name == "with a gap" {
				carry(new(Copier)) // as another driver would
			} else {
				carry(carrier)
			}
			w.setKey(2, "b", "2")
			carry(carrier)
			if ev := verify(all.CopiedUpTo); !ev.Equal || ev.ComparedRows != 2 {
				t.Errorf("both sides are the same: %+v", ev)
			}
			// A row that is not in the log of the source, in the place of one that is.
			var b effect.Builder
			b.Reset(effect.Header{})
			b.Put(effect.Rows.AppendKey(nil, keyAt("a")), []byte("damaged"))
			if _, err := w.stores[1].Commit(false, wal.Entry{Group: 3, Payload: b.Bytes()}); err != nil {
				t.Fatal(err)
			}
			if ev := verify(all.CopiedUpTo); ev.Equal {
				t.Errorf("a destination with another row is taken for equal: %+v", ev)
			}
		})
	}
}

// A load comes in several commands, each with a stretch of the log, so that others get
// their turn in between.
func TestALoadComesInPieces(t *testing.T) {
	w := newTestCluster(t)
	span, base := w.beginCopy()
	for i := range 40 {
		w.setKey(2, fmt.Sprint("k", i%5), "some value or other")
	}
	x := mover.CatchUp{Round: 3, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, CopiedUpTo: base, LimitBytes: 4000}
	load, err := new(Copier).ReadChunk(w.findHost, x)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(load.ingests); n < 10 || n > ingestsPerChunk+1 {
		t.Errorf("%d pieces", n)
	}
	after := base
	for _, c := range load.ingests {
		if c.After != after || c.UpTo <= c.After || c.Rows.Len() == 0 {
			t.Errorf("a piece with %d rows from %d to %d follows on %d", c.Rows.Len(), c.After, c.UpTo, after)
		}
		after = c.UpTo
	}
	// A part of it may be there already.
	half := load
	half.ingests = load.ingests[:len(load.ingests)/2]
	half.Apply(background, w.findHost)
	if ev, ok := load.Apply(background, w.findHost).(mover.CaughtUp); !ok || ev.CopiedUpTo != after {
		t.Errorf("all of it again: %+v", ev)
	}
	copied, err := new(Copier).ReadChunk(w.findHost, mover.Copy{Round: 3, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, BasePosition: base, LimitBytes: 100})
	if err != nil || len(copied.ingests) < 2 || copied.sizeBytes > 200 {
		t.Errorf("a copy in %d pieces with %d bytes: %v", len(copied.ingests), copied.sizeBytes, err)
	}
}
