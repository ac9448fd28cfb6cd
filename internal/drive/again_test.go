package drive

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/partition"
)

// catchUp brings some of the log to the destination, and returns what the job hears.
func (w *small) catchUp(r *Carrier, x mover.CatchUp) mover.CaughtUp {
	w.t.Helper()
	load, err := r.Read(w.find, x)
	if err != nil {
		w.t.Fatal(err)
	}
	ev, ok := load.Bring(bg, w.find).(mover.CaughtUp)
	if !ok {
		w.t.Fatalf("it is answered with %+v", ev)
	}
	return ev
}

func TestWhatTheLogHasAgainIsCarriedOnce(t *testing.T) {
	w := newSmall(t)
	span, base := w.copying()
	const keys, times = 7, 30
	for i := range keys * times {
		w.set(2, fmt.Sprint("k", i%keys), strings.Repeat("value", 20)+fmt.Sprint(i))
	}
	w.do(2, &command.Delete{Keys: []partition.Position{at("k3")}})
	r := &Carrier{LookAhead: 1}
	x := mover.CatchUp{Round: 3, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base, LimitBytes: 300}
	rows, rounds, skipped, more := uint64(0), 0, uint64(0), true
	for ; more; rounds++ {
		ev := w.catchUp(r, x)
		rows, skipped, more = rows+ev.Rows, skipped+ev.Skipped, ev.More
	}
	// The version that the group notes with each is not of the span.
	if rows > 3*keys || skipped < keys*(times-2)*100 || rounds < 2 {
		t.Errorf("%d rows in %d rounds, %d bytes left out, of %d keys that were written %d times", rows, rounds, skipped, keys, times)
	}
	load, err := r.Read(w.find, mover.Verify{Round: 4, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base})
	if err != nil {
		t.Fatal(err)
	}
	if ev, ok := load.Bring(bg, w.find).(mover.Verified); !ok || !ev.Equal || ev.Compared < keys-1 {
		t.Errorf("the destination is not like the source: %+v", ev)
	}
	if little := w.catchUp(new(Carrier), x); little.Rows != 0 {
		t.Errorf("nothing was left, and it carries %+v", little)
	}
}

// Whoever goes on, with or without what was known of the log, and whatever was read and
// not brought, or brought twice: at the end both sides are the same, and so they are
// wherever they are compared on the way.
func TestWhatIsLeftOutComesLaterWhoeverGoesOn(t *testing.T) {
	seeds := uint64(4)
	if os.Getenv("CLEAVE_SOAK") != "" {
		seeds = 200
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 17))
		w := newSmall(t)
		span, base := w.copying()
		r := &Carrier{LookAhead: 1}
		x := mover.CatchUp{Round: 3, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base}
		var late []Load
		for step := range 60 {
			for range rng.IntN(12) {
				if key := fmt.Sprint("k", rng.IntN(6)); rng.IntN(4) > 0 {
					w.set(2, key, strings.Repeat("x", rng.IntN(80))+fmt.Sprint(step))
				} else {
					w.do(2, &command.Delete{Keys: []partition.Position{at(key)}})
				}
			}
			x.LimitBytes = 100 + rng.IntN(3000)
			switch rng.IntN(8) {
			case 0: // another driver, or this one after a crash
				r = &Carrier{LookAhead: rng.Int64N(2) * 1000}
			case 1: // what is read comes later, or never
				load, err := r.Read(w.find, x)
				if err != nil {
					t.Fatal(err)
				}
				late = append(late, load)
			case 2:
				if len(late) > 0 {
					late[rng.IntN(len(late))].Bring(bg, w.find) // it may be refused
				}
			case 3:
				load, err := r.Read(w.find, mover.Verify{Round: 4, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base})
				if err != nil {
					t.Fatal(err)
				}
				if ev, ok := load.Bring(bg, w.find).(mover.Verified); !ok || !ev.Equal {
					t.Fatalf("seed %d, step %d: both sides differ: %+v", seed, step, ev)
				}
			default:
				w.catchUp(r, x)
			}
		}
		for x.LimitBytes = 1 << 20; w.catchUp(r, x).More; {
		}
		a, err := mover.Sum(w.places[2].Store, span)
		if err != nil {
			t.Fatal(err)
		}
		b, err := mover.Sum(w.places[3].Store, span)
		if err != nil || a != b {
			t.Fatalf("seed %d: the source has %+v, the destination %+v: %v", seed, a, b, err)
		}
	}
}
