package drive

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/partition"
)

// race is a move by several drivers, while rows are written. What one of them has read may be
// brought late, twice, or never.
type race struct {
	*small
	rng      *rand.Rand
	span     partition.Span
	base     uint64
	upto     uint64 // as the record says
	carriers []*Carrier
	loads    []Load
}

func newRace(t *testing.T, seed uint64) *race {
	r := &race{small: newSmall(t), rng: rand.New(rand.NewPCG(seed, 1))}
	for range 10 {
		r.write()
	}
	r.span, r.base = r.copying()
	r.upto = r.base
	for range 2 {
		r.carriers = append(r.carriers, new(Carrier))
	}
	return r
}

// write changes a row or two at the source.
func (r *race) write() {
	key := fmt.Sprint("k", r.rng.IntN(12))
	if r.rng.IntN(4) == 0 {
		r.do(2, &command.Delete{Keys: []partition.Position{at(key)}})
	} else {
		r.set(2, key, fmt.Sprint(r.rng.Uint64()))
	}
}

// carrier returns that of a driver, which may have begun anew.
func (r *race) carrier() *Carrier {
	i := r.rng.IntN(len(r.carriers))
	if r.rng.IntN(20) == 0 {
		r.carriers[i].Close()
	}
	return r.carriers[i]
}

// read reads at the source.
func (r *race) read(x mover.Effect) {
	r.t.Helper()
	load, err := r.carrier().Read(r.find, x)
	if err != nil {
		r.t.Fatal(err)
	}
	r.loads = append(r.loads, load)
}

// bring brings one of the last that were read, and returns what is heard of it.
func (r *race) bring() mover.Event {
	r.t.Helper()
	last := len(r.loads) - 1
	ev := r.loads[last-r.rng.IntN(min(last+1, 3))].Bring(bg, r.find)
	switch ev := ev.(type) {
	case mover.CaughtUp:
		r.upto = max(r.upto, ev.Upto)
	case mover.Verified:
		r.upto = max(r.upto, ev.Upto)
		if !ev.Equal {
			r.t.Fatalf("the destination differs from the source at %d", ev.Upto)
		}
	}
	return ev
}

// copy copies all rows, and returns when each piece has come at least once.
func (r *race) copy() {
	x := mover.Copy{Job: 7, From: 2, To: 3, Span: r.span, Attempt: 1, Base: r.base, LimitBytes: 200}
	for {
		r.read(x)
		for range r.rng.IntN(4) {
			r.write()
		}
		if r.rng.IntN(2) == 0 {
			r.bring()
		}
		ev, ok := r.loads[len(r.loads)-1].Bring(bg, r.find).(mover.Copied)
		if !ok {
			r.t.Fatal("a piece of the copy is refused")
		}
		if x.Cursor = ev.Next; len(x.Cursor) == 0 {
			return
		}
	}
}

// step writes, reads or brings something.
func (r *race) step() {
	catchUp := mover.CatchUp{Job: 7, From: 2, To: 3, Span: r.span, Attempt: 1, Upto: r.upto, LimitBytes: r.rng.IntN(300)}
	switch r.rng.IntN(10) {
	case 0, 1, 2, 3:
		r.write()
	case 4, 5:
		r.read(catchUp)
	case 6:
		r.read(mover.Verify{Job: 7, From: 2, To: 3, Span: r.span, Attempt: 1, Upto: r.upto})
	default:
		r.bring()
	}
}

// Two drivers that know nothing of each other, one of which may forget what it knew, bring the
// destination to what the source is: where it is compared at one place, and at the end.
func TestADestinationBecomesItsSourceWhoeverBringsWhatWhen(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := newRace(t, seed)
			r.copy()
			for range 150 {
				r.step()
			}
			end := uint64(r.stores[0].Position()) // nothing is written any more
			for r.upto < end {
				r.read(mover.CatchUp{Job: 7, From: 2, To: 3, Span: r.span, Attempt: 1, Upto: r.upto, LimitBytes: 1000, Until: end})
				r.bring()
			}
			source, err := mover.Sum(r.stores[0], r.span)
			if err != nil {
				t.Fatal(err)
			}
			dest, err := mover.Sum(r.stores[1], r.span)
			if err != nil {
				t.Fatal(err)
			}
			if source != dest {
				t.Errorf("the destination has %+v, the source %+v", dest, source)
			}
		})
	}
}

// A row that is written again and again is brought once.
func TestWhatIsWrittenOftenIsBroughtOnce(t *testing.T) {
	w := newSmall(t)
	span, base := w.copying()
	var c Carrier
	x := mover.CatchUp{Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base, LimitBytes: 1 << 20}
	catchUp := func() mover.CaughtUp {
		t.Helper()
		load, err := c.Read(w.find, x)
		if err != nil {
			t.Fatal(err)
		}
		ev, ok := load.Bring(bg, w.find).(mover.CaughtUp)
		if !ok || ev.More || ev.Upto != uint64(w.stores[0].Position()) {
			t.Fatalf("it is answered with %+v", ev)
		}
		x.Upto = ev.Upto
		return ev
	}
	catchUp() // it follows from here on
	for i := range 100 {
		w.set(2, "again", fmt.Sprint(i))
	}
	w.set(2, "alone", "1")
	if ev := catchUp(); ev.Rows != 2 {
		t.Errorf("%d rows are brought for two that have changed", ev.Rows)
	}
	if left, known := c.Changed(); !known || left == 0 {
		t.Errorf("%d bytes are left, known %v, though nobody has said that they have come", left, known)
	}
	if left, own := c.Left(w.stores[0], x.Upto, x.Upto, 0); left != 0 || !own {
		t.Errorf("%d bytes are left of those that have come, of the range %v", left, own)
	}
	if ev := catchUp(); ev.Rows != 0 {
		t.Errorf("%d rows are brought for none that has changed", ev.Rows)
	}
}
