package txn

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

// newLonePeer returns a group that owns everything.
func newLonePeer() *peer {
	p := newPeer(1)
	p.owned = []partition.Span{partition.Whole}
	return p
}

func newSet(key, value string) command.Command {
	return &command.Set{Key: positionOf(key), Value: []byte(value)}
}

func newDelete(keys ...string) command.Command {
	c := &command.Delete{}
	for _, key := range keys {
		c.Keys = append(c.Keys, positionOf(key))
	}
	return c
}

func newPrepare(id byte, writes ...command.Command) *Prepare {
	return &Prepare{ID: ID{id}, Participant: Participant{Writes: writes}, CoordinatorGroup: 2, DeadlineMS: 2000}
}

func newDecide(id byte, writes ...command.Command) *Decide {
	return &Decide{ID: ID{id}, Commit: true, Participant: Participant{Writes: writes}, CoordinatorGroup: 1, DeadlineMS: 2000}
}

// formatLocks lists what a group has locked: keys, with ! those for writing, and ranges.
func formatLocks(p *peer) string {
	var all []string
	for _, lock := range p.locks.ListAll() {
		switch key, _, err := space.Split(nil, lock.Start); {
		case lock.Range:
			all = append(all, lock.Span().String())
		case err != nil:
			all = append(all, err.Error())
		case lock.Write:
			all = append(all, string(key)+"!")
		default:
			all = append(all, string(key))
		}
	}
	return strings.Join(all, " ")
}

