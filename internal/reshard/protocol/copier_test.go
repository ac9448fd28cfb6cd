package protocol

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// countRows counts what a store has in a span.
func countRows(t *testing.T, p GroupHost, s partition.Span) (n uint64) {
	sums, err := mover.SumSpan(p.Store, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range sums {
		n += d.Rows
	}
	return n
}

func TestACopyIsBroughtPieceByPieceAndTwiceIsOnce(t *testing.T) {
	w := newTestCluster(t)
	for i := range 50 {
		w.setKey(2, fmt.Sprintf("k%02d", i), "value")
	}
	span, base := w.beginCopy()
	x := mover.Copy{Round: 5, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, BasePosition: base, LimitBytes: 300}
	pieces := 0
	for ; ; pieces++ {
		load, err := new(Copier).ReadChunk(w.findHost, x)
		if err != nil {
			t.Fatal(err)
		}
		first := load.Apply(background, w.findHost)
		again := load.Apply(background, w.findHost)
		ev, ok := first.(mover.Copied)
		if !ok || ev.Round != 5 || fmt.Sprint(first) != fmt.Sprint(again) {
			t.Fatalf("it is answered with %+v, and then %+v", first, again)
		}
		if x.Cursor = ev.Next; len(x.Cursor) == 0 {
			break
		}
	}
	if a, b := countRows(t, w.hosts[2], span), countRows(t, w.hosts[3], span); a != b || a < 50 || pieces < 3 {
		t.Errorf("the source has %d rows, the destination %d, in %d pieces", a, b, pieces)
	}
}

func TestWhatIsBroughtLateIsRefused(t *testing.T) {
	w := newTestCluster(t)
	w.setKey(2, "a", "1")
	span, base := w.beginCopy()
	load, err := new(Copier).ReadChunk(w.findHost, mover.Copy{Round: 5, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, BasePosition: base, LimitBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := w.hosts[3].Group.OwnershipTable().FindContaining(span)
	next := r
	next.Attempt, next.CopiedUpTo = 2, 0
	w.mustDo(3, &ownership.ChangeOwnership{Expect: []ownership.Range{r}, Become: []ownership.Range{next}})
	if err := errorOf(load.Apply(background, w.findHost)); !errors.Is(err, mover.ErrNotIncoming) {
		t.Errorf("a piece of the copy before: %v", err)
	}
	delete(w.hosts, 3)
	if err := errorOf(load.Apply(background, w.findHost)); !errors.Is(err, ErrGroupNotOpen) {
		t.Errorf("the destination is away: %v", err)
	}
	for _, x := range []mover.Effect{
		mover.Copy{From: 9, To: 3}, mover.CatchUp{From: 2, To: 9}, mover.CatchUp{From: 9, To: 2}, mover.Verify{From: 9, To: 3}, mover.Verify{From: 2, To: 9},
	} {
		if _, err := new(Copier).ReadChunk(w.findHost, x); !errors.Is(err, ErrGroupNotOpen) {
			t.Errorf("%T with a group that is away: %v", x, err)
		}
	}
	if _, err := new(Copier).ReadChunk(w.findHost, mover.DecideJob{}); err == nil {
		t.Error("a Choose carries something")
	}
}

func TestTheLogIsReadInWholeFramesUpToALimitOrAPlace(t *testing.T) {
	w := newTestCluster(t)
	s := w.stores[0]
	from := uint64(s.Position())
	var ends []uint64
	for i := range 6 {
		if i%2 == 0 {
			w.setKey(2, fmt.Sprint("k", i), "of the span")
		} else {
			w.mustDo(1, &command.Set{Key: systemKeyspace.AppendPosition(nil, []byte("other")), Value: []byte("not of it")})
		}
		ends = append(ends, uint64(s.Position()))
	}
	count := func(l Chunk) (n int, upto uint64) {
		for _, c := range l.ingests {
			upto = c.UpTo
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
		{"all", from, noEndPosition, 1 << 20, 3, ends[5], false},
		{"from the end", ends[5], noEndPosition, 1 << 20, 0, ends[5], false},
		{"behind the first", ends[0], noEndPosition, 1 << 20, 2, ends[5], false},
		{"up to the third", from, ends[2], 1 << 20, 2, ends[2], false},
		{"up to where it begins", ends[1], ends[1], 1 << 20, 0, ends[1], false},
		{"no more than there is room for", from, noEndPosition, nothing.Size(), 1, ends[0], true},
	} {
		l := Chunk{copier: new(Copier)}
		more, err := l.addFromLog(s, mover.Ingest{Span: w.ownedSpan(2), After: c.after}, c.until, c.limit)
		rows, upto := count(l)
		// What is not of the span takes no room: the place may be behind it.
		if upto = max(upto, c.after); err != nil || rows != c.rows || more != c.more || upto < c.upto || upto > ends[5] || !c.more && upto != c.upto {
			t.Errorf("%s: %d rows up to %d, more %v, %v; want %d up to %d, more %v", c.name, rows, upto, more, err, c.rows, c.upto, c.more)
		}
	}
}

func TestCatchingUpGoesOnWhereTheDestinationIs(t *testing.T) {
	w := newTestCluster(t)
	span, base := w.beginCopy()
	w.setKey(2, "a", "1")
	w.setKey(2, "b", "2")
	x := mover.CatchUp{Round: 3, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, CopiedUpTo: base, LimitBytes: new(effect.Builder).Size()}
	first, err := new(Copier).ReadChunk(w.findHost, x)
	if err != nil {
		t.Fatal(err)
	}
	ev, ok := first.Apply(background, w.findHost).(mover.CaughtUp)
	if !ok || !ev.More || ev.CopiedUpTo <= base {
		t.Fatalf("a little: %+v", ev)
	}
	// The record still has base, as after an answer that was lost.
	x.Until = uint64(w.stores[0].Position())
	rest, err := new(Copier).ReadChunk(w.findHost, x)
	if err != nil {
		t.Fatal(err)
	}
	if ev, ok := rest.Apply(background, w.findHost).(mover.CaughtUp); !ok || ev.More || ev.CopiedUpTo < x.Until || ev.Rows == 0 {
		t.Errorf("the rest, for a range that waits, in spite of the limit: %+v", ev)
	}
	r, _ := w.hosts[3].Group.OwnershipTable().FindContaining(span)
	if ev, ok := first.Apply(background, w.findHost).(mover.CaughtUp); !ok || ev.CopiedUpTo != r.CopiedUpTo {
		t.Errorf("the first piece again, which says how far the range is by now: %+v, not %d", ev, r.CopiedUpTo)
	}
	idle, err := new(Copier).ReadChunk(w.findHost, x)
	if err != nil {
		t.Fatal(err)
	}
	before := w.stores[1].Position()
	if ev, ok := idle.Apply(background, w.findHost).(mover.CaughtUp); !ok || ev.CopiedUpTo < x.Until || ev.Rows != 0 || w.stores[1].Position() != before {
		t.Errorf("nothing new: %+v, and the destination has written", ev)
	}
}

func TestBothSidesAreComparedAtOnePlace(t *testing.T) {
	w := newTestCluster(t)
	span, base := w.beginCopy()
	w.setKey(2, "a", "1")
	verify := func(since uint64) mover.Event {
		x := mover.Verify{Round: 4, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, CopiedUpTo: base, Since: since}
		load, err := new(Copier).ReadChunk(w.findHost, x)
		if err != nil {
			t.Fatal(err)
		}
		w.setKey(2, "b", fmt.Sprint("later than the snapshot", since))
		return load.Apply(background, w.findHost)
	}
	all, ok := verify(0).(mover.Verified)
	if !ok || !all.Equal || all.ComparedRows == 0 || all.CopiedUpTo <= base {
		t.Fatalf("all rows: %+v", all)
	}
	some, ok := verify(all.CopiedUpTo).(mover.Verified)
	if !ok || !some.Equal || some.CopiedUpTo <= all.CopiedUpTo || some.ComparedRows >= all.ComparedRows+3 {
		t.Fatalf("those since then: %+v", some)
	}
	// A row that is not in the log of the source, in the place of one that is.
	var b effect.Builder
	b.Reset(effect.Header{})
	b.Put(effect.Rows.AppendKey(nil, keyAt("a")), []byte("damaged"))
	if _, err := w.stores[1].Commit(false, wal.Entry{Group: 3, Payload: b.Bytes()}); err != nil {
		t.Fatal(err)
	}
	if ev, ok := verify(0).(mover.Verified); !ok || ev.Equal {
		t.Errorf("a destination with another row is taken for equal: %+v", ev)
	}
}

func TestADestinationThatIsElsewhereIsNotCompared(t *testing.T) {
	w := newTestCluster(t)
	span, base := w.beginCopy()
	x := mover.Verify{Round: 4, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, CopiedUpTo: base}
	sum, err := new(Copier).prepareChecksum(w.stores[0], x, base)
	if err != nil {
		t.Fatal(err)
	}
	want, err := sum(w.stores[0])
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := compareDestination(w.hosts[3], x, base, want, sum); err != nil || !ev.Equal {
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
		if _, err := compareDestination(w.hosts[3], x, place, want, sum); !errors.Is(err, errDestinationMoved) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// So much may be left that not all of it is copied at once: that is no difference.
func TestWhatIsLeftIsBroughtBeforeItIsCompared(t *testing.T) {
	w := newTestCluster(t)
	span, base := w.beginCopy()
	c := Copier{verifyLimitBytes: 64 << 10}
	c.trackChanges(w.stores[0], span)
	defer c.Close()
	for i := range 100 {
		w.setKey(2, fmt.Sprintf("k%02d", i), strings.Repeat("v", 4<<10))
	}
	x := mover.Verify{Round: 4, Job: 7, From: 2, To: 3, Span: span, Attempt: 1, CopiedUpTo: base}
	for nearer := 0; ; nearer++ {
		load, err := c.ReadChunk(w.findHost, x)
		if err != nil {
			t.Fatal(err)
		}
		w.setKey(2, "k50", fmt.Sprint("later than the snapshot", nearer))
		switch ev := load.Apply(background, w.findHost).(type) {
		case mover.Verified:
			if !ev.Equal || ev.ComparedRows < 100 || nearer < 3 {
				t.Errorf("after %d times: %+v", nearer, ev)
			}
			return
		default:
			if !errors.Is(errorOf(ev), errTooManyChanges) || nearer > 20 {
				t.Fatalf("the %dth time: %+v", nearer, ev)
			}
		}
	}
}
