package drive

import (
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/wal"
)

// All keys are remembered as long as they are few, each once. Of many it is a sample,
// in which keys that are written often are no more likely than others.
func TestFewKeysAreAllRememberedAndOfManyASample(t *testing.T) {
	var few touched
	few.begin(mover.Verify{Job: 7}, 1)
	for i := range 3 * touchedKeys {
		few.see(fmt.Appendf(nil, "%d", i%touchedKeys))
	}
	if n := len(few.sorted()); n != touchedKeys {
		t.Errorf("%d of %d keys", n, touchedKeys)
	}
	var many touched
	many.begin(mover.Verify{Job: 7}, 1)
	const all = 16 * touchedKeys
	for i := range all {
		many.see(fmt.Appendf(nil, "%06d", i))
		many.see(fmt.Appendf(nil, "%06d", i%16)) // again and again
	}
	keys := many.sorted()
	low := 0
	for _, k := range keys {
		if string(k) < fmt.Sprintf("%06d", all/2) {
			low++
		}
	}
	// Half of them, give or take five standard deviations of a fair coin.
	if n := len(keys); n != touchedKeys || low < n/2-113 || low > n/2+113 {
		t.Errorf("%d keys, %d of them of the lower half", n, low)
	}
}

// What was carried since both sides were compared is compared before the range changes
// hands, whether the driver remembers it or the log has to tell.
func TestWhatWasCarriedIsComparedFromMemoryOrFromTheLog(t *testing.T) {
	for _, name := range []string{"remembered", "forgotten", "with a gap"} {
		t.Run(name, func(t *testing.T) {
			w := newSmall(t)
			span, base := w.copying()
			carrier := new(Carrier)
			verify := func(since uint64) mover.Verified {
				t.Helper()
				x := mover.Verify{Round: 4, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base, Since: since}
				load, err := carrier.Read(w.find, x)
				if err != nil {
					t.Fatal(err)
				}
				ev, ok := load.Bring(bg, w.find).(mover.Verified)
				if !ok {
					t.Fatalf("%+v", ev)
				}
				return ev
			}
			carry := func(carrier *Carrier) {
				t.Helper()
				x := mover.CatchUp{Round: 3, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base, LimitBytes: 1 << 20}
				load, err := carrier.Read(w.find, x)
				if err != nil {
					t.Fatal(err)
				}
				if err := failure(load.Bring(bg, w.find)); err != nil {
					t.Fatal(err)
				}
			}
			all := verify(0)
			if !all.Equal {
				t.Fatalf("%+v", all)
			}
			if name == "forgotten" {
				carrier = new(Carrier)
			}
			w.set(2, "a", "1")
			if name == "with a gap" {
				carry(new(Carrier)) // as another driver would
			} else {
				carry(carrier)
			}
			w.set(2, "b", "2")
			carry(carrier)
			if ev := verify(all.Upto); !ev.Equal || ev.Compared != 2 {
				t.Errorf("both sides are the same: %+v", ev)
			}
			// A row that is not in the log of the source, in the place of one that is.
			var b effect.Builder
			b.Reset(effect.Header{})
			b.Put(effect.Rows.AppendKey(nil, at("a")), []byte("damaged"))
			if _, err := w.stores[1].Commit(false, wal.Entry{Group: 3, Payload: b.Bytes()}); err != nil {
				t.Fatal(err)
			}
			if ev := verify(all.Upto); ev.Equal {
				t.Errorf("a destination with another row is taken for equal: %+v", ev)
			}
		})
	}
}

// A load comes in several commands, each with a stretch of the log, so that others get
// their turn in between.
func TestALoadComesInPieces(t *testing.T) {
	w := newSmall(t)
	span, base := w.copying()
	for i := range 40 {
		w.set(2, fmt.Sprint("k", i%5), "some value or other")
	}
	x := mover.CatchUp{Round: 3, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base, LimitBytes: 4000}
	load, err := new(Carrier).Read(w.find, x)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(load.ingests); n < 10 || n > pieces+1 {
		t.Errorf("%d pieces", n)
	}
	after := base
	for _, c := range load.ingests {
		if c.After != after || c.Upto <= c.After || c.Rows.Len() == 0 {
			t.Errorf("a piece with %d rows from %d to %d follows on %d", c.Rows.Len(), c.After, c.Upto, after)
		}
		after = c.Upto
	}
	// A part of it may be there already.
	half := load
	half.ingests = load.ingests[:len(load.ingests)/2]
	half.Bring(bg, w.find)
	if ev, ok := load.Bring(bg, w.find).(mover.CaughtUp); !ok || ev.Upto != after {
		t.Errorf("all of it again: %+v", ev)
	}
	copied, err := new(Carrier).Read(w.find, mover.Copy{Round: 3, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Base: base, LimitBytes: 100})
	if err != nil || len(copied.ingests) < 2 || copied.size > 200 {
		t.Errorf("a copy in %d pieces with %d bytes: %v", len(copied.ingests), copied.size, err)
	}
}
