package drive

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// rowsOf counts what a store has in a span.
func rowsOf(t *testing.T, p Place, s partition.Span) (n uint64) {
	sums, err := mover.Sum(p.Store, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range sums {
		n += d.Rows
	}
	return n
}

func TestACopyIsBroughtPieceByPieceAndTwiceIsOnce(t *testing.T) {
	w := newSmall(t)
	for i := range 50 {
		w.set(2, fmt.Sprintf("k%02d", i), "value")
	}
	span, base := w.copying()
	x := mover.Copy{Round: 5, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Base: base, LimitBytes: 300}
	pieces := 0
	for ; ; pieces++ {
		load, err := new(Carrier).Read(w.find, x)
		if err != nil {
			t.Fatal(err)
		}
		first := load.Bring(bg, w.find)
		again := load.Bring(bg, w.find)
		ev, ok := first.(mover.Copied)
		if !ok || ev.Round != 5 || fmt.Sprint(first) != fmt.Sprint(again) {
			t.Fatalf("it is answered with %+v, and then %+v", first, again)
		}
		if x.Cursor = ev.Next; len(x.Cursor) == 0 {
			break
		}
	}
	if a, b := rowsOf(t, w.places[2], span), rowsOf(t, w.places[3], span); a != b || a < 50 || pieces < 3 {
		t.Errorf("the source has %d rows, the destination %d, in %d pieces", a, b, pieces)
	}
}

func TestWhatIsBroughtLateIsRefused(t *testing.T) {
	w := newSmall(t)
	w.set(2, "a", "1")
	span, base := w.copying()
	load, err := new(Carrier).Read(w.find, mover.Copy{Round: 5, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Base: base, LimitBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := w.places[3].Group.List().One(span)
	next := r
	next.Attempt, next.Upto = 2, 0
	w.do(3, &own.Reown{Expect: []own.Range{r}, Become: []own.Range{next}})
	if err := failure(load.Bring(bg, w.find)); !errors.Is(err, mover.ErrNotIncoming) {
		t.Errorf("a piece of the copy before: %v", err)
	}
	delete(w.places, 3)
	if err := failure(load.Bring(bg, w.find)); !errors.Is(err, ErrAway) {
		t.Errorf("the destination is away: %v", err)
	}
	for _, x := range []mover.Effect{
		mover.Copy{From: 9, To: 3}, mover.CatchUp{From: 2, To: 9}, mover.CatchUp{From: 9, To: 2}, mover.Verify{From: 9, To: 3}, mover.Verify{From: 2, To: 9},
	} {
		if _, err := new(Carrier).Read(w.find, x); !errors.Is(err, ErrAway) {
			t.Errorf("%T with a group that is away: %v", x, err)
		}
	}
	if _, err := new(Carrier).Read(w.find, mover.Choose{}); err == nil {
		t.Error("a Choose carries something")
	}
}

func TestTheLogIsReadInWholeFramesUpToALimitOrAPlace(t *testing.T) {
	w := newSmall(t)
	s := w.stores[0]
	from := uint64(s.Position())
	var ends []uint64
	for i := range 6 {
		if i%2 == 0 {
			w.set(2, fmt.Sprint("k", i), "of the span")
		} else {
			w.do(1, &command.Set{Key: system.AppendPosition(nil, []byte("other")), Value: []byte("not of it")})
		}
		ends = append(ends, uint64(s.Position()))
	}
	count := func(l Load) (n int, upto uint64) {
		for _, c := range l.ingests {
			upto = c.Upto
			for _, op := range c.Rows.All() {
				if op.Key[0] == byte(effect.Rows) {
					n++
				}
			}
		}
		return n, upto
	}
	var nothing effect.Builder
	for _, c := range []struct {
		name         string
		after, until uint64
		limit, rows  int
		upto         uint64
		more         bool
	}{
		{"all", from, noEnd, 1 << 20, 3, ends[5], false},
		{"from the end", ends[5], noEnd, 1 << 20, 0, ends[5], false},
		{"behind the first", ends[0], noEnd, 1 << 20, 2, ends[5], false},
		{"up to the third", from, ends[2], 1 << 20, 2, ends[2], false},
		{"up to where it begins", ends[1], ends[1], 1 << 20, 0, ends[1], false},
		{"no more than there is room for", from, noEnd, nothing.Size(), 1, ends[0], true},
	} {
		l := Load{carrier: new(Carrier)}
		more, err := l.feed(s, mover.Ingest{Span: w.span(2), After: c.after}, c.until, c.limit)
		rows, upto := count(l)
		// What is not of the span takes no room: the place may be behind it.
		if upto = max(upto, c.after); err != nil || rows != c.rows || more != c.more || upto < c.upto || upto > ends[5] || !c.more && upto != c.upto {
			t.Errorf("%s: %d rows up to %d, more %v, %v; want %d up to %d, more %v", c.name, rows, upto, more, err, c.rows, c.upto, c.more)
		}
	}
}

func TestCatchingUpGoesOnWhereTheDestinationIs(t *testing.T) {
	w := newSmall(t)
	span, base := w.copying()
	w.set(2, "a", "1")
	w.set(2, "b", "2")
	x := mover.CatchUp{Round: 3, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base, LimitBytes: new(effect.Builder).Size()}
	first, err := new(Carrier).Read(w.find, x)
	if err != nil {
		t.Fatal(err)
	}
	ev, ok := first.Bring(bg, w.find).(mover.CaughtUp)
	if !ok || !ev.More || ev.Upto <= base {
		t.Fatalf("a little: %+v", ev)
	}
	// The record still says base, as after an answer that was lost.
	x.Until = uint64(w.stores[0].Position())
	rest, err := new(Carrier).Read(w.find, x)
	if err != nil {
		t.Fatal(err)
	}
	if ev, ok := rest.Bring(bg, w.find).(mover.CaughtUp); !ok || ev.More || ev.Upto < x.Until || ev.Rows == 0 {
		t.Errorf("the rest, for a range that waits, in spite of the limit: %+v", ev)
	}
	r, _ := w.places[3].Group.List().One(span)
	if ev, ok := first.Bring(bg, w.find).(mover.CaughtUp); !ok || ev.Upto != r.Upto {
		t.Errorf("the first piece again, which says how far the range is by now: %+v, not %d", ev, r.Upto)
	}
	idle, err := new(Carrier).Read(w.find, x)
	if err != nil {
		t.Fatal(err)
	}
	before := w.stores[1].Position()
	if ev, ok := idle.Bring(bg, w.find).(mover.CaughtUp); !ok || ev.Upto < x.Until || ev.Rows != 0 || w.stores[1].Position() != before {
		t.Errorf("nothing new: %+v, and the destination has written", ev)
	}
}

func TestBothSidesAreComparedAtOnePlace(t *testing.T) {
	w := newSmall(t)
	span, base := w.copying()
	w.set(2, "a", "1")
	verify := func(since uint64) mover.Event {
		x := mover.Verify{Round: 4, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base, Since: since}
		load, err := new(Carrier).Read(w.find, x)
		if err != nil {
			t.Fatal(err)
		}
		w.set(2, "b", fmt.Sprint("later than the snapshot", since))
		return load.Bring(bg, w.find)
	}
	all, ok := verify(0).(mover.Verified)
	if !ok || !all.Equal || all.Compared == 0 || all.Upto <= base {
		t.Fatalf("all rows: %+v", all)
	}
	some, ok := verify(all.Upto).(mover.Verified)
	if !ok || !some.Equal || some.Upto <= all.Upto || some.Compared >= all.Compared+3 {
		t.Fatalf("those since then: %+v", some)
	}
	// A row that is not in the log of the source, in the place of one that is.
	var b effect.Builder
	b.Reset(effect.Header{})
	b.Put(effect.Rows.AppendKey(nil, at("a")), []byte("damaged"))
	if _, err := w.stores[1].Commit(false, wal.Entry{Group: 3, Payload: b.Bytes()}); err != nil {
		t.Fatal(err)
	}
	if ev, ok := verify(0).(mover.Verified); !ok || ev.Equal {
		t.Errorf("a destination with another row is taken for equal: %+v", ev)
	}
}

func TestADestinationThatIsElsewhereIsNotCompared(t *testing.T) {
	w := newSmall(t)
	span, base := w.copying()
	x := mover.Verify{Round: 4, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base}
	sum, err := new(Carrier).summer(w.stores[0], x, base)
	if err != nil {
		t.Fatal(err)
	}
	want, err := sum(w.stores[0])
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := compare(w.places[3], x, base, want, sum); err != nil || !ev.Equal {
		t.Errorf("at its place: %+v, %v", ev, err)
	}
	for name, change := range map[string]func(*mover.Verify, *uint64){
		"further on":   func(_ *mover.Verify, place *uint64) { *place-- },
		"behind":       func(_ *mover.Verify, place *uint64) { *place++ },
		"another copy": func(x *mover.Verify, _ *uint64) { x.Attempt++ },
		"another job":  func(x *mover.Verify, _ *uint64) { x.Job++ },
	} {
		x, place := x, base
		change(&x, &place)
		if _, err := compare(w.places[3], x, place, want, sum); !errors.Is(err, errFaster) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// So much may be left that not all of it is brought at once: that is no difference.
func TestWhatIsLeftIsBroughtBeforeItIsCompared(t *testing.T) {
	w := newSmall(t)
	span, base := w.copying()
	c := Carrier{atOnce: 64 << 10}
	c.follow(w.stores[0], span)
	defer c.Close()
	for i := range 100 {
		w.set(2, fmt.Sprintf("k%02d", i), strings.Repeat("v", 4<<10))
	}
	x := mover.Verify{Round: 4, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, Upto: base}
	for nearer := 0; ; nearer++ {
		load, err := c.Read(w.find, x)
		if err != nil {
			t.Fatal(err)
		}
		w.set(2, "k50", fmt.Sprint("later than the snapshot", nearer))
		switch ev := load.Bring(bg, w.find).(type) {
		case mover.Verified:
			if !ev.Equal || ev.Compared < 100 || nearer < 3 {
				t.Errorf("after %d times: %+v", nearer, ev)
			}
			return
		default:
			if !errors.Is(failure(ev), errMore) || nearer > 20 {
				t.Fatalf("the %dth time: %+v", nearer, ev)
			}
		}
	}
}