func TestAPartLocksAllThatItTouches(t *testing.T) {
	whole := command.RangeRead{Start: positionOf("a"), End: positionOf("c")}
	for name, test := range map[string]struct {
		part Participant
		want string
	}{
		"a write":                   {Participant{Writes: []command.Command{newSet("a", "1")}}, "a!"},
		"a read":                    {Participant{Reads: []command.Read{{Key: positionOf("a")}}}, "a"},
		"a read and a write":        {Participant{Reads: []command.Read{{Key: positionOf("a")}}, Writes: []command.Command{newSet("a", "1")}}, "a!"},
		"a delete of what is not":   {Participant{Writes: []command.Command{newDelete("x", "s")}}, "s! x"},
		"a condition that fails":    {Participant{Writes: []command.Command{&command.Set{Key: positionOf("s"), Condition: command.IfAbsent}}}, "s"},
		"a field":                   {Participant{Writes: []command.Command{&command.HSet{Key: positionOf("h"), Fields: []command.FieldValue{{Field: []byte("\x00\x01"), Value: []byte("v")}}}}}, "h!"},
		"a field that is read":      {Participant{Writes: []command.Command{&command.HGet{Key: positionOf("h"), Field: []byte("f")}}}, "h"},
		"all fields":                {Participant{Writes: []command.Command{&command.HGetAll{Key: positionOf("h")}}}, "h"},
		"a hash that is no more":    {Participant{Writes: []command.Command{&command.HDel{Key: positionOf("h"), Fields: [][]byte{[]byte("f"), []byte("g")}}, newSet("hh", "1")}}, "h! hh!"},
		"a range":                   {Participant{Ranges: []command.RangeRead{whole}}, `[1/"a\x00\x01", 1/"c\x00\x01")`},
		"ranges that meet":          {Participant{Ranges: []command.RangeRead{whole, {Start: positionOf("b"), End: positionOf("d")}, {Start: positionOf("d"), End: positionOf("e")}}}, `[1/"a\x00\x01", 1/"e\x00\x01")`},
		"a range and a key in it":   {Participant{Ranges: []command.RangeRead{whole}, Writes: []command.Command{newSet("b", "1")}}, `[1/"a\x00\x01", 1/"c\x00\x01") b!`},
		"a range behind a key":      {Participant{Reads: []command.Read{{Key: positionOf("a")}}, Ranges: []command.RangeRead{{Start: command.NextPosition(positionOf("a")), End: positionOf("b")}}}, `a [1/"a\x00\x01\x00", 1/"b\x00\x01")`},
		"a scan by a command":       {Participant{Writes: []command.Command{&command.Range{Start: positionOf("x"), Limit: 9}}}, `[1/"x\x00\x01", end)`},
		"what is written, and read": {Participant{Writes: []command.Command{newSet("a", "1"), &command.Get{Key: positionOf("a")}}}, "a!"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newLonePeer()
			p.evalOne(newSet("s", "old"))
			p.evalOne(&command.HSet{Key: positionOf("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("1")}, {Field: []byte("g"), Value: []byte("2")}}})
			before := maps.Clone(p.store.Rows)
			c := newPrepare(1)
			c.Participant = test.part
			if r := p.evalOne(c); r.Err != nil {
				t.Fatal(r.Err)
			}
			if got := formatLocks(p); got != test.want {
				t.Errorf("locked %s, want %s", got, test.want)
			}
			for key, value := range before {
				if p.store.Rows[key] != value {
					t.Errorf("prepare has changed %q", key)
				}
			}
			plain := newLonePeer()
			plain.store.Rows, plain.store.Keys = before, slices.Sorted(maps.Keys(before))
			plain.next = 3
			for _, w := range test.part.Writes {
				plain.evalOne(w)
			}
			if r := p.evalOne(&Resolve{ID: ID{1}, Commit: true}); r.Err != nil || p.locks.Len() != 0 {
				t.Fatalf("%v, %d locks left", r.Err, p.locks.Len())
			}
			if got, want := p.store.Rows, plain.store.Rows; !maps.Equal(got, want) {
				t.Errorf("resolved to %q\nwant %q", got, want)
			}
		})
	}
}

func TestAPartThatIsNotWellFormedIsRefused(t *testing.T) {
	begin := partition.Span{End: partition.Position{0}}
	for name, test := range map[string]struct {
		change func(*Prepare)
		want   error
	}{
		"nothing":              {func(c *Prepare) { c.Participant.Writes = nil }, ErrBadParticipant},
		"no id":                {func(c *Prepare) { c.ID = ID{} }, ErrBadParticipant},
		"no coordinator group": {func(c *Prepare) { c.CoordinatorGroup = 0 }, ErrBadParticipant},
		"empty span":           {func(c *Prepare) { c.Participant.Span = partition.Span{Start: positionOf("b"), End: positionOf("a")} }, ErrBadParticipant},
		"key outside":          {func(c *Prepare) { c.Participant.Span.Start = positionOf("b") }, ErrBadParticipant},
		"range outside": {func(c *Prepare) {
			c.Participant.Span.End = positionOf("b")
			c.Participant.Ranges = []command.RangeRead{{Start: positionOf("a")}}
		}, ErrBadParticipant},
		"record outside": {func(c *Prepare) {
			c.Participant = Participant{Span: begin, Ranges: []command.RangeRead{{End: begin.End}}}
		}, ErrBadParticipant},
		"another owner":  {func(c *Prepare) { c.Participant.Span.End = positionOf("z") }, errWrongShard},
		"no key":         {func(c *Prepare) { c.Participant.Writes = []command.Command{&command.Get{Key: positionOf("a")[:2]}} }, partition.ErrPosition},
		"past its time":  {func(c *Prepare) { c.DeadlineMS = 999 }, ErrDeadline},
		"another type":   {func(c *Prepare) { c.Participant.Writes = []command.Command{&command.HGet{Key: positionOf("s")}} }, command.ErrWrongType},
		"a changed read": {func(c *Prepare) { c.Participant.Reads = []command.Read{{Key: positionOf("a"), Version: 9}} }, command.ErrConflict},
		"a changed range": {func(c *Prepare) {
			var d command.Digest
			d.Add(positionOf("a"), 1)
			c.Participant.Ranges = []command.RangeRead{{Start: positionOf("a"), End: positionOf("b"), Digest: d}}
		}, command.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			p := newLonePeer()
			p.evalOne(newSet("s", "1"))
			p.owned = []partition.Span{{End: positionOf("y")}}
			c := newPrepare(1, newSet("a", "1"))
			c.Participant.Span.End = positionOf("y")
			test.change(c)
			size := len(p.store.Rows)
			if r := p.evalOne(c); !errors.Is(r.Err, test.want) {
				t.Errorf("got %v, want %v", r.Err, test.want)
			}
			if len(p.store.Rows) != size || p.locks.Len() != 0 || p.next != 2 {
				t.Error("it left something")
			}
		})
	}
}

func TestWhatMeetsALockIsRefusedWithIt(t *testing.T) {
	read := func(key string) Participant { return Participant{Reads: []command.Read{{Key: positionOf(key)}}} }
	write := func(key string) Participant { return Participant{Writes: []command.Command{newSet(key, "2")}} }
	scan := func(from, to string) Participant {
		return Participant{Ranges: []command.RangeRead{{Start: positionOf(from), End: positionOf(to)}}}
	}
	for _, test := range []struct {
		name          string
		first, second Participant
		meets         bool
	}{
		{"read, read", read("a"), read("a"), false},
		{"read, write", read("a"), write("a"), true},
		{"write, read", write("a"), read("a"), true},
		{"write, write", write("a"), write("a"), true},
		{"write, another", write("a"), write("b"), false},
		{"scan, write", scan("a", "c"), write("b"), true},
		{"scan, write at its start", scan("b", "c"), write("b"), true},
		{"scan, write at its end", scan("a", "b"), write("b"), false},
		{"scan, read", scan("a", "c"), read("b"), false},
		{"scan, scan", scan("a", "c"), scan("b", "d"), false},
		{"write, scan", write("b"), scan("a", "c"), true},
		{"write, scan behind", write("b"), scan("c", "d"), false},
		// What the second finds is an error of its command, if the first is aborted.
		{"write, error", write("a"), Participant{Writes: []command.Command{&command.HGet{Key: positionOf("a")}}}, true},
	} {
		for _, inBatch := range []bool{false, true} {
			p := newLonePeer()
			first, second := newPrepare(1), newPrepare(2)
			first.Participant, second.Participant = test.first, test.second
			var got command.Reply
			if inBatch {
				got = p.evalBatch(false, first, second)[1]
			} else {
				p.evalOne(first)
				got = p.evalOne(second)
			}
			var met *LockedError
			if errors.As(got.Err, &met) != test.meets || test.meets && (met.Lock.Txn != ID{1} || !errors.Is(got.Err, ErrLocked)) {
				t.Errorf("%s, in one batch %v: got %v, want a lock met: %v", test.name, inBatch, got.Err, test.meets)
			}
			p.evalOne(&Resolve{ID: ID{2}})
			d := newDecide(3)
			d.Participant = test.second
			if r := p.evalOne(d); errors.Is(r.Err, ErrLocked) != test.meets {
				t.Errorf("%s: decide got %v", test.name, r.Err)
			}
		}
	}
}

func TestARowDoesNotExpireUnderALock(t *testing.T) {
	p := newLonePeer()
	p.evalOne(&command.Set{Key: positionOf("a"), Expiry: command.ExpireAt(1500)})
	first := newPrepare(1)
	first.Participant.Reads = []command.Read{{Key: positionOf("a"), Version: 1}}
	if r := p.evalOne(first); r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := p.locks.ExpiryCheckMS(positionOf("a"), 1600); got != 1000 {
		t.Errorf("judged at %d, want 1000", got)
	}
	p.clock = 1600
	reads := newPrepare(2)
	reads.Participant.Reads = []command.Read{{Key: positionOf("a")}}
	scans := newPrepare(3)
	scans.Participant.Ranges = []command.RangeRead{{Start: positionOf("a")}}
	for _, c := range []*Prepare{reads, scans} {
		if r := p.evalOne(c); !errors.Is(r.Err, ErrLocked) {
			t.Errorf("a row that the owner of its lock counts on is found dead: %v", r.Err)
		}
	}
	p.evalOne(&Resolve{ID: ID{1}, DeadlineMS: 2000})
	for _, c := range []*Prepare{reads, scans} {
		if r := p.evalOne(c); r.Err != nil {
			t.Errorf("after the lock: %v", r.Err)
		}
	}
}

func TestAFinishedPartStaysFinished(t *testing.T) {
	for _, commit := range []bool{true, false} {
		for _, early := range []bool{true, false} {
			p := newLonePeer()
			c := newPrepare(1, newSet("a", "1"))
			if !early {
				p.evalOne(c)
			}
			resolve := &Resolve{ID: ID{1}, Commit: commit, DeadlineMS: 2000}
			for range 2 {
				if r := p.evalOne(resolve); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			for _, clock := range []int64{1000, 2000, 2001} {
				p.clock = clock
				p.evalOne(&deleteMarks{limit: 10})
				if r := p.evalOne(c); !errors.Is(r.Err, ErrFinished) && !errors.Is(r.Err, ErrDeadline) {
					t.Errorf("commit %v, early %v: at %d it is prepared again: %v", commit, early, clock, r.Err)
				}
			}
			if n := p.store.Count(effect.Marks); n != 0 {
				t.Errorf("%d marks are left past the deadline", n)
			}
		}
	}
}

func TestADecisionIsKeptUntilNobodyAsks(t *testing.T) {
	p := newLonePeer()
	c := newDecide(1, newSet("a", "1"))
	c.OtherSpans = []partition.Span{{Start: positionOf("b"), End: positionOf("d")}}
	if r := p.evalOne(c); ParseOutcome(r) != Committed {
		t.Fatal(r.Err)
	}
	abort := *c
	abort.Commit = false
	for _, again := range []*Decide{c, &abort} {
		if r := p.evalOne(again); ParseOutcome(r) != Committed || p.next != 2 {
			t.Fatalf("asked again: %v, %v", ParseOutcome(r), r.Err)
		}
	}
	collect := func(from, to string) int64 {
		return p.evalOne(&Collect{ID: ID{1}, CoordinatorGroup: 1, Confirmed: []partition.Span{{Start: positionOf(from), End: positionOf(to)}}}).Int
	}
	if got := collect("b", "c"); got != 1 {
		t.Errorf("%d spans are left, want 1", got)
	}
	p.clock = 2000 + 2*DecisionKeepMS
	if collect("b", "c"); ParseOutcome(p.evalOne(c)) != Committed {
		t.Error("it is forgotten while a span is not confirmed")
	}
	p.clock = 2000 + DecisionKeepMS
	if collect("c", "d"); ParseOutcome(p.evalOne(c)) != Committed {
		t.Error("it is forgotten too early")
	}
	p.clock++
	if collect("c", "d"); !errors.Is(p.evalOne(c).Err, ErrForgotten) || p.store.Count(effect.State) != 0 {
		t.Error("it is not forgotten")
	}
}

func TestAnotherGroupDecidesNothing(t *testing.T) {
	p := newLonePeer()
	c := newDecide(1, newSet("a", "1"))
	c.CoordinatorGroup = 2
	for _, c := range []SiteCommand{c, &Inquire{ID: ID{1}, CoordinatorGroup: 2}, &Collect{ID: ID{1}, CoordinatorGroup: 2}} {
		if r := p.evalOne(c); !errors.Is(r.Err, ErrNotCoordinator) {
			t.Errorf("%T: got %v, want ErrDecider", c, r.Err)
		}
	}
}

func TestAnInquiryAnswersByRecordThenByClock(t *testing.T) {
	for _, test := range []struct {
		decide  string
		clockMS int64
		want    Outcome
	}{
		{"", 2000, Undecided}, {"", 2001, Aborted},
		{"commit", 2000, Committed}, {"commit", 2001, Committed},
		{"abort", 2000, Aborted}, {"abort", 2001, Aborted},
	} {
		p := newLonePeer()
		if test.decide != "" {
			c := newDecide(1, newSet("a", "1"))
			c.Commit = test.decide == "commit"
			p.evalOne(c)
		}
		p.clock = test.clockMS
		if got := ParseOutcome(p.evalOne(&Inquire{ID: ID{1}, CoordinatorGroup: 1, DeadlineMS: 2000})); got != test.want {
			t.Errorf("%q at %d: %v, want %v", test.decide, test.clockMS, got, test.want)
		}
	}
}

// newMoveWorld is a world at rest, in which g1 owns what is before b, g2 what is
// from b to c, and so on.
func newMoveWorld(t *testing.T) *world { return newWorld(t, 0, new(tally.Counts)) }

func TestARangeLockIsCutWithItsRange(t *testing.T) {
	for _, boundary := range []partition.Position{positionOf("b2"), positionOf("b2")[:3], positionOf("b1")} {
		w := newMoveWorld(t)
		from, to := w.peers[1], w.peers[0]
		c := newPrepare(1)
		c.Participant = Participant{Span: w.shards[1].span, Ranges: []command.RangeRead{{Start: positionOf("b"), End: positionOf("c")}}}
		if r := from.evalOne(c); r.Err != nil {
			t.Fatal(r.Err)
		}
		left, right := w.shards[1], w.shards[1]
		left.span.End, right.span.Start = boundary, boundary
		w.shards = append(w.shards[:1:1], append([]shard{left, right}, w.shards[2:]...)...)
		w.assignOwners()
		w.handOver(&w.shards[2], to)
		for _, key := range []string{"b", "b1", "b2", "b3"} {
			p := w.shardOf(positionOf(key)).owner
			write := newPrepare(2, newSet(key, "1"))
			write.Participant.Span = KeySpan(positionOf(key))
			if r := p.evalOne(write); !errors.Is(r.Err, ErrLocked) {
				t.Errorf("boundary %q: %s is written in a range that is locked: %v", []byte(boundary), key, r.Err)
			}
			if p.locks.FindKeyConflict(ID{}, positionOf(key), true) == nil {
				t.Errorf("boundary %q: the lock on %s is lost", []byte(boundary), key)
			}
		}
		for _, s := range w.shards[1:3] {
			if r := s.owner.evalOne(&Resolve{ID: ID{1}, Span: s.span, DeadlineMS: 2000}); r.Err != nil || s.owner.locks.Len() > 0 {
				t.Errorf("boundary %q: %v, %d locks left in %v", []byte(boundary), r.Err, s.owner.locks.Len(), s.span)
			}
		}
	}
}

func TestOnlyTheOwnerConfirms(t *testing.T) {
	w := newMoveWorld(t)
	from, to := w.peers[1], w.peers[0]
	c := newPrepare(1, newSet("b1", "1"))
	c.Participant.Span = w.shards[1].span
	from.evalOne(c)
	w.handOver(&w.shards[1], to)
	resolve := &Resolve{ID: ID{1}, Span: w.shards[1].span, Commit: true, DeadlineMS: 2000}
	if r := from.evalOne(resolve); !errors.Is(r.Err, errWrongShard) {
		t.Errorf("the old owner says %d, %v", r.Int, r.Err)
	}
	if r := to.evalOne(resolve); r.Err != nil || r.Int != 1 {
		t.Errorf("the new owner says %d, %v", r.Int, r.Err)
	}
	if r := to.evalOne(c); !errors.Is(r.Err, ErrFinished) {
		t.Errorf("the new owner prepares again: %v", r.Err)
	}
}

// The parts of a transaction are by shard: after a merge a group may have two, and one command
// that resolves both has finished both.
func TestOneResolveFinishesAllPartsInItsSpan(t *testing.T) {
	p := newLonePeer()
	var parts []*Prepare
	for _, key := range []string{"a", "b"} {
		c := newPrepare(1, newSet(key, "1"))
		c.Participant.Span = KeySpan(positionOf(key))
		parts = append(parts, c)
		if r := p.evalOne(c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if r := p.evalOne(&Resolve{ID: ID{1}, Span: space.Span(), DeadlineMS: 2000}); r.Int != 2 {
		t.Fatalf("%d locks, %v", r.Int, r.Err)
	}
	for _, c := range parts {
		if r := p.evalOne(c); !errors.Is(r.Err, ErrFinished) {
			t.Errorf("%v is prepared again: %v", c.Participant.Span, r.Err)
		}
	}
}

// A piece of a part may be resolved by another group, and come back before the
// rest is resolved: what is not locked any more must not be locked again.
func TestAPieceThatIsResolvedStaysSo(t *testing.T) {
	w := newMoveWorld(t)
	home, away := w.peers[1], w.peers[0]
	c := newPrepare(1, newSet("b3", "1"))
	c.Participant.Span = w.shards[1].span
	home.evalOne(c)
	left, right := w.shards[1], w.shards[1]
	left.span.End, right.span.Start = positionOf("b2"), positionOf("b2")
	w.shards = append(w.shards[:1:1], append([]shard{left, right}, w.shards[2:]...)...)
	w.assignOwners()
	w.handOver(&w.shards[2], away)
	if r := away.evalOne(&Resolve{ID: ID{1}, Span: right.span, Commit: true, DeadlineMS: 2000}); r.Int != 1 {
		t.Fatal(r.Err)
	}
	w.handOver(&w.shards[2], home)
	if r := home.evalOne(c); !errors.Is(r.Err, ErrFinished) {
		t.Errorf("it is prepared again: %v", r.Err)
	}
}
